"""Are a million documents through two edges and a judge what one process makes of them?

A real Kafka of one node. Then one process reads the same documents in the order of the judge's
changelog. Each must be in the same output, with the same verdict, method and matches. The rate is
by the clock, from the first record to the last one that was forwarded.
"""

import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from deploy.local.real import RealKafka
from streamfilter.bench.result import BenchResult, Check, Options, Row
from streamfilter.engine.messages.changelog import decode_batch
from streamfilter.engine.messages.changelog_header import BATCH, kind_of
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import Input, end_offsets, produce

COUNT, QUICK = 1_000_000, 20_000
SIZE, WORDS, RECENT = 130, 20_000, 100_000
PARTITIONS, EDGES = 4, 2
WAIT_SECONDS, LOOK_SECONDS = 5_400, 1.0
HEADER = "__streamfilter."


def run(options: Options) -> BenchResult:
    """Filter the documents twice, and compare."""
    documents = [*texts(QUICK if options.quick else COUNT)]
    count = len(documents)
    with (
        RealKafka(1) as kafka,
        tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory,
    ):
        both = [Path(directory) / name for name in ("cluster", "alone")]
        for each in both:
            each.mkdir()
        options.say(f"{count} documents through {EDGES} edges and a judge")
        with closing(Stage(kafka.bootstrap, both[0], partitions=PARTITIONS)) as stage:
            rows, seconds = clustered(stage, documents)
            found, order = outcomes(stage, count), judged_order(stage)
        options.say("the same through one process")
        with closing(Stage(kafka.bootstrap, both[1])) as alone:
            produce(kafka.bootstrap, alone.input, inputs(documents, order, partitions=1))
            process = alone.start()
            alone.drain(process, timeout_seconds=WAIT_SECONDS)
            assert process.terminate() == 0, process.with_log("did not end well")
            wanted = outcomes(alone, count)
    differ = np.flatnonzero((found != wanted).any(axis=1))
    withheld = int((wanted[:, 1] == 1).sum())
    checks = [
        Check("every document once", bool((found[:, 0] == 1).all()), f"{count} documents"),
        Check("judged once each", sorted(order) == [*range(count)], f"{len(order)} judged"),
        Check("verdicts as one process's", not len(differ), f"{len(differ)} differ: {differ[:3]}"),
        Check("some are withheld", withheld > count / 10, f"{withheld} are"),
    ]  # fmt: skip
    settings = {"documents": count, "bytes": SIZE, "edges": EDGES, "partitions": PARTITIONS}
    rate: Row = {"documents": count, "withheld": withheld, "documents/s": round(count / seconds)}
    return BenchResult({"MiB resident": rows, "by the clock": [rate]}, checks, settings=settings)


