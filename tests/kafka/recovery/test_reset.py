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


def test_what_is_only_shown_or_refused_changes_nothing(worked, capsys, monkeypatch):
    topics = [f"{worked.group}.compacted", orders := f"{worked.group}.orders"]
    create_topics(worked.bootstrap, {topics[0]: 1}, config={"cleanup.policy": "compact"})
    create_topics(worked.bootstrap, {orders: 1})
    producer = Producer({"bootstrap.servers": worked.bootstrap, "transactional.id": orders})
    producer.init_transactions(60)
    producer.begin_transaction()  # and it does not end: what is not committed counts too
    producer.produce(orders, b"an order")
    producer.flush(10)
    output = {"unique": topics[0], "duplicates": worked.duplicates}
    none = str(worked.directory / "none")
    before = everything(worked)
    for arguments, settings, code, words in (
        ([], {}, 0, "nothing was changed; --yes does it"),
        (["--dry-run"], {}, 0, "nothing was changed; --yes does it"),
        (["--yes", "--dry-run"], {}, 64, "not both"),
        (["--outputs", "--yes"], {"output": output}, 78, "its records cannot be deleted"),
        (["--yes"], {"index": {"path": none, "changelog": orders}}, 78, "is not the changelog of"),
        (["--yes"], {"index": {"path": none, "changelog": worked.changelog},
                     "kafka": {"group": f"{worked.group}-b"}}, 78, "is not the changelog of group"),
        (["--outputs"], {}, 0, f"the index in {worked.directory / 'state'}"),
    ):  # fmt: skip
        assert command(worked, *arguments, **settings) == code
        said = capsys.readouterr().err
        assert words in said
    for each in (f"topic {worked.changelog}", f"the group {worked.group} and its offsets",
                 f"records of topic {worked.unique}",
                 f"begins at input.start (earliest) of {worked.input}"):  # fmt: skip
        assert each in said
    assert everything(worked) == before
    process = worked.start(**SETTINGS)
    process.wait_for_state("running")
    before = everything(worked)
    assert command(worked, "--yes", **SETTINGS) == 78
    said = capsys.readouterr().err
    assert f"the group '{worked.group}' is alive" in said
    assert "counts as alive for 6 s (kafka.session_timeout)" in said
    monkeypatch.setattr(reset, "_refuse_alive", lambda *_: None)
    monkeypatch.setattr(group_reset, "delete_topics", lambda *_: None)
    assert command(worked, "--yes") == 75, "one that starts meanwhile keeps its offsets"
    assert "has started meanwhile" in capsys.readouterr().err
    assert everything(worked) == before
    assert process.terminate() == 0


def test_a_kill_after_any_step_is_refused_by_run_and_a_later_reset_goes_on(
    worked: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the last step is done, the group judges everything as if it had never worked."""
    first, remembered = verdicts(worked), index_of(worked)
    for after, (where, name) in STEPS.items():
        step: Callable[..., None] = getattr(where, name)

        def and_no_further(*given: Any, step: Callable[..., None] = step) -> None:
            step(*given)
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(where, name, and_no_further)
            with pytest.raises(Killed):
                command(worked, "--outputs", "--yes")
        if after != "directory":
            said = worked.refused(**SETTINGS)
            assert ("streamfilter reset" if after != "group" else "has applied") in said
    assert verdicts(worked) == {}
    assert not (worked.directory / "state" / "index.json").exists()
    assert command(worked, "--outputs", "--yes") == 0  # and once more, where nothing is left
    worked.run(**SETTINGS)
    assert verdicts(worked) == first
    assert index_of(worked).keys() == remembered.keys()


def test_each_partitions_index_goes_and_anything_else_in_the_directory_stays(
    kafka, forge, tmp_path, capsys
):
    stage = Stage(kafka.bootstrap, tmp_path, partitions=2, launch=forge.launch)
    scope: dict[str, Any] = {**SETTINGS, "index": {
        "scope": "partition", "path": str(tmp_path / "state"), "seed_file": str(tmp_path / "seed")
    }}  # fmt: skip
    before = everything(stage)  # of a group that has never worked, and nothing is made of it
    assert command(stage, "--outputs", "--yes", **scope) == 0
    assert "is not there" in capsys.readouterr().err
    assert everything(stage) == before
    assert not list(tmp_path.glob("state*"))
    stage.produce(records(STORIES, partitions=2))
    stage.run(**scope)
    shutil.rmtree(tmp_path / "state" / "partition-0" / "rocksdb")  # damaged is removed as well
    (tmp_path / "state" / "notes.txt").write_text("mine")
    assert command(stage, "--outputs", "--yes", **scope) == 0
    left = sorted(each.name for each in (tmp_path / "state").rglob("*") if each.is_file())
    assert left == ["lock", "lock", "notes.txt"]
