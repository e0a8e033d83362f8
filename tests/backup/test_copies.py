"""Copies of an index: one moment of it, whole or refused; to a directory and to S3 alike."""

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from streamfilter.backup.download import of_index, restorable, restore
from streamfilter.backup.index_target import back_up
from streamfilter.backup.manifest import Copied
from streamfilter.backup.stores import Store
from streamfilter.backup.targets import store_at
from streamfilter.cli import main
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME, check_ours
from streamfilter.index.directory.opening import open_index, read_identity
from streamfilter.index.errors import DiskFull, IndexDamaged, IndexFault, IndexRefused
from streamfilter.index.rocks.database import Database
from tests.index.damage.conftest import state
from tests.index.damage.test_inspection import (
    BATCHES_OF_ALL,
    IDENTITY,
    SIZE,
    SMALL,
    as_of,
    changes,
    dump,
    inspected,
    opened,
    original,
)
from tests.support.values import replace

__all__ = ["original", "state"]


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A target of each kind: a directory, or a bucket of a real server over HTTP."""
    if request.param == "file":
        return store_at(f"file://{tmp_path}/backups")
    new_bucket: Callable[[], str] = request.getfixturevalue("new_bucket")
    return store_at(f"{new_bucket()}/deep/prefix")


in_a_directory = pytest.mark.parametrize("store", ["file"], indirect=True)


def newest(store: Store) -> list[Copied]:
    return restorable(store)


@pytest.mark.slow
@in_a_directory
def test_a_copy_of_an_index_that_is_written_meanwhile_is_one_moment_of_it(
    tmp_path: Path, store: Store
) -> None:
    index, stop = opened(tmp_path / "state"), threading.Event()
    for number in range(5):
        index.apply(changes(number))

    def write() -> None:
        for number in range(5, 1_000):
            if stop.is_set():
                return
            index.apply(changes(number))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        (copied,) = back_up(tmp_path / "state", store)
    finally:
        stop.set()
        writer.join()
    assert index.progress.next_batch > copied.progress.next_batch >= 5
    index.close()
    restore(store, newest(store), tmp_path / "again")
    assert inspected(tmp_path / "again").problems == []
    assert dump(tmp_path / "again") == as_of(copied.progress.next_batch, tmp_path / "model")


def test_a_restored_index_goes_on_where_the_copy_was_made(
    state: Path, tmp_path: Path, store: Store
) -> None:
    back_up(state, store)
    restore(store, newest(store), tmp_path / "again")
    assert dump(tmp_path / "again") == dump(state)
    index = opened(tmp_path / "again")
    index.apply(changes(BATCHES_OF_ALL))
    index.close()
    assert inspected(tmp_path / "again").documents == SIZE * (BATCHES_OF_ALL + 1)


@in_a_directory
def test_indexes_by_partition_keep_their_places(tmp_path: Path, store: Store) -> None:
    for number in (0, 3):
        path = tmp_path / "all" / f"partition-{number}"
        own = open_index(path, replace(IDENTITY, index_id=f"0{number}" * 16), memory=SMALL)
        own.apply(changes(number))
        own.close()
    names = [copied.name for copied in back_up(tmp_path / "all", store)]
    assert names == ["partition-0", "partition-3"]
    restore(store, newest(store), tmp_path / "again")
    for number in (0, 3):
        place = f"partition-{number}"
        assert inspected(tmp_path / "again" / place).documents == SIZE
        assert read_identity(tmp_path / "again" / place) == read_identity(tmp_path / "all" / place)
    of_one = of_index(store, "03" * 16)
    assert [each.name for each in of_one] == ["partition-3"]
    with pytest.raises(IndexRefused, match="no finished backup of"):
        of_index(store, "../" * 10)


@in_a_directory
@pytest.mark.parametrize("harm", ["delete", "cut", "flip", "lengthen"])
def test_a_damaged_backup_is_refused_and_the_one_before_is_taken(state, tmp_path, store, harm):
    """Files that two backups share are damaged for both: here they share none."""
    rng = random.Random(harm)
    back_up(state, store)
    (first,) = newest(store)
    index = opened(state)
    index.apply(changes(BATCHES_OF_ALL))
    index.close()
    back_up(state, store)
    (second,) = newest(store)
    assert second.progress.next_batch == first.progress.next_batch + 1
    table = rng.choice([name for name in sorted(second.sums) if name.endswith(".sst")])
    name = second.object_of(table)
    data = bytearray(b"".join(store.get(name)))
    if harm == "delete":
        store.delete(name)
    elif harm == "cut":
        store.put(name, [bytes(data[: rng.randrange(len(data))])])
    elif harm == "lengthen":
        store.put(name, [bytes(data), b"more"])
    else:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        store.put(name, [bytes(data)])
    if harm == "flip":  # its size is right: only the download can see it
        with pytest.raises(IndexDamaged, match="is not what the backup wrote"):
            restore(store, newest(store), tmp_path / "again")
        with pytest.raises(IndexRefused, match="there is no index"):
            inspected(tmp_path / "again")
        store.delete(second.place)
    assert newest(store) == [first]
    restore(store, newest(store), tmp_path / "again")
    assert inspected(tmp_path / "again").documents == SIZE * BATCHES_OF_ALL


def test_a_backup_that_was_not_finished_is_none(state: Path, store: Store) -> None:
    back_up(state, store)
    store.delete(newest(store)[0].place)
    with pytest.raises(IndexRefused, match="no finished backup"):
        newest(store)


@in_a_directory
def test_an_index_is_never_written_over(state: Path, store: Store) -> None:
    back_up(state, store)
    with pytest.raises(IndexRefused, match="not empty"):
        restore(store, newest(store), state)


def test_a_copy_inside_of_the_index_or_the_other_way_round_is_refused(state, tmp_path):
    with pytest.raises(IndexRefused, match="which may hold nothing else"):
        back_up(state, store_at(state / "backups" / "today"))
    check_ours(state)  # it holds nothing of another, for which the service would refuse it
    store = store_at(tmp_path / "copy")
    back_up(state, store)
    with pytest.raises(IndexRefused, match="the backup, which may hold nothing else"):
        restore(store, newest(store), tmp_path / "copy" / "state")


@in_a_directory
def test_a_copy_of_a_damaged_index_is_refused(state: Path, store: Store) -> None:
    table = max((state / DATABASE_NAME).glob("*.sst"), key=lambda each: each.stat().st_size)
    table.write_bytes(table.read_bytes()[:-1_000])
    with pytest.raises(IndexFault):
        back_up(state, store)
    with pytest.raises(IndexRefused, match="no finished backup"):
        newest(store)


def answer_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    code = main([*arguments, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_verbs_copy_bring_back_and_tell_by_their_exit_code(state, tmp_path, capsys, store):
    again = str(tmp_path / "again")
    assert answer_of(capsys, "backup", "--state", str(state), "--to", store.where)[0] == 0
    assert answer_of(capsys, "restore", "--from", store.where, "--state", again)[0] == 0
    code, answer = answer_of(capsys, "check", "--index", "--state", again)
    documents = answer["indexes"][0]["documents"]
    assert (code, answer["whole"], documents) == (0, True, SIZE * BATCHES_OF_ALL)
    (tmp_path / "again" / DATABASE_NAME / "CURRENT").unlink()
    code, answer = answer_of(capsys, "check", "--index", "--state", again)
    assert (code, answer["whole"]) == (1, False)
    (tmp_path / "again" / "index.json").unlink()
    assert answer_of(capsys, "check", "--index", "--state", again)[0] == 1
    assert main(["check", "--index", "--state", str(tmp_path)]) == 78
    assert main(["backup", "--state", str(state)]) == 64
    assert "give --to TARGET" in capsys.readouterr().err


def test_a_backup_without_space_says_so_and_is_none(state, tmp_path, monkeypatch):
    def full(self: Database) -> None:
        raise DiskFull("no space left")

    monkeypatch.setattr(Database, "flush", full)
    target = tmp_path / "backup"
    assert main(["backup", "--state", str(state), "--to", str(target)]) == 75
    assert list(target.rglob("*")) == []