def texts(count: int) -> Iterator[str]:
    """Yield texts of about `SIZE` bytes: two of five are copies, half of these nearly."""
    rng, recent = random.Random(35), list[list[str]]()
    words = ["".join(rng.choices("etaoinshrdlucm", k=rng.randint(3, 8))) for _ in range(WORDS)]
    for number in range(count):
        kind = rng.random()
        if number and kind < 0.4:
            text = [*recent[rng.randrange(len(recent))]]
            if kind < 0.2:
                text[-1] = f"x{number}"
        else:
            text = rng.choices(words, k=SIZE * 2 // 13)
        if len(recent) < RECENT:
            recent.append(text)
        else:
            recent[number % RECENT] = text
        yield " ".join(text)


def inputs(documents: Sequence[str], order: Sequence[int], *, partitions: int) -> Iterator[Input]:
    """Yield the documents in this *order*; the key is the number."""
    for place, number in enumerate(order):
        value = json.dumps({"id": f"d{number}", "text": documents[number]}).encode()
        yield Input(value, b"%d" % number, place % partitions)


def clustered(stage: Stage, documents: Sequence[str]) -> tuple[list[Row], float]:
    """Let a judge and edges work off *documents*; return the memory of each, and the seconds."""
    settings = {"cluster": {"enabled": True}}
    judge = stage.start(state="judge", arguments=["--role", "judge"], **settings)
    judge.wait_for_state("running")
    edges = [
        stage.start(state=f"edge{n}", arguments=["--role", "edge"], **settings)
        for n in range(EDGES)
    ]
    roles = {"judge": judge, **{f"edge {n + 1}": each for n, each in enumerate(edges)}}
    for each in edges:
        each.wait_for(lambda now: now.get("state") in ("running", "standby"), what="a start")
    before = {name: resident(each) for name, each in roles.items()}
    begun = time.monotonic()
    order = range(len(documents))
    produce(stage.bootstrap, stage.input, inputs(documents, order, partitions=PARTITIONS))
    ends = end_offsets(stage.bootstrap, stage.input)
    while (at := forwarded(stage)) != ends:
        for each in roles.values():
            assert each.child.exit_code is None, each.with_log("ended")
        assert time.monotonic() - begun < WAIT_SECONDS, f"{at} of {ends}"
        time.sleep(LOOK_SECONDS)
    seconds = time.monotonic() - begun
    rows: list[Row] = [
        {"role": name, "begin": before[name], "end": resident(each)} for name, each in roles.items()
    ]
    for each in (*edges, judge):
        assert each.terminate() == 0, each.with_log("did not end well")
    return rows, seconds


def resident(process: FilterProcess) -> int:
    """Return the MiB of a process that are in memory."""
    status = Path(f"/proc/{process.child.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1024


def forwarded(stage: Stage) -> dict[int, int]:
    """Return up to where the edges have forwarded the input."""
    with closing(consumer(stage, f"{stage.group}.edge")) as client:
        spots = [TopicPartition(stage.input, p) for p in range(PARTITIONS)]
        return {each.partition: each.offset for each in client.committed(spots, timeout=60)}


def consumer(stage: Stage, group: str) -> Consumer:
    """Return a consumer of what is committed."""
    return Consumer(
        {"bootstrap.servers": stage.bootstrap, "group.id": group, "enable.auto.commit": False,
         "enable.partition.eof": True, "isolation.level": "read_committed"}
    )  # fmt: skip


def messages(stage: Stage, topic: str) -> Iterator[Message]:
    """Yield all messages of a *topic*, partition by partition in any order."""
    partitions = len(end_offsets(stage.bootstrap, topic))
    with closing(consumer(stage, "reader")) as client:
        client.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        while partitions:
            for message in client.consume(5_000, 1.0):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    partitions -= 1


def outcomes(stage: Stage, count: int) -> Any:
    """Return by number: how often a document came out, where, and a hash of its evidence."""
    found = np.zeros((count, 3), np.int64)
    for place, topic in enumerate((stage.unique, stage.duplicates, stage.dead_letter)):
        for message in messages(stage, topic):
            row = found[int(message.key() or b"")]
            row[0] += 1
            row[1] = place
            if place:
                row[2] = hash(evidence(message))
    return found


def evidence(message: Message) -> tuple[Any, ...]:
    """Return verdict, method and matches, without their places."""
    said: dict[str, Any] = dict(message.headers() or ())
    matches = json.loads(said.get(f"{HEADER}matches") or b"[]")
    found = tuple((each["id"], each["similarity"], each["bands"]) for each in matches)
    return said.get(f"{HEADER}verdict"), said.get(f"{HEADER}method"), found


def judged_order(stage: Stage) -> list[int]:
    """Return the numbers of the documents, in the order that the changelog says."""
    return [
        offset * PARTITIONS + span.partition
        for message in messages(stage, stage.changelog)
        if kind_of(value := message.value() or b"") == BATCH
        for span in decode_batch(value).mark.spans
        for offset in range(span.start, span.end)
    ]
