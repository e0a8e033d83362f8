"""`seed`: documents of a file enter index and changelog once, whatever is killed."""

import heapq
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka.admin import AdminClient

from deploy.local.real import RealKafka
from streamfilter import Deduplicator, assembly, cli
from streamfilter.config.loading import load_config
from streamfilter.engine.batches import pace
from streamfilter.engine.batches.micro_batches import RECORD_BYTES
from streamfilter.engine.clock_and_worker import SystemClock
from streamfilter.engine.ports import Member
from streamfilter.engine.transaction import Load, Transactions
from streamfilter.index.directory import read_only_view
from streamfilter.index.directory.opening import read_identity
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.index.errors import IndexLocked, IndexRefused
from streamfilter.index.input_table import Seed
from streamfilter.kafka import task_factory
from streamfilter.kafka.lifecycle import seeding
from streamfilter.kafka.lifecycle.seed_sources import SeedTopic
from streamfilter.kafka.lifecycle.seed_trial import trial_copy
from streamfilter.killpoints import VARIABLE
from streamfilter.matching.blocking import forgetting
from streamfilter.model import DUPLICATES, Record
from streamfilter.process.signals import Interrupted
from tests.kafka.story import TIMESTAMP, Settings, id_of, index_of, records, texts, verdicts
from tests.support.machine.disk import fill, small_file_system
from tests.support.session.forge import Forge
from tests.support.stage import Stage
from tests.support.topics import Input, header, produce

SETTINGS: Settings = {
    "batch": {"documents": 10, "latency": "10s"},
    "kafka": {"session_timeout": "6s"},
}
STORIES = texts(random.Random(36), 60)
SEEDED, REST = STORIES[:35], STORIES[35:]


