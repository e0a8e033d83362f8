"""Edges and a judge on a real broker, held to a single process that gets the same records."""

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter import cli
from streamfilter.demo.running_filter import Child
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.killpoints import VARIABLE
from tests.cluster.equality import Case, compared, inputs_of
from tests.faults.judging.expected import history_of
from tests.faults.judging.oracle import judge
from tests.faults.judging.recording import record_run
from tests.kafka.story import bytes_of, id_of, records, texts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.texts import TEXTS
from tests.support.topics import Input, alter_topic, end_offsets, header, produce

pytestmark = pytest.mark.slow

CLUSTER = {"cluster": {"enabled": True}, "kafka": {"session_timeout": "6s"}}
WAIT_SECONDS = 120
Make = Callable[..., Stage]


def start(stage: Stage, role: str, name: str = "", **more: Any) -> FilterProcess:
    return stage.start(state=f"{role}{name}", arguments=["--role", role], **CLUSTER, **more)


def committed(stage: Stage, topic: str, partitions: int) -> dict[int, int]:
    """Return the edges' offsets of a *topic*."""
    group = {"bootstrap.servers": stage.bootstrap, "group.id": f"{stage.group}.edge"}
    consumer = Consumer(group)
    try:
        spots = [TopicPartition(topic, p) for p in range(partitions)]
        return {each.partition: each.offset for each in consumer.committed(spots, timeout=30)}
    finally:
        consumer.close()


def drain(stage: Stage, lively: Sequence[FilterProcess]) -> None:
    """Wait until the edges have forwarded everything; none of *lively* may end."""
    ends = end_offsets(stage.bootstrap, stage.input)
    deadline = time.monotonic() + WAIT_SECONDS
    while any((at := committed(stage, stage.input, len(ends)))[p] < end for p, end in ends.items()):
        for process in lively:
            assert process.child.exit_code is None, process.with_log("ended")
        assert time.monotonic() < deadline, lively[-1].with_log(f"{at} of {ends}")
        time.sleep(0.2)


@pytest.mark.long
def test_edges_and_a_judge_give_what_one_process_gives(make_stage: Make) -> None:
    case = Case("", edges=2, partitions=3, cap=1, forgets=True)
    found = enumerate(texts(random.Random(5), 300))
    documents = ({"id": f"d{number}", "text": text} for number, text in found)
    withheld, differ = compared(case, [*inputs_of(case, documents)], make_stage)
    assert differ == []
    assert withheld > 50


@pytest.mark.long
def test_a_judge_withholds_copies_of_what_was_seeded(make_stage: Make, tmp_path: Path) -> None:
    stage, stories = make_stage(), texts(random.Random(6), 30)
    archive = tmp_path / "archive.jsonl"
    lines = [json.dumps({"id": f"old{n}", "text": text}) for n, text in enumerate(stories)]
    archive.write_text("\n".join(lines))
    config = stage.configuration(state="judge", **CLUSTER)
    assert cli.main(["seed", "--config", str(config), str(archive)]) == 0
    judge = start(stage, "judge")
    judge.wait_for_state("running")
    edge = start(stage, "edge")
    stage.produce(records(stories))
    drain(stage, [judge, edge])
    found = stage.outputs()
    assert (len(found["unique"]), len(found["duplicates"])) == (0, 30)
    assert {header(each, "__streamfilter.match.seed") for each in found["duplicates"]} == {
        str(archive)
    }


