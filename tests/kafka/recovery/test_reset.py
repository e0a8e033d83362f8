"""`reset`: a group begins anew; killed after any step, `run` refuses and a second one finishes."""

import random
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter import cli
from streamfilter.commands import reset
from streamfilter.kafka import group_reset
from tests.kafka.story import index_of, records, texts, verdicts
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


def run(stage: Stage, **sections: Any) -> dict[str, tuple[str, str | None]]:
    stage.run(**{**SETTINGS, **sections})
    return verdicts(stage)


def refused(stage: Stage, **sections: Any) -> str:
    return stage.refused(**{**SETTINGS, **sections})


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


def test_nothing_is_changed_without_yes_and_all_that_would_go_is_named(stage, capsys):
    stage.produce(records(STORIES))
    run(stage)
    before = everything(stage)
    for dry in ([], ["--dry-run"], ["--outputs"]):
        assert command(stage, *dry) == 0
        assert "nothing was changed; --yes does it" in capsys.readouterr().err
    assert command(stage, "--yes", "--dry-run") == 64
    capsys.readouterr()
    assert command(stage, "--outputs") == 0
    said = capsys.readouterr().err
    for each in (f"topic {stage.changelog}", f"the group {stage.group} and its offsets",
                 f"the index in {stage.directory / 'state'}", f"records of topic {stage.unique}",
                 f"begins at input.start (earliest) of {stage.input}"):  # fmt: skip
        assert each in said
    assert everything(stage) == before


def test_a_group_that_was_reset_judges_everything_as_if_it_had_never_worked(stage: Stage) -> None:
    stage.produce(records(STORIES))
    first = run(stage)
    remembered = index_of(stage)
    assert command(stage, "--outputs", "--yes") == 0
    assert verdicts(stage) == {}
    assert not (stage.directory / "state" / "index.json").exists()
    assert run(stage) == first
    assert index_of(stage).keys() == remembered.keys()


@pytest.mark.parametrize("after", STEPS)
def test_a_kill_after_any_step_is_refused_by_run_and_finished_by_a_second_reset(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    stage.produce(records(STORIES))
    first = run(stage)
    where, name = STEPS[after]
    step: Callable[..., None] = getattr(where, name)

    def and_no_further(*given: Any) -> None:
        step(*given)
        raise Killed

    monkeypatch.setattr(where, name, and_no_further)
    with pytest.raises(Killed):
        command(stage, "--outputs", "--yes")
    monkeypatch.setattr(where, name, step)
    if after == "directory":
        assert run(stage) == first
        return
    said = refused(stage)
    assert ("streamfilter reset" if after != "group" else "has applied") in said
    assert command(stage, "--outputs", "--yes") == 0
    assert command(stage, "--outputs", "--yes") == 0  # and once more, where nothing is left
    assert run(stage) == first


def test_a_group_that_is_alive_is_refused_and_named_and_nothing_is_touched(stage, capsys):
    stage.produce(records(STORIES))
    process = stage.start(**SETTINGS)
    stage.drain(process)
    before = everything(stage)
    assert command(stage, "--yes", **SETTINGS) == 78
    said = capsys.readouterr().err
    assert f"the group '{stage.group}' is alive" in said
    assert "counts as alive for 6 s (kafka.session_timeout)" in said
    assert everything(stage) == before
    assert process.terminate() == 0


def test_a_process_that_starts_in_between_keeps_its_group(stage, monkeypatch, capsys):
    stage.produce(records(STORIES))
    process = stage.start(**SETTINGS)
    stage.drain(process)
    monkeypatch.setattr(reset, "_refuse_alive", lambda *_: None)
    monkeypatch.setattr(group_reset, "delete_topics", lambda *_: None)
    assert command(stage, "--yes") == 75
    assert "has started meanwhile" in capsys.readouterr().err
    assert process.terminate() == 0


def test_each_partitions_index_goes_and_anything_else_in_the_directory_stays(kafka, tmp_path):
    stage = Stage(kafka.bootstrap, tmp_path, partitions=2)
    scope: dict[str, Any] = {"index": {
        "scope": "partition", "path": str(tmp_path / "state"), "seed_file": str(tmp_path / "seed")
    }}  # fmt: skip
    stage.produce(records(STORIES, partitions=2))
    first = run(stage, **scope)
    shutil.rmtree(tmp_path / "state" / "partition-0" / "rocksdb")  # damaged is removed as well
    (tmp_path / "state" / "notes.txt").write_text("mine")
    assert command(stage, "--outputs", "--yes", **scope) == 0
    left = sorted(each.name for each in (tmp_path / "state").rglob("*") if each.is_file())
    assert left == ["lock", "lock", "notes.txt"]
    assert run(stage, **scope) == first


def test_a_compacted_output_is_refused_before_anything_is_touched(stage, capsys):
    stage.produce(records(STORIES))
    run(stage)
    name = f"{stage.group}.compacted"
    create_topics(stage.bootstrap, {name: 1}, config={"cleanup.policy": "compact"})
    before = everything(stage)
    output = {"unique": name, "duplicates": stage.duplicates, "dead_letter": stage.dead_letter}
    assert command(stage, "--outputs", "--yes", output=output) == 78
    assert "is compacted, and its records cannot be deleted" in capsys.readouterr().err
    assert everything(stage) == before


@pytest.mark.parametrize("whose", ["an input", "another group"])
def test_a_topic_that_is_not_the_groups_changelog_is_not_deleted(stage, capsys, whose):
    stage.produce(records(STORIES))
    if whose == "another group":
        run(stage)
    name = f"{stage.group}.orders"
    create_topics(stage.bootstrap, {name: 1})
    producer = Producer({"bootstrap.servers": stage.bootstrap})
    producer.produce(name, b"an order")
    producer.flush(10)
    slip: dict[str, Any] = {"index": {"changelog": name, "path": str(stage.directory / "none")}}
    if whose == "another group":
        slip["index"]["changelog"] = stage.changelog
        slip["kafka"] = {"group": f"{stage.group}-b"}
    before = everything(stage)
    assert command(stage, "--yes", **slip) == 78
    assert "is not the changelog of group" in capsys.readouterr().err
    assert everything(stage) == before


def test_nothing_is_made_by_a_reset_of_what_never_worked(stage, capsys):
    before = everything(stage)
    assert command(stage, "--outputs", "--yes") == 0
    assert "is not there" in capsys.readouterr().err
    assert everything(stage) == before
    assert not list(stage.directory.glob("state*"))
    spot = TopicPartition(stage.changelog, 0)
    assert (
        spot.topic not in AdminClient({"bootstrap.servers": stage.bootstrap}).list_topics().topics
    )
