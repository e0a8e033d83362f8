"""The oracle is judged: a real run passes, and every way of spoiling its record is found."""

import copy
import dataclasses
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.real import RealKafka
from streamfilter.assembly import WINDOW_DOCUMENTS
from streamfilter.engine.changelog import decode_batch, encode_batch
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.matching.retention import Retention
from streamfilter.model import Record
from streamfilter.similarity.scheme import Scheme
from tests.faults.expected import history_of
from tests.faults.oracle import Finding, judge, judge_index
from tests.faults.recording import Recording, Watcher, record_run
from tests.faults.story import Story
from tests.kafka.test_standby import scraped
from tests.support.forge import Forge
from tests.support.stage import Stage
from tests.truth.changelog import windows_at
from tests.truth.history import History

SEED, RECORDS = 20_261_124, 600
PACE, REACH = 600_000, 300
"""Ten minutes from record to record: a window holds a day."""
RETENTION = Retention(time=150 * PACE, least=WINDOW_DOCUMENTS)
"""Of half of the stories that come back."""
OURS = "__streamfilter."

pytestmark = pytest.mark.slow(1.5)  # all look at one run


@dataclasses.dataclass
class Run:
    recording: Recording
    secret: bytes
    index: Path
    scheme: Scheme

    def judged(self, recording: Recording) -> tuple[list[Finding], History]:
        task = history_of(self.scheme, self.secret, RETENTION)
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


def test_a_right_run_is_right(run: Run) -> None:
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


Spoil = Callable[[Recording], None]


def of(recording: Recording, place: str) -> list[Record]:
    return max(recording.outputs[place].values(), key=len)


def drop(recording: Recording) -> None:
    del of(recording, "unique")[7]


def drop_dead_letter(recording: Recording) -> None:
    del of(recording, "dead_letter")[0]


def double(recording: Recording) -> None:
    records = of(recording, "duplicates")
    records.insert(9, records[8])


def double_elsewhere(recording: Recording) -> None:
    of(recording, "dead_letter").append(of(recording, "unique")[3])


def swap(recording: Recording) -> None:
    records = of(recording, "unique")
    records[4], records[5] = records[5], records[4]


def make_up(recording: Recording) -> None:
    records = of(recording, "unique")
    records.append(dataclasses.replace(records[0], key=b"nobody"))


def misplace(recording: Recording) -> None:
    moved = of(recording, "duplicates").pop(3)
    plain = tuple(pair for pair in moved.headers if not pair[0].startswith(OURS))
    records = recording.outputs["unique"][moved.source.partition]
    records.insert(3, dataclasses.replace(moved, headers=plain))


def change_value(recording: Recording) -> None:
    records = of(recording, "unique")
    records[2] = dataclasses.replace(records[2], value=(records[2].value or b"") + b" ")


def change_timestamp(recording: Recording) -> None:
    records = of(recording, "unique")
    records[2] = dataclasses.replace(records[2], timestamp=records[2].timestamp + 1)


def rewrite(recording: Recording, name: str, change: Callable[[str], str]) -> None:
    """Change a header of the last duplicate: the model's other words about it stay true."""
    records = of(recording, "duplicates")
    headers = tuple(
        (key, change((value or b"").decode()).encode() if key == OURS + name else value)
        for key, value in records[-1].headers
    )
    records[-1] = dataclasses.replace(records[-1], headers=headers)


def change_matches(recording: Recording, **fields: object) -> None:
    def change(told: str) -> str:
        matches = json.loads(told)
        matches[0].update(fields)
        return json.dumps(matches)

    rewrite(recording, "matches", change)


def match_itself(recording: Recording) -> None:
    headers = dict(of(recording, "duplicates")[-1].headers)
    at = {key: int(headers[f"{OURS}source.{key}"] or 0) for key in ("partition", "offset")}
    change_matches(recording, **at)


