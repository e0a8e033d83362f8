"""The oracle is judged: a real run passes, and every way of spoiling its record is found."""

import copy
import dataclasses
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.real import RealKafka
from streamfilter.assembly import WINDOW_DOCUMENTS
from streamfilter.engine.messages.changelog import decode_batch, encode_batch
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.matching.blocking.retention import Retention
from streamfilter.model import Record
from streamfilter.similarity.scheme import Scheme
from tests.faults.judging.expected import history_of
from tests.faults.judging.oracle import Finding, judge, judge_index
from tests.faults.judging.recording import Recording, Watcher, record_run
from tests.faults.story import Story
from tests.kafka.recovery.test_standby import scraped
from tests.support.session.forge import Forge
from tests.support.stage import Stage
from tests.support.values import replace
from tests.truth.changelog import windows_at
from tests.truth.history import History

SEED, RECORDS = 20_261_124, 600
PACE, REACH = 600_000, 300
"""Ten minutes from record to record: a window holds a day."""
RETENTION = Retention(time=150 * PACE, least=WINDOW_DOCUMENTS)
"""Of half of the stories that come back."""
OURS = "__streamfilter."


@dataclasses.dataclass
class Run:
    recording: Recording
    secret: bytes
    index: Path
    scheme: Scheme

    def judged(
        self, recording: Recording, task: History | None = None
    ) -> tuple[list[Finding], History]:
        """Judge, by a history that has followed the changelog already or by a new one."""
        task = task or history_of(self.scheme, self.secret, RETENTION)
        return judge(recording, {0: task}, whole=True), task


