"""Windows: opened, dropped whole, viewed, copied, and the same to the byte in a rebuilt index."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfilter.backup.download import restorable, restore
from streamfilter.backup.index_target import back_up
from streamfilter.backup.targets import store_at
from streamfilter.index.bands.buckets import encoded_integers
from streamfilter.index.directory.inspection import inspect
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME
from streamfilter.index.directory.opening import open_index
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import DiskFull, FormatError, IndexDamaged
from streamfilter.index.format import FORMAT, Entries
from streamfilter.index.journal import StoredProgress, decode_standing, encode_standing
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import WINDOWS_MAX, Additions, Changes
from streamfilter.index.rocks import rocks_index as rocks
from streamfilter.index.rocks.column_families import Families
from streamfilter.index.rocks.database import Database, stored_families
from streamfilter.index.rocks.options import MIB, Memory
from streamfilter.model import EVER, Window
from streamfilter.similarity.columns import Widths
from tests.index.conftest import SMALL, MakeIndex
from tests.index.damage.test_crash import CAP
from tests.index.damage.test_crash import opened as opened_before
from tests.index.plain_index import PlainIndex
from tests.index.samples import (
    SLOTS,
    as_a_kill_leaves_it,
    compact,
    documents,
    identity,
    mark,
    random_keys,
    removals,
)
from tests.index.test_formats import BATCHES, unpacked
from tests.support.columns import same_columns
from tests.support.values import replace

SIZE = 20


def stories(ordinals: range | list[int]) -> Any:
    """Documents of the batches that these ordinals belong to."""
    return replace(documents(ordinals), batches=np.array(ordinals, np.int64) // SIZE)


def changes(number: int, *, every: int = 5, kept: int = 15, kinds: int = 60) -> Changes:
    """Batch *number*: each so many batches a window opens, and so many batches are remembered."""
    first, rng = number * SIZE, random.Random(number)
    ordinals = range(first, first + SIZE)
    horizon = max(0, number - kept) * SIZE
    progress = Progress(number, b"h" * 16, {0: first + SIZE}, number + 1, first + SIZE, 5, horizon)
    opens = Window(number // every, first, number) if number and number % every == 0 else None
    marks = replace(mark(number, (0, first, first + SIZE), first=first), horizon=horizon)
    additions = Additions(stories(ordinals), random_keys(rng, SIZE, kinds=kinds))
    return Changes(progress, additions, (marks,), opens=opens)


def opened(path: Path, memory: Memory = SMALL) -> Any:
    return open_index(path, identity(), bucket_cap=CAP, memory=memory)


def lived(index: Any, batches: int, **how: Any) -> Any:
    for number in range(index.progress.next_batch, batches):
        index.apply(changes(number, **how))
    return index


def test_each_window_lists_its_own_and_a_probe_tells_them_apart(make_index: MakeIndex) -> None:
    index = make_index(bucket_cap=2)
    keys = np.array([[1, 2, 3, 4]] * 3, np.uint64)
    for window in range(3):
        first = 3 * window
        opens = Window(window, first, window) if window else None
        additions = Additions(documents(range(first, first + 3)), keys)
        index.apply(Changes(Progress(next_batch=window + 1, next_ordinal=first + 3), additions,
                            opens=opens))  # fmt: skip
    found = index.probe(keys[:1])
    assert [each.ordinals.tolist()[:2] for each in found.windows] == [[0, 1], [3, 4], [6, 7]]
    assert all(each.full.all() for each in found.windows)
    assert index.windows == (EVER, Window(1, 3, 1), Window(2, 6, 2))
    aged = found.aged()
    assert [each.ordinals.tolist()[:2] for each in aged.windows] == [[0, 1], [3, 4], [6, 7], []]


def test_what_the_horizon_has_passed_is_not_counted_and_goes_with_its_window(make_index):
    index = make_index()
    lived(index, 11, kept=100)
    assert (len(index), len(index.windows)) == (11 * SIZE, 3)
    progress = replace(index.progress, horizon=7 * SIZE + 3)
    gone = documents([8 * SIZE, 7 * SIZE + 2, 2])
    keys = np.zeros((3, 4), np.uint64)
    applied = index.apply(Changes(progress, removals=removals(gone, keys)))
    # Three are removed; of those that the horizon passes two are gone by then.
    assert (applied.removed, applied.expired) == (3, 7 * SIZE + 3 - 2)
    assert len(index) == 4 * SIZE - 3 - 1
    assert [window.number for window in index.windows] == [1, 2]
    assert not len(index.fetch(np.arange(5 * SIZE)))
    # Below the horizon, and its window is alive: a record read again may have met it.
    assert len(index.fetch(np.arange(5 * SIZE, 7 * SIZE))) == 2 * SIZE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "expired", "seen"),
    [(15, 1, 1), (13, 3, 2), (11, 5, 0), (4, 12, 2), (2, 14, 1), (0, 16, 0)],
)
def test_a_write_reads_less_than_half_of_the_window_that_its_horizon_falls_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, expired: int, seen: int
) -> None:
    index, read, keys = lived(opened(tmp_path / "index"), 26), list[int](), Database.keys

    def counted(self: Database, family: str, start: bytes, count: int) -> Any:
        found, ended = keys(self, family, start, count)
        read.extend([len(found)] * family.startswith("documents"))
        return found, ended

    monkeypatch.setattr(Database, "keys", counted)
    applied = index.apply(changes(26, kept=kept))  # windows hold five batches each
    assert len(index) == (kept + 1) * SIZE
    index.close()
    assert applied.expired == expired * SIZE
    assert sum(read) == seen * SIZE


@pytest.mark.slow
def test_what_windows_hold_is_counted_once_if_what_wrote_them_did_not_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            rocks, "encode_standing", lambda each: encode_standing(replace(each, held=()))
        )
        lived(opened(tmp_path / "state"), 28).close()
    index = opened(tmp_path / "state")
    assert len(index) == 16 * SIZE
    assert index.apply(changes(28, kept=2)).expired == 14 * SIZE
    model = lived(PlainIndex(Widths(SLOTS), bucket_cap=CAP), 28)
    model.apply(changes(28, kept=2))
    assert list(index.dump()) == list(model.dump())
    index.close()


@pytest.mark.slow
@pytest.mark.parametrize(("batches", "together"), [(37, 1), (40, 3), (63, 1)])
def test_an_index_rebuilt_from_the_oldest_windows_beginning_is_the_same_to_the_byte(
    make_index: MakeIndex, batches: int, together: int
) -> None:
    index = lived(make_index(bucket_cap=CAP), batches)
    oldest = index.windows[0]
    assert oldest.number > 2
    again = make_index(bucket_cap=CAP)
    told = [changes(number) for number in range(oldest.first_batch, batches)]
    told[0] = replace(told[0], opens=oldest)  # as the header says that begins it
    while told:
        count = 1 + next((i for i, each in enumerate(told[1:together]) if each.opens), together - 1)
        again.apply(merged(told[:count]))
        told = told[count:]
    assert list(again.dump()) == list(index.dump())
    assert len(again) == 16 * SIZE


def merged(told: list[Changes]) -> Changes:
    """Several batches in one write, as a restore makes of them."""
    ordinals = np.concatenate(
        [each.additions.documents.ordinals for each in told if each.additions]
    )
    keys = np.concatenate([each.additions.keys for each in told if each.additions])
    marks = tuple(one for each in told for one in each.marks)
    additions = Additions(stories(ordinals.tolist()), keys)
    return Changes(told[-1].progress, additions, marks, opens=told[0].opens)


def test_an_index_of_the_commit_before_gets_windows_without_being_rebuilt(tmp_path: Path) -> None:
    index: Any = opened_before(unpacked(FORMAT, tmp_path))
    before = [entry for entry in index.dump() if entry[0] != "progress"]
    assert index.windows == (EVER,)
    progress = replace(index.progress, next_batch=BATCHES + 1)
    opens = Window(1, index.progress.next_ordinal, BATCHES)
    index.apply(Changes(progress, opens=opens))
    assert [entry for entry in index.dump() if entry[0] != "progress"] == before
    index.apply(Changes(replace(progress, horizon=progress.next_ordinal)))
    assert index.windows == (opens,)
    assert [kind for kind, _, _ in index.dump()] == ["progress"]
    index.close()


@pytest.mark.slow
def test_a_crash_before_a_window_was_dropped_or_had_begun_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = lived(opened(tmp_path / "state"), 15)
    monkeypatch.setattr(Database, "drop_retired", lambda self: None)
    lived(index, 28, kept=5)
    index.prepare()
    alive = {window.number for window in index.windows}
    there = stored_families(tmp_path / "state" / "rocksdb")
    assert set(Families.of(0).names) | set(Families.of(index.windows[-1].number + 1).names) <= set(
        there
    )
    monkeypatch.undo()
    copy = as_a_kill_leaves_it(tmp_path / "state", tmp_path / "copy")
    expected = list(index.dump())
    index.close()
    for path in (copy, tmp_path / "state"):
        again = opened(path)
        assert list(again.dump()) == expected
        assert {name.partition("-")[2] or "0" for name in stored_families(path / "rocksdb")} == {
            "0", *map(str, alive)
        }  # fmt: skip
        lived(again, 40, kept=5)
        assert [window.number for window in again.windows] == [6, 7]
        again.close()


class FullDisk:
    """A database that finds the disk full after so many *calls* of one *method*."""

    def __init__(self, database: Any, method: str, calls: int) -> None:
        self._database, self._method, self._left = database, method, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._database, name)
        return partial(self._tried, found) if name == self._method else found

    def _tried(self, found: Any, *arguments: Any) -> Any:
        if not self._left:
            raise Exception("IO error: No space left on device")
        self._left -= 1
        return found(*arguments)


def full_at(index: Any, method: str, calls: int, story: Changes) -> None:
    """Let the disk be full while *index* applies *story*, and have room again."""
    store = index._store
    database, store._database = store._database, FullDisk(store._database, method, calls)
    with pytest.raises(DiskFull):
        index.apply(story)
    store._database = database


@pytest.mark.parametrize(
    ("method", "calls"),
    [("create_column_family", 0), ("create_column_family", 2), ("write", 0), ("write", 1)],
)
def test_a_full_disk_while_a_window_begins_leaves_nothing_half_made(tmp_path, method, calls):
    index = lived(opened(tmp_path / "state"), 5)
    full_at(index, method, calls, changes(5))
    lived(index, 6)
    for name, family in index._store._families.items():
        if name not in Families.of(1).names:
            family.flush(True)  # so that the logs of before are gone: the new ones need none
    copy = as_a_kill_leaves_it(tmp_path / "state", tmp_path / "copy")
    lived(index, 12)
    assert list(index.dump()) == list(lived(PlainIndex(Widths(SLOTS), bucket_cap=CAP), 12).dump())
    index.close()
    again = opened(copy)
    assert list(again.dump()) == list(lived(PlainIndex(Widths(SLOTS), bucket_cap=CAP), 6).dump())
    again.close()


def test_a_front_notices_every_write_also_after_a_window_that_could_not_begin(tmp_path):
    memory = replace(SMALL, front_bytes=2 * MIB)  # one window's front is more than its part of five
    index, twin = opened(tmp_path / "state", memory), PlainIndex(Widths(SLOTS), bucket_cap=CAP)
    for each in (index, twin):
        lived(each, 5, kinds=1_000_000)
    full_at(index, "write", 1, changes(5, kinds=1_000_000))
    index.drop_owed()
    late = replace(changes(5, kinds=1_000_000), opens=None)
    following = replace(changes(6, kinds=1_000_000), opens=Window(1, 6 * SIZE, 6))
    for each in (index, twin):
        each.apply(late)
        each.apply(following)
    assert late.additions is not None
    keys = late.additions.keys
    for one, other in zip(index.probe(keys).windows, twin.probe(keys).windows, strict=True):
        np.testing.assert_array_equal(one.counts, other.counts)
    index.close()


@pytest.mark.slow
def test_a_window_that_cannot_go_for_want_of_room_goes_later(tmp_path: Path) -> None:
    index = lived(opened(tmp_path / "state"), 20)
    store = index._store
    database, store._database = store._database, FullDisk(store._database, "flush_wal", 0)
    index.apply(changes(20))  # written: it may not say that it was not
    assert index.windows[0].number == 1
    with pytest.raises(DiskFull):
        index.apply(changes(21))
    assert index.progress.next_batch == 21
    store._database = database
    lived(index, 26)
    assert not set(Families.of(0).names) & set(stored_families(tmp_path / "state" / "rocksdb"))
    assert list(index.dump()) == list(lived(PlainIndex(Widths(SLOTS), bucket_cap=CAP), 26).dump())
    index.close()


@pytest.mark.slow
def test_a_window_that_goes_waits_once_for_the_disk(tmp_path: Path) -> None:
    index = lived(opened(tmp_path / "state"), 21)  # the first window is to go
    store = index._store
    database, store._database = store._database, FullDisk(store._database, "flush_wal", 1)
    lived(index, 25)
    assert not set(Families.of(0).names) & set(stored_families(tmp_path / "state" / "rocksdb"))
    index.apply(changes(25))
    with pytest.raises(DiskFull):  # the second one's end has to reach the disk, too
        index.apply(changes(26))
    store._database = database
    index.close()


@pytest.mark.slow
def test_a_window_with_every_write_leaves_no_heap_of_families(tmp_path: Path) -> None:
    index = opened(tmp_path / "state")
    for number in range(20):
        opens = Window(number, number * SIZE, number) if number else None
        each = changes(number)
        progress = replace(each.progress, horizon=max(0, number - 1) * SIZE)
        index.apply(replace(each, progress=progress, opens=opens))
    assert len(index.windows) == 2
    windows = len(index._store._families) / len(Families.of(0).names)
    assert windows < 2 + 1 + 1 + 1  # alive, just retired, not yet dropped, and the facts
    index.close()


def test_a_family_that_a_full_disk_neither_let_us_finish_nor_drop_is_made_anew(tmp_path):
    index = lived(opened(tmp_path / "state"), 5)
    store = index._store
    database = store._database
    full = FullDisk(database, "create_column_family", 2)
    store._database = FullDisk(full, "drop_column_family", 0)
    with pytest.raises(DiskFull):
        index.apply(changes(5))
    store._database = database
    lived(index, 12)
    assert list(index.dump()) == list(lived(PlainIndex(Widths(SLOTS), bucket_cap=CAP), 12).dump())
    index.close()


def test_families_that_are_missing_or_older_are_damage(tmp_path: Path) -> None:
    lived(opened(tmp_path / "state"), 12).close()
    store = Database(tmp_path / "state" / "rocksdb", memory=SMALL, create=False)
    store.retire(1)
    store.drop_retired()
    store.close()
    with pytest.raises(IndexDamaged, match="a part of the database is missing"):
        opened(tmp_path / "state")


@pytest.mark.slow
def test_the_horizon_never_falls_and_windows_follow_each_other(make_index: MakeIndex) -> None:
    index = lived(make_index(bucket_cap=CAP), 27)
    before, now = list(index.dump()), index.progress
    with pytest.raises(ValueError, match="the horizon fell from 220 to 219"):
        index.apply(Changes(replace(now, horizon=now.horizon - 1)))
    for window in (Window(7, 540, 27), Window(6, 539, 27), Window(6, 540, 26)):
        with pytest.raises(ValueError, match="does not follow"):
            index.apply(Changes(now, opens=window))
    index.apply(Changes(now, opens=Window(4, 400, 20)))  # a header that is read again
    for number in range(6, 8):
        index.apply(Changes(replace(now, next_batch=number + 22), opens=Window(number, 540, 27 if
                            number == 6 else 28)))  # fmt: skip
        before = list(index.dump())
        if len(index.windows) == WINDOWS_MAX:
            break
    following = Window(index.windows[-1].number + 1, 540, index.progress.next_batch)
    with pytest.raises(ValueError, match="6 windows would be alive, 5 may be"):
        index.apply(Changes(index.progress, opens=following))
    assert list(index.dump()) == before


@pytest.mark.slow
def test_a_view_a_copy_and_an_inspection_see_all_windows_and_what_is_remembered(tmp_path):
    index = lived(opened(tmp_path / "state"), 38)
    with viewed(tmp_path / "state") as view:
        # The owner goes on, and drops windows that are being looked at.
        lived(index, 60)
        assert [window.number for window in view.windows] == [4, 5, 6, 7]
        seen = np.concatenate([each.ordinals for each in view.scan()])
        assert seen.tolist() == list(range(22 * SIZE, 38 * SIZE))
        assert len(view) == 16 * SIZE
        probed = changes(36)
        assert probed.additions is not None
        found = view.probe(probed.additions.keys)
        model = lived(PlainIndex(Widths(SLOTS), bucket_cap=CAP), 38)
        wanted = model.probe(probed.additions.keys)
        for one, other in zip(found.windows, wanted.windows, strict=True):
            assert np.array_equal(one.ordinals, other.ordinals)
        everything = np.arange(38 * SIZE)
        assert same_columns(view.fetch(everything), model.fetch(everything))
    index.close()
    store = store_at(tmp_path / "backup")
    back_up(tmp_path / "state", store)
    restore(store, restorable(store), tmp_path / "again")
    again, index = opened(tmp_path / "again"), opened(tmp_path / "state")
    assert list(again.dump()) == list(index.dump())
    lived(again, 70)
    lived(index, 70)
    assert list(again.dump()) == list(index.dump())
    index.close()
    again.close()
    told = {ordinal: changes(ordinal // SIZE).additions for ordinal in range(0, 70 * SIZE, SIZE)}
    rows = {
        each.documents.contents.signatures[row].tobytes(): each.keys[row]
        for each in told.values() if each for row in range(SIZE)
    }  # fmt: skip
    with viewed(tmp_path / "again") as view:
        report = inspect(
            view, lambda all_: np.array([rows[each.tobytes()] for each in all_.signatures])
        )
    assert report.problems == []
    assert (report.documents, report.batches) == (20 * SIZE, 20)


@pytest.mark.slow
def test_a_document_outside_of_its_window_is_reported(tmp_path: Path) -> None:
    lived(opened(tmp_path), 38).close()
    with viewed(tmp_path) as view:
        family, stray = view.tables[0].families.documents, view.windows[1].first_ordinal
        _, document = next(iter(view.entries(family)))
    entries = Entries()
    entries.put(family, [encoded_integers(np.array([stray]))[0]], [document])
    store = Database(tmp_path / DATABASE_NAME, memory=SMALL, create=False)
    store.write(entries)
    store.close()
    with viewed(tmp_path) as view:
        problems = inspect(view, lambda all_: np.zeros((len(all_), 1), np.uint64)).problems
    assert f"document {stray} is not of its window, 400 to below {stray}" in problems


@pytest.mark.slow
def test_disk_and_front_are_bounded_over_five_periods(tmp_path: Path) -> None:
    """Flat: what a period leaves is no more than what the second left."""
    memory = Memory(cache_bytes=4 * MIB, memtable_bytes=MIB, front_bytes=5 * 64 * 1024)
    index = opened(tmp_path / "state", memory)
    disk, passed = [], []
    for period in range(1, 7):
        lived(index, 40 * period, every=10, kept=40, kinds=1 << 20)
        index.apply(Changes(index.progress))  # the last of a window's families goes with a write
        compact(index)
        store = index._store
        disk.append(sum(store.figure(name, "live-sst-files-size") for name in store._families))
        passed.append(index.usage().properties["front_pass_rate"])
        assert len(index.windows) <= WINDOWS_MAX
    index.close()
    assert max(disk[1:]) <= 1.3 * disk[1]
    assert max(passed[1:]) <= 2 * passed[1] + 1e-6
    assert len(stored_families(tmp_path / "state" / "rocksdb")) <= 1 + 4 * (WINDOWS_MAX + 1)


@pytest.mark.parametrize(
    "standing",
    [
        StoredProgress(Progress(), 3, held=(3,)),
        StoredProgress(Progress(positions={0: 1}, horizon=7), 3, held=(4,)),
        StoredProgress(Progress(), 0, (Window(3, 5, 7),)),
        StoredProgress(Progress(horizon=9), 1, (EVER, Window(1, 10, 2)), (5, 1)),
        StoredProgress(Progress(positions={0: 1, 4: 2}), 1, (EVER, Window(1, 10, 2)), ()),
    ],
)
def test_progress_with_windows_is_read_as_it_was_written(standing: StoredProgress) -> None:
    encoded = encode_standing(standing)
    assert decode_standing(encoded) == standing
    for end in range(len(encoded)):
        try:
            assert decode_standing(encoded[:end]) != standing
        except FormatError:
            continue


def test_windows_that_contradict_each_other_are_refused() -> None:
    falling, three = (Window(2, 10, 5), Window(1, 20, 6)), (EVER, Window(1, 1, 1), Window(2, 2, 2))
    for windows, held in ((falling, (1, 1)), (three, (1,)), (three, (1, 1, 1, 1))):
        with pytest.raises(FormatError, match="contradicts itself about its windows"):
            decode_standing(encode_standing(StoredProgress(Progress(), 0, windows, held)))