def test_kills_of_edges_and_judges_change_no_verdict(make_stage: Make) -> None:
    """Two judges and two edges are killed while records come in, each once."""
    rng, stage = random.Random(7), make_stage(partitions=3)
    story = records(texts(rng, 500), partitions=3)
    roles = [("judge", "a"), ("judge", "b"), ("edge", "a"), ("edge", "b")]
    stage.produce(story[:100])
    running = {each: start(stage, *each) for each in roles[:2]}
    while not any(each.status().get("tasks") for each in running.values()):
        time.sleep(0.2)
    running |= {each: start(stage, *each) for each in roles[2:]}
    for at, role in zip(range(100, 500, 100), rng.sample(roles, len(roles)), strict=True):
        stage.produce(story[at : at + 100])
        time.sleep(rng.uniform(0.5, 3.0))
        running[role].child.kill()
        running[role].wait_for_exit()
        running[role] = start(stage, *role)
    drain(stage, list(running.values()))
    for process in running.values():
        assert process.terminate() == 0, process.with_log("did not end well")
    history = history_of(stage.scheme(), read_seed(stage.directory / "seed"))
    assert judge(record_run(stage), {0: history}, whole=True) == []


def typed(command: str) -> list[str]:
    """Return the words of a *command* behind F, which deploy/README.md has in its steps."""
    text = TEXTS["deploy/README.md"].partition("### Edges and a judge")[2].partition("### ")[0]
    assert f"`{command}`" in text
    return command.partition(" F")[2].split()


def owed(stage: Stage) -> int:
    """Return the lag of the edges on the verdicts."""
    verdicts = f"{stage.group}.verdicts"
    at = committed(stage, verdicts, 2)
    return sum(end - max(0, at[p]) for p, end in end_offsets(stage.bootstrap, verdicts).items())


ALONE = typed("streamfilter run --config F")
JUDGE = typed("streamfilter run --config F --role judge")
EDGE = typed("streamfilter run --config F --role edge")
CHECK = typed("streamfilter check --config F --connect --apply")


class Typing:
    """Types commands on one stage, whose processes are killed."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._story = iter(records(texts(random.Random(9), 700), partitions=2))

    def feed(self) -> None:
        self.stage.produce(islice(self._story, 100))

    def begin(self, words: list[str], at: str = "", name: str = "") -> FilterProcess:
        """Start what is typed; with *at*, return when it has killed itself there."""
        process = self.stage.start(
            state=f"edge{name}" if words is EDGE else "index",
            arguments=words,
            environment={VARIABLE: at} if at else {},
            **(CLUSTER if words else {"kafka": CLUSTER["kafka"]}),
        )
        if at:
            assert process.wait_for_exit() == -9, process.with_log("did not die")
        return process

    def make_topics(self) -> None:
        """Type the check that makes the topics, and kill it once the first one exists."""
        config = str(self.stage.configuration(state="index", **CLUSTER))
        command = [sys.executable, "-m", "streamfilter", "check", "--config", config, *CHECK]
        checking = Child(command, log=self.stage.directory / "check.log")
        admin = AdminClient({"bootstrap.servers": self.stage.bootstrap})
        sketches = f"{self.stage.group}.sketches"
        while checking.exit_code is None and sketches not in admin.list_topics(timeout=30).topics:
            time.sleep(0.05)
        checking.kill()
        assert cli.main(command[3:]) == 0

    def wait_for_no_lag(self, edge: FilterProcess) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while owed(self.stage):
            assert time.monotonic() < deadline, edge.with_log(f"{owed(self.stage)} are left")
            time.sleep(0.2)


def kill(*processes: FilterProcess) -> None:
    for process in processes:
        process.child.kill()
        process.wait_for_exit()


@pytest.mark.slow(80)
def test_one_process_becomes_a_cluster_and_one_process_again(make_stage: Make) -> None:
    """The README's commands, with a kill -9 in each step."""
    stage = make_stage(partitions=2)
    typing = Typing(stage)
    feed, begin = typing.feed, typing.begin
    feed()
    begin(ALONE, "transaction.flushed")
    feed()
    typing.make_topics()
    begin(JUDGE, "transaction.begun")
    judging = begin(JUDGE)
    begin(EDGE, "start.assigned")
    begin(EDGE, "transaction.producing")
    forwarding = begin(EDGE), begin(EDGE, name="2")
    feed()
    drain(stage, [judging, *forwarding])

    kill(*forwarding)
    feed()
    begin(EDGE, "transaction.begun")  # its records have a verdict
    kill(judging)
    feed()  # these have none
    refused = begin(ALONE)
    assert refused.wait_for_exit() == 78, refused.with_log("did not refuse")
    assert "have forwarded" in refused.log.read_text()
    begin(EDGE, "transaction.offsets")
    last = begin(EDGE)
    typing.wait_for_no_lag(last)
    kill(last)
    begin(ALONE, "start.committed")
    assert "a judge worked in group" in stage.end(begin(ALONE))
    feed()  # the edges' offsets are behind for ever, and owe nothing
    assert "a judge worked in group" not in stage.end(begin(ALONE))

    feed()
    judging, third = begin(JUDGE), begin(EDGE)  # behind a hole of verdicts
    drain(stage, [judging, third])
    for process in (third, judging):
        assert process.terminate() == 0, process.with_log("did not end well")
    history = history_of(stage.scheme(), read_seed(stage.directory / "seed"))
    assert judge(record_run(stage), {0: history}, whole=True) == []


