"""Do edges and a judge give what one process gives that reads the records in the changelog's order?

A real Kafka of one node. Every record must be in the same output, with the same key, value,
timestamp and headers. So verdict, matches, similarities and all other evidence are equal. Places of
input records differ between the two runs; they are compared by the number of the record.

The corpora lie beside the checkout (`tests/acceptance/test_corpora.py`); without one its cases are
left out, and a note says so.
"""

import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deploy.local.real import RealKafka
from streamfilter.bench.result import BenchResult, Check, Options, Row
from streamfilter.model import Record
from tests.acceptance.test_corpora import DATA
from tests.faults.judging.expected import SavedLog
from tests.faults.judging.recording import Recording, Watcher, record_run
from tests.support.session.forge import Forge
from tests.support.stage import Stage
from tests.support.topics import Input
from tests.truth.changelog import read_batches

WAIT_SECONDS = 600
COUNT, QUICK = 10_000, 1_000
FORGET_EVERY = 9
"""Records for each tombstone, which forgets a document that came `BEFORE` records earlier."""
BEFORE = 40
BEGUN = 1_000_000_000_000
"""Milliseconds: the timestamp of the first record of a corpus without times."""
RECORDS = {"format": "fields", "fields": {"/title": "words", "/dateline": "words"}}
SOURCES = ("topic", "partition", "offset")
OURS = "__streamfilter."


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison."""

    corpus: str
    edges: int
    partitions: int
    cap: int
    memory: str = ""  # what limits it: ``time``, ``documents``, or nothing
    forgets: bool = False
    records: bool = False  # of fields, instead of texts

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the configuration of both runs."""
        shingle = {"kind": "char", "size": 3} if "tang" in self.corpus else {}
        index: dict[str, Any] = {"bucket_cap": self.cap}
        index |= {"documents_max": 5_000} if self.memory == "documents" else {}
        # A batch ends where a window begins, and the commits are of many years.
        kept = "90d" if self.corpus == NEWS else "900d"
        index |= {"retention": kept} if self.memory == "time" else {}
        tombstones = "forget" if self.forgets else "forward"
        return {
            "input": {"tombstones": tombstones, **(RECORDS if self.records else {})},
            "similarity": {} if self.records else {"shingle": shingle},
            "index": index,
            "batch": {"documents": 500},
            "limits": {"dead_letter_share": 1.0},
        }


NEWS, COMMITS, POEMS = "reuters21578", "kafka_commits", "tang_poems_zh"
CASES = (
    Case(NEWS, 1, 1, cap=8),
    Case(NEWS, 2, 4, cap=2, memory="documents", forgets=True),
    Case(NEWS, 3, 8, cap=1, forgets=True),
    Case(NEWS, 5, 8, cap=8, memory="time"),
    Case(COMMITS, 1, 2, cap=1, memory="time", forgets=True),
    Case(COMMITS, 2, 3, cap=8, forgets=True),
    Case(COMMITS, 3, 5, cap=2),
    Case(COMMITS, 5, 6, cap=1, memory="documents"),
    Case(POEMS, 1, 7, cap=2, forgets=True),
    Case(POEMS, 2, 2, cap=1),
    Case(POEMS, 3, 3, cap=8, memory="documents", forgets=True),
    Case(POEMS, 5, 5, cap=2, memory="documents"),
    Case(NEWS, 2, 2, cap=8, records=True, forgets=True),
    Case(NEWS, 3, 4, cap=1, records=True, memory="documents"),
)
"""Each corpus has each cap and each number of edges."""


def run(options: Options) -> BenchResult:
    """Compare all cases."""
    rows: list[Row] = []
    checks: list[Check] = []
    missing = [each for each in (NEWS, COMMITS, POEMS) if not path_of(each).exists()]
    cases = [each for each in CASES if each.corpus not in missing] * options.repeat
    with RealKafka(1) as kafka, Forge() as forge:
        for number, case in enumerate(cases):
            options.say(f"{number + 1} of {len(cases)}: {case}")
            inputs = [*corpus(case, QUICK if options.quick else COUNT)]
            with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory:
                withheld, found = compared(case, inputs, stages(kafka, Path(directory), forge))
            name = " ".join(f"{key}={value}" for key, value in asdict(case).items())
            detail = f"{len(found)} of {len(inputs)} records differ: {found[:1]}"
            options.say(f"{detail}; {withheld} were withheld")
            checks.append(Check(name, not found and withheld > 0, detail))
            rows.append({**asdict(case), "input": len(inputs), "withheld": withheld,
                         "differ": len(found)})  # fmt: skip
    notes = [f"{each} is not beside this checkout: its cases are left out" for each in missing]
    return BenchResult({"records": rows}, checks, notes=notes)


def stages(kafka: RealKafka, directory: Path, forge: Forge) -> Callable[..., Stage]:
    """Return a maker of stages with directories of their own."""

    def make(*, partitions: int = 1) -> Stage:
        own = Path(tempfile.mkdtemp(dir=directory))
        return Stage(kafka.bootstrap, own, partitions=partitions, launch=forge.launch)

    return make