def match_the_withheld(recording: Recording) -> None:
    headers = dict(of(recording, "duplicates")[0].headers)
    at = {key: int(headers[f"{OURS}source.{key}"] or 0) for key in ("partition", "offset")}
    change_matches(recording, **at)


def match_the_forgotten(recording: Recording) -> None:
    first = of(recording, "unique")[0]
    at = next(
        each.source
        for records in recording.inputs.values()
        for each in records
        if each.key == first.key
    )
    change_matches(recording, partition=at.partition, offset=at.offset)


def name_another_match(recording: Recording) -> None:
    rewrite(recording, "match.id", lambda _: "d0")


def change_similarity(recording: Recording) -> None:
    change_matches(recording, similarity=0.8123)


def change_verdict(recording: Recording) -> None:
    rewrite(recording, "verdict", lambda told: "x" + told)


def see_the_aborted(recording: Recording) -> None:
    seen = recording.seen["unique", 0]
    seen.insert(10, (seen[10][0] - 1, b"aborted"))


def see_and_lose_the_end(recording: Recording) -> None:
    of(recording, "unique").pop()


def forget_a_batch(recording: Recording) -> None:
    log = recording.changelog[0]
    batches = [n for n, (_, value) in enumerate(log) if value[1] == 3]
    recording.changelog[0] = log[: batches[3] + 1] + log[batches[4] + 1 :]


def forget_a_document(recording: Recording) -> None:
    log = recording.changelog[0]
    del log[next(n for n, (_, value) in enumerate(log) if value[1] == 2)]


def age_less(recording: Recording) -> None:
    """Let the first batch that forgets remember what the one before it did."""
    log = recording.changelog[0]
    batches = {n: decode_batch(value) for n, (_, value) in enumerate(log) if value[1] == 3}
    at, batch = next(found for found in batches.items() if found[1].mark.horizon)
    less = dataclasses.replace(batch, mark=dataclasses.replace(batch.mark, horizon=0))
    log[at] = log[at][0], encode_batch(less)


def cut_less(recording: Recording) -> None:
    recording.starts[0] = 0


def stop_early(recording: Recording) -> None:
    log = recording.changelog[0]
    batches = [n for n, (_, value) in enumerate(log) if value[1] == 3]
    recording.changelog[0] = log[: batches[-2] + 1]


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (drop, "lost"),
        (drop_dead_letter, "lost"),
        (double, "doubled"),
        (double_elsewhere, "doubled"),
        (swap, "order"),
        (make_up, "stranger"),
        (misplace, "misjudged"),
        (change_value, "misjudged"),
        (change_timestamp, "misjudged"),
        (match_itself, "later"),
        (match_the_withheld, "withheld"),
        (match_the_forgotten, "forgotten"),
        (name_another_match, "misjudged"),
        (change_similarity, "misjudged"),
        (change_verdict, "misjudged"),
        (see_the_aborted, "prefix"),
        (see_and_lose_the_end, "prefix"),
        (forget_a_batch, "changelog"),
        (forget_a_document, "changelog"),
        (age_less, "changelog"),
        (cut_less, "cut"),
        (stop_early, "lost"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_planted_fault_is_found(run: Run, spoil: Spoil, check: str) -> None:
    spoilt = copy.deepcopy(run.recording)
    spoil(spoilt)
    findings, _ = run.judged(spoilt)
    assert check in {finding.check for finding in findings}, findings


def test_an_index_that_forgot_a_document_is_found(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.index, tmp_path / "state")
    _, task = run.judged(run.recording)
    del task.law.documents[max(task.law.documents)]
    assert [each.check for each in judge_index(tmp_path / "state", run.secret, task)] == ["state"]


def test_an_index_with_another_bucket_is_found(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.index, tmp_path / "state")
    _, task = run.judged(run.recording)
    alive = windows_at(task.batches)[-1].number
    buckets = {place: each for place, each in task.law.buckets.items() if place[0] == alive}
    max(buckets.values(), key=len).pop()
    assert [each.check for each in judge_index(tmp_path / "state", run.secret, task)] == ["state"]
