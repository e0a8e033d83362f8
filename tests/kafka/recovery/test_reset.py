"""`reset`: a group begins anew; killed after any step, `run` refuses and a second one finishes."""

import random
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from deploy.local.real import RealKafka
from streamfilter import cli
from streamfilter.commands import reset
from streamfilter.kafka import group_reset
from tests.kafka.story import index_of, records, texts, verdicts
from tests.support.session.forge import Forge
from tests.support.stage import Stage
from tests.support.topics import create_topics, end_offsets

SETTINGS: dict[str, Any] = {
    "batch": {"documents": 10, "latency": "10s"},
    "kafka": {"session_timeout": "6s"},
}
STORIES = texts(random.Random(31), 40)
STEPS = {
    "changelog": (group_reset, "delete_topics"),
    "outputs": (group_reset, "empty_outputs"),
    "group": (group_reset, "delete_group"),
    "directory": (reset, "wipe_index"),
}


class Killed(BaseException):
    """What comes instead of the next line."""


@pytest.fixture(scope="module")
def worked(
    kafka: RealKafka, forge: Forge, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """A group that has judged the stories; each test here leaves it like that."""
    stage = Stage(kafka.bootstrap, tmp_path_factory.mktemp("worked"), launch=forge.launch)
    stage.produce(records(STORIES))
    stage.run(**SETTINGS)
    yield stage
    stage.close()


def command(stage: Stage, *arguments: str, **sections: Any) -> int:
    return cli.main(["reset", "--config", str(stage.configuration(**sections)), *arguments])


def everything(stage: Stage) -> tuple[Any, ...]:
    """Return what a reset may change."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    topics = admin.list_topics(timeout=10).topics
    groups = {each.group_id for each in admin.list_consumer_groups().result().valid}
    ends = {name: end_offsets(stage.bootstrap, name) for name in topics if stage.group in name}
    files = sorted(str(each) for each in stage.directory.rglob("*.sst"))
    return stage.group in groups, ends, files, {n: len(f) for n, f in stage.outputs().items()}


def test_nothing_is_changed_without_yes_and_all_that_would_go_is_named(worked, capsys):
    before = everything(worked)
    for dry in ([], ["--dry-run"], ["--outputs"]):
        assert command(worked, *dry) == 0
        said = capsys.readouterr().err
        assert "nothing was changed; --yes does it" in said
    for each in (f"topic {worked.changelog}", f"the group {worked.group} and its offsets",
                 f"the index in {worked.directory / 'state'}", f"records of topic {worked.unique}",
                 f"begins at input.start (earliest) of {worked.input}"):  # fmt: skip
        assert each in said
    assert command(worked, "--yes", "--dry-run") == 64
    assert everything(worked) == before


@pytest.mark.parametrize("after", STEPS)
def test_a_kill_after_any_step_is_refused_by_run_and_finished_by_a_second_reset(
    worked: Stage, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """Once the last step is done, the group judges everything as if it had never worked."""
    first, remembered = verdicts(worked), index_of(worked)
    where, name = STEPS[after]
    step: Callable[..., None] = getattr(where, name)

    def and_no_further(*given: Any) -> None:
        step(*given)
        raise Killed

    monkeypatch.setattr(where, name, and_no_further)
    with pytest.raises(Killed):
        command(worked, "--outputs", "--yes")
    monkeypatch.setattr(where, name, step)
    if after != "directory":
        said = worked.refused(**SETTINGS)
        assert ("streamfilter reset" if after != "group" else "has applied") in said
        assert command(worked, "--outputs", "--yes") == 0
        assert command(worked, "--outputs", "--yes") == 0  # and once more, where nothing is left
    assert verdicts(worked) == {}
    assert not (worked.directory / "state" / "index.json").exists()
    worked.run(**SETTINGS)
    assert verdicts(worked) == first
    assert index_of(worked).keys() == remembered.keys()


def test_a_group_that_is_alive_is_refused_and_one_that_starts_meanwhile_keeps_its_offsets(
    worked: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process = worked.start(**SETTINGS)
    process.wait_for_state("running")
    before = everything(worked)
    assert command(worked, "--yes", **SETTINGS) == 78
    said = capsys.readouterr().err
    assert f"the group '{worked.group}' is alive" in said
    assert "counts as alive for 6 s (kafka.session_timeout)" in said
    monkeypatch.setattr(reset, "_refuse_alive", lambda *_: None)
    monkeypatch.setattr(group_reset, "delete_topics", lambda *_: None)
    assert command(worked, "--yes") == 75
    assert "has started meanwhile" in capsys.readouterr().err
    assert everything(worked) == before
    assert process.terminate() == 0


def test_each_partitions_index_goes_and_anything_else_in_the_directory_stays(kafka, tmp_path):
    stage = Stage(kafka.bootstrap, tmp_path, partitions=2)
    scope: dict[str, Any] = {**SETTINGS, "index": {
        "scope": "partition", "path": str(tmp_path / "state"), "seed_file": str(tmp_path / "seed")
    }}  # fmt: skip
    stage.produce(records(STORIES, partitions=2))
    stage.run(**scope)
    shutil.rmtree(tmp_path / "state" / "partition-0" / "rocksdb")  # damaged is removed as well
    (tmp_path / "state" / "notes.txt").write_text("mine")
    assert command(stage, "--outputs", "--yes", **scope) == 0
    left = sorted(each.name for each in (tmp_path / "state").rglob("*") if each.is_file())
    assert left == ["lock", "lock", "notes.txt"]


def test_a_compacted_output_is_refused_before_anything_is_touched(worked, capsys):
    name = f"{worked.group}.compacted"
    create_topics(worked.bootstrap, {name: 1}, config={"cleanup.policy": "compact"})
    before = everything(worked)
    output = {"unique": name, "duplicates": worked.duplicates, "dead_letter": worked.dead_letter}
    assert command(worked, "--outputs", "--yes", output=output) == 78
    assert "is compacted, and its records cannot be deleted" in capsys.readouterr().err
    assert everything(worked) == before


@pytest.mark.parametrize("whose", ["an input", "another group"])
def test_a_topic_that_is_not_the_groups_changelog_is_not_deleted(worked, capsys, whose):
    slip: dict[str, Any] = {"index": {"path": str(worked.directory / "none")}}
    if whose == "another group":
        slip["index"]["changelog"] = worked.changelog
        slip["kafka"] = {"group": f"{worked.group}-b"}
    else:
        slip["index"]["changelog"] = name = f"{worked.group}.orders"
        create_topics(worked.bootstrap, {name: 1})
        producer = Producer({"bootstrap.servers": worked.bootstrap})
        producer.produce(name, b"an order")
        producer.flush(10)
    before = everything(worked)
    assert command(worked, "--yes", **slip) == 78
    assert "is not the changelog of group" in capsys.readouterr().err
    assert everything(worked) == before


def test_nothing_is_made_by_a_reset_of_what_never_worked(stage, capsys):
    before = everything(stage)
    assert command(stage, "--outputs", "--yes") == 0
    assert "is not there" in capsys.readouterr().err
    assert everything(stage) == before
    assert not list(stage.directory.glob("state*"))
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    assert stage.changelog not in admin.list_topics(timeout=10).topics