def path_of(corpus: str) -> Path:
    """Return the file of a corpus."""
    return DATA / f"{corpus}.jsonl.gz"


def corpus(case: Case, count: int) -> Iterator[Input]:
    """Yield the first records of a corpus, with tombstones between them if the case forgets."""
    with gzip.open(path_of(case.corpus), "rt") as file:
        each = (json.loads(line) for line, _ in zip(file, range(count), strict=False))
        yield from inputs_of(case, each)


def inputs_of(case: Case, documents: Iterator[dict[str, Any]]) -> Iterator[Input]:
    """Yield *documents* as records, each with its number as a header."""
    ids: list[str] = []
    number = 0

    def made(value: bytes | None, key: str, time: int) -> Input:
        nonlocal number
        number += 1
        headers = (("n", b"%d" % number),)
        return Input(value, key.encode(), number % case.partitions, headers, time)

    for each in documents:
        ids.append(each["id"])
        stamp = each.get("ts", 0) * 1_000 or BEGUN + number
        yield made(json.dumps(each, ensure_ascii=False).encode(), f"k{number}", stamp)
        if case.forgets and len(ids) % FORGET_EVERY == 0:
            yield made(None, ids[-BEFORE:][0], stamp)


def compared(
    case: Case, inputs: Sequence[Input], make_stage: Callable[..., Stage]
) -> tuple[int, list[str]]:
    """Run both; return how many records were withheld, and those that differ."""
    stage, alone = make_stage(partitions=case.partitions), make_stage()
    with closing(stage), closing(alone):
        judged = cluster(case, stage, inputs)
        ordered = in_order(judged)
        assert len(ordered) == len(inputs), f"{len(ordered)} of {len(inputs)} were judged"
        alone.produce(Input(r.value, r.key, 0, r.headers, r.timestamp) for r in ordered)
        alone.run(**case.settings)
        wanted = by_number(record_run(alone))
        found = by_number(judged)
    differ = [
        f"{number}: {found.get(number)} instead of {each}"
        for number, each in wanted.items()
        if found.get(number) != each
    ]
    return sum(place == "duplicates" for (place, *_), *_ in wanted.values()), differ


def cluster(case: Case, stage: Stage, inputs: Sequence[Input]) -> Recording:
    """Let a judge and edges work off *inputs*; return what they left behind."""
    settings = {**case.settings, "cluster": {"enabled": True}}
    with closing(Watcher(stage, stage.bootstrap, 1)) as watcher:
        edges = [
            stage.start(state=f"edge{n}", arguments=["--role", "edge"], **settings)
            for n in range(case.edges)
        ]
        edges[0].wait_for(lambda now: "no judge has begun" in now.get("detail", ""), what="a wait")
        judge = stage.start(state="judge", arguments=["--role", "judge"], **settings)
        for each in edges:
            # More edges than partitions are idle.
            each.wait_for(lambda now: now.get("state") in ("running", "standby"), what="a start")
        stage.produce(inputs)
        deadline = time.monotonic() + WAIT_SECONDS
        while watcher.count < len(inputs):
            for each in (judge, *edges):
                assert each.child.exit_code is None, each.with_log("ended")
            assert time.monotonic() < deadline, f"{watcher.count} of {len(inputs)} came out"
            time.sleep(0.2)
        for each in (*edges, judge):
            assert each.terminate() == 0, each.with_log("did not end well")
        return record_run(stage, watcher)


def in_order(judged: Recording) -> list[Record]:
    """Return the inputs in the order that the changelog says."""
    return [
        record
        for batch in read_batches(SavedLog(judged.changelog[0]))
        for p, (begin, end) in sorted(batch.spans.items())
        for record in judged.inputs[p]
        if begin <= record.source.offset < end
    ]


def by_number(judged: Recording) -> dict[bytes, list[tuple[Any, ...]]]:
    """Return what came out of each record, by its number; places are numbers of records, too."""
    numbers = {
        (each.source.topic, p, each.source.offset): number_of(each)
        for p, records in judged.inputs.items()
        for each in records
    }
    found: dict[bytes, list[tuple[Any, ...]]] = {}
    for place, partitions in judged.outputs.items():
        for each in (each for records in partitions.values() for each in records):
            came = place, each.key, each.value, each.timestamp, plain(each, numbers)
            found.setdefault(number_of(each), []).append(came)
    return found


def number_of(record: Record) -> bytes:
    return dict(record.headers)["n"] or b""


def plain(record: Record, numbers: dict[tuple[str, int, int], bytes]) -> dict[str, Any]:
    """Return the headers of an output record, with numbers of records instead of places."""
    said: dict[str, Any] = {name: value for name, value in record.headers if name != "n"}
    for what in ("source", "match", "error"):
        names = [f"{OURS}{what}.{name}" for name in SOURCES]
        if names[0] in said:
            topic, p, offset = (said.pop(name).decode() for name in names)
            said[what] = numbers[topic, int(p), int(offset)]
    if matches := said.pop(f"{OURS}matches", None):
        said["matches"] = [
            each | dict.fromkeys(SOURCES)
            | {"record": numbers[each["topic"], each["partition"], each["offset"]]}
            for each in json.loads(matches)
        ]  # fmt: skip
    return said