@pytest.fixture(scope="module")
def run(kafka: RealKafka, forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run in which one process was killed and another went on, with a reader beside it."""
    directory = tmp_path_factory.mktemp("recorded")
    stage = Stage(kafka.bootstrap, directory, partitions=2, launch=forge.launch)
    watcher = Watcher(stage, kafka.bootstrap, tasks=1)
    settings = {
        "batch": {"documents": 25},
        "index": {"retention": f"{RETENTION.time}ms"},
        "kafka": {"session_timeout": "2s"},
        "input": {"topic": stage.input, "tombstones": "forget"},
    }
    try:
        story = Story(random.Random(SEED), 2, forgets=True, reach=REACH, pace=PACE)
        story.begun -= RECORDS * PACE
        stage.produce(story.take(RECORDS))
        killed = stage.start(
            environment={"STREAMFILTER_KILL_POINT": "transaction.offsets:5"}, **settings
        )
        assert killed.wait_for_exit() == -9
        process = stage.start(**settings)
        stage.drain(process)
        # Neither who reads beside it nor what it cuts off is done as soon as the last batch is.
        process.wait_for(
            lambda _: (
                watcher.count == RECORDS and scraped(process, "changelog_surplus_records") == 0
            ),
            what="a reader at the end, and a changelog cut off",
        )
        assert process.terminate() == 0
        recording = record_run(stage, watcher)
        secret = read_seed(stage.directory / "seed")
        yield Run(recording, secret, stage.directory / "state", stage.scheme())
    finally:
        watcher.close()
        stage.close()


def is_right(run: Run) -> History:
    """Hold the run, as it was, to the oracle and to what it needs for all plants."""
    findings, task = run.judged(run.recording)
    assert findings == []
    assert judge_index(run.index, run.secret, task) == []
    outputs = {place: sum(map(len, each.values())) for place, each in run.recording.outputs.items()}
    assert sum(outputs.values()) == RECORDS == len(task.expected)
    assert min(outputs["unique"], outputs["duplicates"]) > 100
    assert outputs["dead_letter"] > 0
    assert sum(bool(batch.forgotten) for batch in task.batches) > 2
    assert run.recording.starts[0] == windows_at(task.batches)[0].offset > 0
    assert sum(map(len, run.recording.seen.values())) == RECORDS, "the reader read all of it"
    return task


Spoil = Callable[[Recording], Any]


def of(recording: Recording, place: str) -> list[Record]:
    return max(recording.outputs[place].values(), key=len)


def changed(recording: Recording, place: str, at: int, **fields: Any) -> None:
    records = of(recording, place)
    records[at] = replace(records[at], **fields)


def swap(recording: Recording) -> None:
    records = of(recording, "unique")
    records[4], records[5] = records[5], records[4]


def misplace(recording: Recording) -> None:
    moved = of(recording, "duplicates").pop(3)
    plain = tuple(pair for pair in moved.headers if not pair[0].startswith(OURS))
    records = recording.outputs["unique"][moved.source.partition]
    records.insert(3, replace(moved, headers=plain))


def rewrite(recording: Recording, name: str, change: Callable[[str], str]) -> None:
    """Change a header of the last duplicate: the model's other words about it stay true."""
    headers = tuple(
        (key, change((value or b"").decode()).encode() if key == OURS + name else value)
        for key, value in of(recording, "duplicates")[-1].headers
    )
    changed(recording, "duplicates", -1, headers=headers)


def change_matches(recording: Recording, **fields: object) -> None:
    def change(said: str) -> str:
        matches = json.loads(said)
        matches[0].update(fields)
        return json.dumps(matches)

    rewrite(recording, "matches", change)


def match_a_duplicate(recording: Recording, at: int) -> None:
    headers = dict(of(recording, "duplicates")[at].headers)
    source = {key: int(headers[f"{OURS}source.{key}"] or 0) for key in ("partition", "offset")}
    change_matches(recording, **source)


def match_the_forgotten(recording: Recording) -> None:
    first = of(recording, "unique")[0].key
    inputs = (each for records in recording.inputs.values() for each in records)
    at = next(each.source for each in inputs if each.key == first)
    change_matches(recording, partition=at.partition, offset=at.offset)


def see_the_aborted(recording: Recording) -> None:
    seen = recording.seen["unique", 0]
    seen.insert(10, (seen[10][0] - 1, b"aborted"))


def batches_of(log: list[tuple[int, bytes]]) -> list[int]:
    return [n for n, (_, value) in enumerate(log) if value[1] == 3]


def forget_a_batch(recording: Recording) -> None:
    log = recording.changelog[0]
    _, _, _, before, gone, *_ = batches_of(log)
    del log[before + 1 : gone + 1]


def age_less(recording: Recording) -> None:
    """Let the first batch that forgets remember what the one before it did."""
    log = recording.changelog[0]
    batches = {n: decode_batch(log[n][1]) for n in batches_of(log)}
    at, batch = next(found for found in batches.items() if found[1].mark.horizon)
    less = replace(batch, mark=replace(batch.mark, horizon=0))
    log[at] = log[at][0], encode_batch(less)


def stop_early(recording: Recording) -> None:
    log = recording.changelog[0]
    del log[batches_of(log)[-2] + 1 :]


SPOILT: dict[str, tuple[Spoil, str]] = {
    "drop": (lambda run: of(run, "unique").pop(7), "lost"),
    "stop early": (stop_early, "lost"),
    "double": (lambda run: of(run, "duplicates").append(of(run, "duplicates")[8]), "doubled"),
    "swap": (swap, "order"),
    "make up": (lambda run: changed(run, "unique", 0, key=b"of no input"), "stranger"),
    "misplace": (misplace, "misjudged"),
    "another value": (lambda run: changed(run, "unique", 2, value=b" "), "misjudged"),
    "match itself": (lambda run: match_a_duplicate(run, -1), "later"),
    "match the withheld": (lambda run: match_a_duplicate(run, 0), "withheld"),
    "match the forgotten": (match_the_forgotten, "forgotten"),
    "another match": (lambda run: rewrite(run, "match.id", lambda _: "d0"), "misjudged"),
    "similarity": (lambda run: change_matches(run, similarity=0.8123), "misjudged"),
    "verdict": (lambda run: rewrite(run, "verdict", lambda said: "x" + said), "misjudged"),
    "see the aborted": (see_the_aborted, "prefix"),
    "forget a batch": (forget_a_batch, "changelog"),
    "age less": (age_less, "changelog"),
    "cut less": (lambda run: run.starts.update({0: 0}), "cut"),
}


def forget_one(task: History) -> None:
    del task.law.documents[max(task.law.documents)]


def change_a_bucket(task: History) -> None:
    alive = windows_at(task.batches)[-1].number
    buckets = {place: each for place, each in task.law.buckets.items() if place[0] == alive}
    max(buckets.values(), key=len).pop()


@pytest.mark.slow(20)
def test_a_right_run_is_right_and_each_planted_fault_is_found(run: Run, tmp_path: Path) -> None:
    right = is_right(run)
    missed = {}
    for name, (spoil, check) in SPOILT.items():
        spoilt = copy.deepcopy(run.recording)
        spoil(spoilt)
        same_log = spoilt.changelog == run.recording.changelog
        findings, _ = run.judged(spoilt, right if same_log else None)
        if check not in {finding.check for finding in findings}:
            missed[name] = findings
    assert missed == {}
    for number, spoil in enumerate((forget_one, change_a_bucket)):
        state = tmp_path / str(number)
        shutil.copytree(run.index, state)
        _, task = run.judged(run.recording)
        spoil(task)
        assert {each.check for each in judge_index(state, run.secret, task)} == {"state"}