@pytest.mark.slow(40)
def test_what_edges_owe_is_known_behind_a_seed_and_to_a_successor(
    make_stage: Make, tmp_path: Path
) -> None:
    """A seed hid it, and one process, or a successor, lost records that had their verdicts."""
    stage = make_stage(partitions=2)
    typing = Typing(stage)
    judging = typing.begin(JUDGE)
    typing.begin(EDGE, "transaction.begun")  # one has joined; its first commit is of positions
    typing.feed()
    typing.begin(EDGE, "transaction.offsets:2")
    kill(judging)
    archive = tmp_path / "archive.jsonl"
    archive.write_text(json.dumps({"id": "old", "text": "none of the others is like this"}))
    config = str(stage.configuration(state="index", **CLUSTER))
    assert cli.main(["seed", "--config", config, str(archive)]) == 0
    alone = typing.begin(ALONE)
    assert alone.wait_for_exit() == 78, alone.with_log("did not refuse")
    assert "have forwarded" in alone.log.read_text()
    new = {
        "input": {"take_over": stage.group},
        "kafka": {**CLUSTER["kafka"], "group": f"{stage.group}.new"},
        "similarity": {"threshold": 0.6},
    }
    assert "those records would be lost" in stage.refused(state="new", **new)
    last = typing.begin(EDGE)  # it may live on: the new group works without it
    typing.feed()
    typing.wait_for_no_lag(last)
    assert "took over from" in stage.end(stage.start(state="new", **new))
    came = stage.outputs()
    ids = [id_of(each) for topic in ("unique", "duplicates") for each in came[topic]]
    assert sorted(ids) == sorted(f"d{n}" for n in range(200))


def test_a_lost_topic_of_sketches_and_a_hostile_range_change_no_byte_of_the_outputs(
    make_stage: Make,
) -> None:
    """Broken ranges are counted, and lost ones are signed again."""
    alone, stage = make_stage(), make_stage()
    story = records(texts(random.Random(3), 200))
    alone.produce(story)
    stage.produce(story[:100])
    judging = start(stage, "judge")
    judging.wait_for_state("running")
    sketches = f"{stage.group}.sketches"
    hostile = [Input(b""), Input(b"S\1" + bytes(500)), Input(b"S\2"), Input(b"\xff" * 60_000)]
    produce(stage.bootstrap, sketches, hostile)
    edges = [start(stage, "edge", str(n)) for n in range(2)]
    drain(stage, [judging, *edges])
    alter_topic(stage.bootstrap, sketches, {"retention.ms": "1", "segment.ms": "100"})
    stage.produce(story[100:])
    drain(stage, [judging, *edges])
    metrics = judging.get("/metrics") or ""
    assert 'dropped_total{reason="undecodable"} 3' in metrics
    assert 'dropped_total{reason="other_version"} 1' in metrics
    assert "a sketch range is not used" in judging.log.read_text()
    for process in (judging, *edges):
        assert process.terminate() == 0, process.with_log("did not end well")
    alone.run()
    assert bytes_of(stage) == bytes_of(alone)