@pytest.fixture
def stage(kafka: RealKafka, forge: Forge, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(kafka.bootstrap, tmp_path, launch=forge.launch)
    yield stage
    stage.close()


@pytest.fixture
def embedded(embedded_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage for what no fault meets; its broker does not say who is in a group."""
    monkeypatch.setattr(seeding, "members_of", lambda *_: ((), False))
    return embedded_stage()


def archive(stage: Stage, stories: list[str] = SEEDED, name: str = "archive.jsonl") -> Path:
    path = stage.directory / name
    lines = [json.dumps({"id": f"old{n}", "text": text}) for n, text in enumerate(stories)]
    path.write_text("\n".join(lines) + "\n")
    return path


def seed(stage: Stage, *arguments: Any, **sections: Any) -> int:
    config = stage.configuration(**{**SETTINGS, **sections})
    return cli.main(["seed", "--config", str(config), "-o", "json", *map(str, arguments)])


def topics_of(bootstrap: str) -> set[str]:
    return {*AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics}


def counts(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.slow
def test_a_seeded_document_withholds_its_copies_and_the_evidence_names_the_seed(embedded, capsys):
    path = archive(embedded)
    embedded.produce(records(STORIES))
    assert seed(embedded, path) == 0
    first = counts(capsys)
    assert first["records"] == 35
    assert first["added"] == first["index_documents"] == 35 - first["duplicates"] < 35
    assert not any(embedded.outputs().values()), "nothing leaves"
    seeded = index_of(embedded)
    shutil.rmtree(embedded.directory / "state")
    assert seed(embedded, path) == 0
    assert counts(capsys)["records"] == 0, "a second run adds nothing"
    assert index_of(embedded) == seeded, "restored from the changelog, byte for byte"
    embedded.run(**SETTINGS)
    assert all(
        verdict != "unique" for id_, (verdict, _) in verdicts(embedded).items() if int(id_[1:]) < 35
    )
    evidence = next(each for each in embedded.outputs()["duplicates"] if id_of(each) == "d0")
    assert header(evidence, "__streamfilter.match.seed") == str(path)
    assert header(evidence, "__streamfilter.match.line") == "1"
    (match, *_) = json.loads(header(evidence, "__streamfilter.matches") or "")
    assert (match["seed"], match["line"]) == (str(path), 1)
    config, truth = str(embedded.configuration()), embedded.directory / "truth.tsv"
    truth.write_text("old0\td0\t1.0\n")
    capsys.readouterr()
    assert cli.main(["evaluate", "--config", config, "--topics", "--pairs", str(truth)]) == 0
    said = capsys.readouterr()
    assert "withheld for one of a seed" in said.out
    assert "no longer holds" not in said.err
    assert cli.main(["release", "--config", config, "--id", "d0"]) == 0
    assert f"its original is line 1 of the seed {path}" in capsys.readouterr().out
    asked = ["query", "--config", config, STORIES[0], "-o", "json"]
    assert cli.main(asked) == 0
    assert counts(capsys)["matches"][0]["source"] == {"seed": str(path), "line": 1}


def of_another_service(stage: Stage) -> Stage:
    """Let *stage*, of 3 partitions and with its own directory, forward all stories."""
    stage.directory /= "other"
    stage.directory.mkdir()
    stage.produce(records(STORIES, partitions=3))
    stage.run(**SETTINGS)
    return stage


@pytest.fixture
def other(embedded_stage: Callable[..., Stage]) -> Stage:
    return of_another_service(embedded_stage(partitions=3))


def forwarded(stage: Stage) -> int:
    return len(stage.outputs()["unique"])


def in_time(stage: Stage) -> list[set[str]]:
    """Return the ids of what was forwarded, merged by time, in batches of ten."""
    parts: dict[int, list[Record]] = {}
    for each in stage.outputs()["unique"]:
        parts.setdefault(each.source.partition, []).append(each)
    names = [*map(id_of, heapq.merge(*parts.values(), key=attrgetter("timestamp")))]
    return [{*names[at : at + 10]} for at in range(0, len(names), 10)]


@pytest.mark.slow(60)
def test_a_topic_is_seeded_once_in_the_order_of_time_whatever_is_killed(
    stage, kafka, forge, tmp_path, capsys
):
    other = of_another_service(Stage(kafka.bootstrap, tmp_path, partitions=3, launch=forge.launch))
    count = forwarded(other)
    calm = Stage(kafka.bootstrap, Path(shutil.copytree(tmp_path / "other", tmp_path / "calm")))
    shutil.rmtree(calm.directory / "state")
    asked = ("--topic", other.unique)
    assert seed(calm, *asked, "--dry-run") == 0
    trial = counts(capsys)
    assert calm.changelog not in topics_of(kafka.bootstrap)
    assert not (calm.directory / "state").exists()
    assert not list(calm.directory.glob("*.dry-run"))
    assert (trial["dry_run"], trial["index_bytes"]) == (True, 0)
    assert trial["index_bytes_after"] > trial["changelog_bytes_more"] > 0
    assert seed(calm, *asked) == 0
    found = counts(capsys)
    assert found["records"] == count
    assert all(found[key] == trial[key] for key in ("added", "duplicates", "index_documents"))
    with viewed(calm.directory / "state", seed=read_seed(calm.directory / "seed")) as view:
        names = [name for each in view.scan() for name in each.ids]
    assert [{*names[at : at + 10]} for at in range(0, len(names), 10)] == in_time(other)
    config = stage.configuration(**SETTINGS)
    command = [sys.executable, "-m", "streamfilter", "seed", "--config", str(config), *asked]
    for point in ("transaction.offsets:2", "transaction.committed:1", "index.applied:1"):
        killed = stage.launch(
            command, log=tmp_path / "log", environment={**os.environ, VARIABLE: point}
        )
        assert killed.wait(120) == -9
    assert seed(stage, *asked) == 0
    assert index_of(stage) == index_of(calm)
    capsys.readouterr()
    assert seed(stage, *asked) == 0
    assert counts(capsys)["records"] == 0
    stage.produce(records(STORIES))
    stage.run(**SETTINGS)
    evidence = next(each for each in stage.outputs()["duplicates"] if id_of(each) == "d0")
    assert header(evidence, "__streamfilter.match.seed") == f"{other.unique}/0"
    assert header(evidence, "__streamfilter.match.line") == "0"
    assert {verdict for verdict, _ in verdicts(stage).values()} <= DUPLICATES


@pytest.mark.slow
def test_a_part_of_a_topic_is_a_seed(embedded, other, capsys):
    asked = ("--topic", other.input, "--partition", "1", "--name", "past")
    assert seed(embedded, *asked, "--from", "2", "--to", "4") == 0
    assert counts(capsys)["records"] == 2
    assert seed(embedded, *asked, "--from", "2", "--to", "6") == 0
    assert counts(capsys)["records"] == 2, "it goes on there"
    assert seed(embedded, *asked) == 78, "under this name the first two would never be read"
    assert "from 2, not topic" in capsys.readouterr().err
    assert seed(embedded, *asked, "--from", "4", "--to", "4") == 64


@pytest.mark.slow
def test_a_terminal_sees_how_far_each_kind_of_seed_has_come(embedded, other, capsys, monkeypatch):
    kinds = ([archive(embedded)], ["--topic", other.unique], ["--index", other.directory / "state"])
    for asked in kinds:
        assert seed(embedded, *asked, "--dry-run") == 0
        assert "%" not in capsys.readouterr().err
        with monkeypatch.context() as patch:
            patch.setattr(sys.stderr, "isatty", lambda: True)
            assert seed(embedded, *asked) == 0
        seen = capsys.readouterr().err
        assert "seeding  [" in seen, asked
        assert "100%" in seen, asked


@pytest.mark.slow
def test_another_index_is_merged_and_the_ids_in_both_are_listed(embedded, other, capsys):
    embedded.produce([*records(STORIES[:2]), *records(["a text of its own for d4"], first=4)])
    embedded.run(**SETTINGS)
    asked = ("--index", other.directory / "state", "--name", "other")
    capsys.readouterr()
    assert seed(embedded, *asked, "--dry-run") == 0
    trial = counts(capsys)
    assert seed(embedded, *asked) == 0
    found = counts(capsys)
    assert found["records"] == forwarded(other) == found["added"] + found["duplicates"]
    own = {"seconds", *(key for key in trial if "bytes" in key or key == "dry_run")}
    assert {k: v for k, v in trial.items() if k not in own} == {
        k: v for k, v in found.items() if k not in own
    }
    assert found["ids_in_both"] == len(found["ids"]) > 0
    assert set(found["ids"]) <= {"d0", "d1", "d4"}
    before = index_of(embedded)
    shutil.rmtree(embedded.directory / "state")
    assert seed(embedded, *asked) == 0
    assert counts(capsys)["records"] == 0
    assert index_of(embedded) == before, "restored from the changelog"
    assert seed(embedded, *asked[:2], similarity={"threshold": 0.5}) == 78
    said = capsys.readouterr().err
    assert "cannot enter this index" in said
    assert "scheme." in said
    assert "--topic" in said
    (embedded.directory / "own").write_bytes(b"another secret of the hashes")
    own_seed = {
        "path": str(embedded.directory / "new"),
        "seed_file": str(embedded.directory / "own"),
    }
    assert seed(embedded, *asked[:2], index=own_seed) == 78
    assert "seed: it was built with another one" in capsys.readouterr().err


def of_index(stage: Stage, path: Path, *arguments: str) -> int:
    """Seed the index of a `Deduplicator`, into one with its scheme and without a seed file."""
    loose = {"path": str(stage.directory / "state"), "seed_file": None}
    scheme = json.loads(read_identity(path).scheme)
    same = {"threshold": 0.8, "bands": scheme["bands"], "rows": scheme["rows"]}
    return seed(stage, "--index", path, *arguments, index=loose, similarity=same)


@pytest.mark.slow
def test_a_new_index_takes_the_secret_of_its_first_seed_and_an_old_one_is_refused(
    embedded, tmp_path, capsys
):
    for name in ("one", "two"):
        with Deduplicator(tmp_path / name) as texts:
            texts.add("a", STORIES[0])
    for name, code in (("one", 0), ("two", 78)):
        assert of_index(embedded, tmp_path / name) == code
    assert "the hashes of the two differ" in capsys.readouterr().err


def test_a_batch_of_another_index_may_come_from_several_reads(embedded, tmp_path, monkeypatch):
    monkeypatch.setattr(read_only_view, "SCAN_DOCUMENTS", 7)

    def stored(path: Path) -> dict[str, bytes]:
        with viewed(path) as view:
            return {
                name: found.contents.signatures[row].tobytes()
                for found in view.scan()
                for row, name in enumerate(found.ids)
            }

    with Deduplicator(tmp_path / "one") as index:
        index.add_many((f"d{n}", text) for n, text in enumerate(STORIES))
    assert of_index(embedded, tmp_path / "one", "--trust") == 0
    assert stored(embedded.directory / "state") == stored(tmp_path / "one") != {}


def test_a_dry_run_changes_no_byte_and_works_alone(tmp_path):
    state, room = tmp_path / "new" / "state", tmp_path / "new" / "state.dry-run"
    config = load_config(overrides=[f"index.path={state}"])
    with trial_copy(config) as trial:
        assert trial.index.path.exists()
    assert not list(tmp_path.iterdir()), "the directories it made are gone"
    with Deduplicator(state) as texts:
        texts.add("a", STORIES[0])
    (state / "lock").write_text("of another process")

    def everything() -> dict[Path, bytes]:
        return {each: each.read_bytes() for each in state.rglob("*") if each.is_file()}

    before = everything()
    with trial_copy(config) as trial:
        kept = sorted(trial.index.path.rglob("*"))
        with pytest.raises(IndexLocked), trial_copy(config):
            pass
        assert sorted(trial.index.path.rglob("*")) == kept != []
    assert everything() == before
    (room / "copy").mkdir(parents=True)  # what a kill leaves
    with trial_copy(config):
        pass
    assert not room.exists()
    shutil.copytree(state, room)
    with pytest.raises(IndexRefused, match="move that elsewhere"), trial_copy(config):
        pass
    assert (room / "index.json").exists(), "an index of that name is not ours to delete"


@pytest.mark.slow
def test_a_seed_that_is_stopped_inside_of_a_file_speaks_of_no_outputs(
    tmp_path, monkeypatch, capsys
) -> None:
    """Its reader knows of outputs only, and said that they are as they were."""

    def interrupted(*_: object) -> None:
        raise Interrupted("stopped; the outputs are as they were", exit_code=130)

    monkeypatch.setattr(seeding.Seeding, "run", interrupted)
    (tmp_path / "a.jsonl").write_text('{"id": "a", "text": "one two three four"}\n')
    command = ["seed", "--set", f"index.path={tmp_path / 'state'}", str(tmp_path / "a.jsonl")]
    for option, stays in (((), "what was read is in the index"), (("--dry-run",), "nothing was")):
        assert cli.main([*command, *option]) == 130
        said = capsys.readouterr().err
        assert f"stopped; {stays}" in said
        assert "outputs" not in said


@pytest.mark.slow
def test_a_directory_or_pattern_names_its_files(embedded, monkeypatch, capsys):
    monkeypatch.chdir(embedded.directory)
    (embedded.directory / "old").mkdir()
    archive(embedded, SEEDED[:3], "old/a.jsonl"), archive(embedded, SEEDED[3:5], "old/b.jsonl")
    assert seed(embedded, "old", "--trust") == 0
    assert counts(capsys)["added"] == 5
    assert seed(embedded, "old/*.jsonl") == 0
    assert counts(capsys)["records"] == 0, "they are the seeds that they were"


@pytest.mark.slow
def test_trusted_copies_take_no_earlier_document_out_of_its_buckets(embedded):
    path = archive(embedded, [f"one story that this is version {n} of" for n in range(20)])
    for name in ("a", "b"):
        assert seed(embedded, path, "--trust", "--name", name) == 0
    before = index_of(embedded)
    shutil.rmtree(embedded.directory / "state")
    assert seed(embedded, path, "--trust", "--name", "b") == 0
    assert index_of(embedded) == before, "restored from the changelog"


@pytest.mark.slow
def test_a_trusted_document_with_a_known_id_is_counted_as_a_duplicate(embedded, capsys):
    path = archive(embedded, [f"one story that this is version {n} of" for n in range(5)])
    once = {"known_id": "duplicate"}
    assert seed(embedded, path, "--trust", "--name", "a", input=once) == 0
    assert counts(capsys)["added"] == 5
    assert seed(embedded, path, "--trust", "--name", "b", input=once) == 0
    found = counts(capsys)
    assert (found["added"], found["duplicates"], found["not_judged"]) == (0, 5, 0)


def test_a_service_of_avro_values_takes_an_archive_of_lines(embedded, capsys):
    wire = {"format": "avro", "registry": {"url": "http://127.0.0.1:1"}}
    assert seed(embedded, archive(embedded), input=wire) == 0
    assert counts(capsys)["records"] == 35


def test_a_seed_that_never_had_the_task_does_not_know_the_index(embedded):
    run = seeding.Seeding(load_config([embedded.configuration()]), lambda _: [])
    run.run(lambda: True)
    assert "the index has" not in run.as_text()
    assert run.as_json()["index_documents"] is None


@pytest.mark.slow
def test_a_file_may_grow_and_one_that_changed_is_refused(embedded, capsys):
    path = archive(embedded)
    assert seed(embedded, path, "--name", "a") == 0
    with path.open("a") as file:
        file.write(json.dumps({"id": "new", "text": "a b c d e f g h"}) + "\n")
        file.write("{broken\n" * 2)
    capsys.readouterr()
    assert seed(embedded, path, "--name", "a") == 65
    assert f"{path}, line 37: invalid_json" in capsys.readouterr().err.replace(
        "a, line", f"{path}, line"
    )
    assert seed(embedded, path, "--name", "a", "--max-errors", "2") == 0
    found = counts(capsys)
    assert (found["added"], found["broken"], found["records"]) == (1, 2, 3)
    path.write_text(path.read_text().replace("old3", "odd3"))
    assert seed(embedded, path, "--name", "a") == 78
    assert "is not what it was: its first 38 lines" in capsys.readouterr().err
    assert seed(embedded, path, "--name", "b", "--trust", "--max-errors", "2") == 0
    assert counts(capsys)["added"] == 36, "all as they are, with another name"


def test_what_was_deleted_before_it_was_read_is_named(caplog):
    """Another group's tail, say: the copies of such records would be forwarded unseen."""
    reader = Mock(records=lambda bounds: iter(()), begins=lambda p: 5 + p)
    bounds = {0: (5, 8), 1: (0, 2), 2: (0, 8)}
    topic = SeedTopic(reader, bounds, "news.unique", "id", lambda _: None)
    known = (Seed(f"news.unique/{p}", "topic id", 2) for p in bounds)
    assert not list(topic.pieces({each.name: each for each in known}))
    said = (
        "news.unique/{}: offsets 2 to {} were deleted before they were read: copies of them are new"
    )
    assert caplog.messages == [said.format(0, 4), said.format(2, 6)], "one of them meanwhile"


@pytest.mark.slow
def test_a_seed_on_a_full_disk_ends_with_75_and_goes_on_where_it_was(
    embedded, embedded_stage, tmp_path, capsys
):
    more = [*SEEDED, *texts(random.Random(8), 1_500)]
    given: Settings = {"batch": {"documents": 30, "latency": "10s"}}
    calm = embedded_stage()
    calm.directory /= "calm"
    calm.directory.mkdir()
    with small_file_system(tmp_path / "disk", mib=48) as disk:
        at = {"path": str(disk / "state"), "seed_file": str(embedded.directory / "seed")}
        path = archive(embedded)
        assert seed(embedded, path, "--name", "a", index=at, **given) == 0
        fill(disk / "ballast", leave=300 * 1024)
        archive(embedded, more)
        assert seed(embedded, path, "--name", "a", index=at, **given) == 75
        assert "make room, and run it again: it goes on there" in capsys.readouterr().err
        (disk / "ballast").unlink()
        assert seed(embedded, path, "--name", "a", index=at, **given) == 0
        assert 0 < counts(capsys)["records"] < 1_500, "some were there already"
        shutil.copytree(disk / "state", embedded.directory / "state")
    assert seed(calm, archive(calm), "--name", "a", **given) == 0
    assert seed(calm, archive(calm, more), "--name", "a", **given) == 0
    assert index_of(embedded) == index_of(calm)


@pytest.mark.slow
def test_slow_transactions_do_not_change_the_batches_of_a_seed(
    embedded, embedded_stage, monkeypatch
):
    calm = embedded_stage()
    calm.directory /= "calm"
    calm.directory.mkdir()
    assert seed(calm, archive(calm), "--name", "a") == 0
    monkeypatch.setattr(pace, "HASTE_SHARE", 0.0)
    assert seed(embedded, archive(embedded), "--name", "a") == 0
    assert index_of(embedded) == index_of(calm)


@contextmanager
def restarting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a task start again after each transaction, as after a kill."""
    real = Transactions.run

    def last(self: Transactions, load: Load, member: Member) -> int | None:
        offset = real(self, load, member)
        self.worn = True
        return offset

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "run", last)
        yield


def versions(count: int) -> Iterator[Input]:
    """Yield records of two partitions: new versions, tombstones, copies.

    In one of the partitions records with older timestamps follow in runs, so they come sooner.
    """
    rng = random.Random(11)
    for n in range(count):
        name, at = f"v{rng.randrange(count // 3)}", rng.randrange(2)
        text = {"id": name, "text": rng.choice(STORIES)}
        value = None if n % 7 == 0 else json.dumps(text).encode()
        minutes = count - n + (60 if at == 0 and n % 32 > 3 else 0) + (200 if n % 13 == 0 else 0)
        yield Input(value, name.encode(), at, timestamp=TIMESTAMP - 60_000 * minutes)


def blocked() -> Iterator[Input]:
    """Yield 12 documents, then updates; by partition these are in another order than they arrive.

    In partition 1 old records are behind a new one. If that were judged too early, they would come
    before the updates of partition 0.
    """
    rows = [(n, 0, n) for n in range(12)] + [(n, 0, 20 + n) for n in range(2, 11)]
    rows += [(0, 1, 20), (1, 1, 21), (50, 1, 40), *((n, 1, 12) for n in range(51, 71))]
    for name, at, minute in rows:
        text = " ".join(f"w{name:02}{at}{minute:02}{word}" for word in range(9))
        value = json.dumps({"id": f"v{name:02}", "text": text}).encode()
        yield Input(value, None, at, timestamp=TIMESTAMP - 60_000 * (60 - minute))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "topic", "bytes"])
def test_a_start_after_each_batch_leaves_the_same_ones_where_batches_end_early(
    embedded_stage, embedded, monkeypatch, capsys, kind
):
    """A window, what a record forgets, or the limit of bytes ends a batch before it is full."""
    monkeypatch.setattr(SystemClock, "wall_milliseconds", lambda _: TIMESTAMP)  # of lines
    monkeypatch.setattr(assembly, "WINDOW_DOCUMENTS", 1)
    monkeypatch.setattr(forgetting, "FORGET_MAX", 3)
    monkeypatch.setattr(task_factory, "TASK_BATCH_MIN", 1)
    calm = embedded_stage()
    calm.directory /= "calm"
    calm.directory.mkdir()
    other = embedded_stage(partitions=2)
    given = [*(blocked() if kind == "bytes" else versions(90))]
    produce(other.bootstrap, other.unique, given)
    asked: tuple[Any, ...] = ("--topic", other.unique)
    same: Settings = {
        "index": {"retention": "6000s"},
        "input": {"known_id": "update", "tombstones": "forget"},
    }
    if kind == "lines":
        asked = archive(calm, texts(random.Random(9), 600)), "--name", "a"
        same = {"index": {"documents_max": 1_000}, "batch": {"documents": 60}}
    if kind == "bytes":
        size = 12 * (RECORD_BYTES + len(given[0].value or b""))
        same = {"input": same["input"], "batch": {"documents": 60, "bytes": size}}
    assert seed(calm, *asked, **same) == 0
    found = counts(capsys)
    assert (found["older_than_retention"] > 0) is (kind == "topic")
    with restarting(monkeypatch):
        assert seed(embedded, *asked, **same) == 0
    assert index_of(embedded) == index_of(calm)
    again = counts(capsys)
    assert all(again[key] == found[key] for key in ("records", "older_than_retention"))


@pytest.mark.slow(40)
def test_a_seed_that_lost_its_task_to_a_service_ends_and_none_begins_beside_it(stage, capsys):
    path = archive(stage, texts(random.Random(7), 9_000))
    config = stage.configuration(**{**SETTINGS, "batch": {"documents": 1, "latency": "10s"}})
    hasty = (
        "import sys; from streamfilter import cli; "
        "from streamfilter.kafka.lifecycle import seeding; "
        "seeding.OWNED_SECONDS = 0.0; sys.exit(cli.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", hasty, "seed", "--config", str(config), str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as begun:
        while not (stage.directory / "state").exists():
            time.sleep(0.1)
        service = stage.start(state="other", **SETTINGS)
        service.wait_for(lambda status: status.get("state") == "standby", what="standby")
        begun.send_signal(signal.SIGSTOP)
        service.wait_for(lambda status: status.get("state") == "running", what="running")
        begun.send_signal(signal.SIGCONT)
        _, said = begun.communicate(timeout=60)
    assert begun.returncode in (75, 76), said  # 76: it was fenced within a transaction
    assert "has the task" in said or "was taken over by another process" in said
    for more in ((), ("--dry-run",)):
        assert seed(stage, path, *more) == 78
        said = capsys.readouterr().err
        assert "a process owns the task" in said
        assert "stop every process of the group" in said
    assert service.terminate() == 0


@pytest.mark.parametrize(
    ("arguments", "sections", "code", "said"),
    [
        (["-"], {}, 64, "standard input can be read only once"),
        (["a.jsonl", "a.jsonl"], {}, 64, "given twice"),
        (["a.jsonl", "--name", "x" * 500], {}, 64, "more than 400 bytes"),
        (["a.jsonl", "--name", "ж" * 100], {}, 64, "more than 400 bytes as JSON"),
        (["a.jsonl", "b.jsonl", "--name", "x"], {}, 64, "--name belongs to one FILE"),
        (["none.jsonl"], {}, 64, "cannot read"),
        (["a.jsonl"], {"index": {"scope": "partition"}}, 78, "seed needs index.scope: topic"),
        ([], {}, 64, "give files, or --topic, or --index"),
        (["a.jsonl", "--topic", "x"], {}, 64, "give files, or --topic, or --index"),
        (["--topic", "x", "--from", "1"], {}, 64, "--from and --to need --partition"),
        (["--topic", "x", "--text", "/t"], {}, 64, "belong to files"),
        (["--topic", "none"], {}, 78, "the brokers show no topic 'none'"),
        (["--topic", "IN"], {}, 78, "is the input"),
        (["--topic", "DUPLICATES"], {}, 78, "were not forwarded"),
        (["--topic", "__consumer_offsets"], {}, 78, "is internal: it holds no documents"),
        (["--topic", "IN", "--dry-run"], {}, 78, "is the input"),
        (["--topic", "UNIQUE", "--partition", "9"], {}, 64, "has no partition 9"),
        (["--index", "none"], {}, 64, "there is no index"),
        (["--index", "state"], {}, 64, "is the index itself"),
    ],
)
def test_what_cannot_be_a_seed_is_refused(
    embedded, monkeypatch, capsys, arguments, sections, code, said
):
    monkeypatch.chdir(embedded.directory)
    archive(embedded, name="a.jsonl"), archive(embedded, name="b.jsonl")
    own = {"IN": embedded.input, "DUPLICATES": embedded.duplicates, "UNIQUE": embedded.unique}
    assert seed(embedded, *(own.get(each, each) for each in arguments), **sections) == code
    assert said in capsys.readouterr().err
