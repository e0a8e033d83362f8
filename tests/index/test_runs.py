"""Buckets in runs: what a write, a kill and a merge leave is what a plain model has."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfilter.backup.download import restorable, restore
from streamfilter.backup.index_target import back_up
from streamfilter.backup.targets import store_at
from streamfilter.index.bands import page_writes, run_rows, sorted_run
from streamfilter.index.bands.bloom_filter import together
from streamfilter.index.bands.buckets import order_of
from streamfilter.index.bands.run_rows import DIRECTORY, MergeInfo, filter_names, page_names
from streamfilter.index.bands.sorted_run import SortedRun, newest, packed, run_of, unpacked
from streamfilter.index.directory.inspection import inspect
from streamfilter.index.directory.opening import open_index
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import FormatError, IndexDamaged
from streamfilter.index.format import Entries, Lists, encode_buckets
from streamfilter.index.memory import MemoryDatabase
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes
from streamfilter.index.rocks import paged_run, run_merge, window_runs
from streamfilter.index.rocks.options import RUN_KEYS_MAX, Memory
from streamfilter.index.rocks.paged_run import PagedRun
from streamfilter.index.rocks.run_filters import FilterSizes
from streamfilter.index.rocks.run_merge import Merge
from streamfilter.index.rocks.window_runs import BITS, WindowRuns
from streamfilter.similarity.columns import Widths
from tests.index.conftest import SMALL
from tests.index.plain_index import PlainIndex
from tests.index.samples import (
    SLOTS,
    as_a_kill_leaves_it,
    documents,
    identity,
    random_keys,
    removals,
)
from tests.support.cases import cases
from tests.support.values import replace

CAP, SIZE, WRITES = 3, 20, 120
FAMILY = "bands-0"


def changes(number: int) -> Changes:
    """Documents whose keys meet those of earlier writes; each fifth write forgets some of them."""
    rng = random.Random(number)
    ordinals = range(number * SIZE, (number + 1) * SIZE)
    additions = Additions(documents(ordinals), keys_at(number))
    gone = None
    if number % 5 == 4:
        earlier, rows = rng.randrange(number), np.array(sorted(rng.sample(range(SIZE), 9)))
        known = documents(range(earlier * SIZE, (earlier + 1) * SIZE))
        gone = removals(known.at(rows), keys_at(earlier)[rows])
    progress = Progress(next_batch=number + 1, next_ordinal=ordinals[-1] + 1)
    return Changes(progress, additions, removals=gone)


def keys_at(number: int) -> Any:
    rng = random.Random(f"keys {number}")
    return random_keys(rng, SIZE, kinds=rng.choice([5, 500, 1 << 23]))


def opened(path: Path, **bounds: int) -> Any:
    return open_index(path, identity(), bucket_cap=CAP, memory=replace(SMALL, **bounds))


def model_after(writes: int) -> PlainIndex:
    model = PlainIndex(Widths(SLOTS), bucket_cap=CAP)
    for number in range(writes):
        model.apply(changes(number))
    return model


def runs_of(index: Any) -> WindowRuns:
    runs: WindowRuns = index._tables[0].runs
    return runs


def story(path: Path, writes: int = WRITES, **bounds: int) -> None:
    """Live through kills between writes, whatever is being written, and compare with the model."""
    path = path / "0"
    index, model, levels = opened(path, **bounds), model_after(0), set[int]()
    killed = random.Random("kills").sample(range(writes), writes // 9)
    writing, merging = set[bool](), set[bool]()
    for number in range(writes):
        index.apply(changes(number))
        model.apply(changes(number))
        levels |= {run.info.level for run in runs_of(index).paged}
        if number in killed:
            writing.add(runs_of(index)._sealed is not None)
            merging.add(any(not each.from_memory for each in runs_of(index)._merges))
            path = as_a_kill_leaves_it(path, path.with_name(f"killed-{number}"))
            index.close()
            index = opened(path, **bounds)
        if number % 5 == 0:
            assert list(index.dump()) == list(model.dump())
        old = keys_at(random.Random(number).randrange(number + 1))
        assert index.probe(old).ordinals.tolist() == model.probe(old).ordinals.tolist()
    assert list(index.dump()) == list(model.dump())
    assert levels == {0, 1}
    assert writing == merging == {False, True}, "kills met no run that was half written or merged"
    index.close()


@pytest.mark.slow
@pytest.mark.parametrize(("front_bytes", "read_keys"), [(0, 1 << 9), (3 << 10, 0), (1 << 20, 0)])
def test_an_index_with_runs_is_the_model_after_kills_and_merges(
    tmp_path, monkeypatch, front_bytes, read_keys
):
    monkeypatch.setattr(window_runs, "READ_KEYS", read_keys or window_runs.READ_KEYS)
    story(tmp_path, front_bytes=front_bytes)


def rows_go_before_the_run_is_listed(patch: pytest.MonkeyPatch) -> None:
    real = WindowRuns.advance

    def advance(self: Any, entries: Entries, keys: int, **more: Any) -> None:
        real(self, entries, keys, **more)
        if self._sealed is not None:
            entries.delete(self._family, self._sealed.names)

    patch.setattr(WindowRuns, "advance", advance)


def a_run_is_lost_after_its_rows_are_gone(patch: pytest.MonkeyPatch) -> None:
    real = window_runs.encode_directory
    patch.setattr(
        window_runs, "encode_directory", lambda each: real(replace(each, runs=each.runs[1:]))
    )


def a_removal_is_missing_in_a_run(patch: pytest.MonkeyPatch) -> None:
    real = page_writes.run_of

    def without_empty(keys: Any, lists: Lists) -> SortedRun:
        return real(keys, lists).kept()

    patch.setattr(page_writes, "run_of", without_empty)


def a_merge_forgets_what_is_empty_above_an_older_run(patch: pytest.MonkeyPatch) -> None:
    real = Merge.__init__

    def init(self: Any, *args: Any, bottom: bool, **more: Any) -> None:
        real(self, *args, bottom=True, **more)

    patch.setattr(Merge, "__init__", init)


def a_merge_prefers_the_older_run(patch: pytest.MonkeyPatch) -> None:
    real = sorted_run.newest
    patch.setattr("streamfilter.index.rocks.run_merge.newest", lambda runs: real(runs[::-1]))


def a_merge_goes_on_behind_a_page_that_is_not_written(patch: pytest.MonkeyPatch) -> None:
    real = Merge.resumed

    def resumed(store: Any, family: str, info: MergeInfo, sources: Any) -> Merge:
        page = min(info.page + 1, 1 << info.bits)
        return real(store, family, info._replace(page=page), sources)

    patch.setattr(Merge, "resumed", resumed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [
        a_merge_goes_on_behind_a_page_that_is_not_written,
        rows_go_before_the_run_is_listed,
        a_run_is_lost_after_its_rows_are_gone,
        a_removal_is_missing_in_a_run,
        a_merge_forgets_what_is_empty_above_an_older_run,
        a_merge_prefers_the_older_run,
    ],
)
def test_the_story_finds_a_planted_bug(tmp_path, monkeypatch, plant: Callable[..., None]):
    plant(monkeypatch)
    with pytest.raises((AssertionError, IndexDamaged)):
        story(tmp_path)


def test_a_reader_in_another_thread_finds_pages_that_a_merge_replaces_meanwhile(tmp_path):
    index = opened(tmp_path / "state")
    number = 0
    while not any(m.complete and len(m.sources) == SMALL.fan for m in runs_of(index)._merges):
        index.apply(changes(number))
        number += 1
    real, wanted = index._store.get, model_after(number)
    asked, met = keys_at(0), list[int]()

    def get(family: str, names: list[bytes]) -> Any:
        if family == FAMILY and not met:
            met.append(len(runs_of(index).paged))
            for _ in range(3):  # the run is listed; then its sources go
                index.apply(Changes(index.progress))
            assert len(runs_of(index).paged) < met[0]
        return real(family, names)

    index._store.get = get
    assert index.probe(asked).ordinals.tolist() == wanted.probe(asked).ordinals.tolist()
    assert met
    index.close()


def whole_run(index: Any, number: int, keys: Any, ordinal: int) -> PagedRun:
    """Write a run of buckets, each with one document, in one piece."""
    lists = Lists(*(np.full(len(keys), value, np.int64) for value in (1, ordinal, 0)))
    merge = Merge(index._store, FAMILY, number, level=0, sources=[run_of(keys, lists)],
                  bottom=True, filter_=None)  # fmt: skip
    pieces_of(index, merge, len(keys) + 1)
    return merge.run()


def pieces_of(index: Any, merge: Merge, keys: int) -> list[tuple[int, int]]:
    """Write all pieces, of *keys* each; return how many buckets and bytes each has."""
    pieces = []
    while not merge.complete:
        entries = Entries()
        merge.put_piece(entries, keys)
        index._store.write(entries)
        merge.written()
        rows = entries.values.get(FAMILY, [])
        pieces.append((sum(int.from_bytes(row[:4], "little") for row in rows), sum(map(len, rows))))
    return pieces


def test_a_merge_moves_no_more_in_a_batch_than_its_share_however_unlike_its_runs_are(tmp_path):
    index, rng = opened(tmp_path / "state"), np.random.default_rng(7)
    large = np.unique(rng.integers(0, 1 << 64, 60_000, np.uint64))
    small = np.unique(np.concatenate((large[:9], rng.integers(0, 1 << 64, 50, np.uint64))))
    older, newer = whole_run(index, 1, large, 5), whole_run(index, 2, small, 6)
    merge = Merge(index._store, FAMILY, 3, level=1, sources=[older, newer], bottom=True,
                  filter_=None)  # fmt: skip
    share, spread = 1_000, 300  # the keys of pages vary
    pieces = pieces_of(index, merge, share)
    buckets, sizes = zip(*pieces, strict=True)
    assert max(buckets) < share + spread
    assert max(sizes) < 20 * (share + spread)
    both = np.union1d(large, small)
    assert sum(buckets) == len(both)
    ((found, lists),) = paged_run.find_in([merge.run()], both)
    assert len(found) == len(both)
    assert lists.ordinals.tolist() == np.where(np.isin(both, small), 6, 5).tolist()
    index.close()


def in_pages(path: Path) -> Any:
    index = opened(path)
    for number in range(40):
        index.apply(changes(number))
    assert any(run.info.level for run in runs_of(index).paged)
    return index


def test_a_lost_page_is_found_by_a_check_and_a_lost_filter_refuses_the_index(
    tmp_path: Path,
) -> None:
    index = in_pages(tmp_path / "state")
    info = max((run.info for run in runs_of(index).paged), key=lambda info: info.keys)
    entries = Entries()
    entries.delete(FAMILY, page_names(info.number, np.arange(1 << info.bits)))
    index._store.write(entries)
    index.close()
    with viewed(tmp_path / "state") as view:
        known = {o: keys_at(o // SIZE)[o % SIZE] for o in range(40 * SIZE)}
        ordinal_of = {
            each.contents.signatures[row].tobytes(): int(each.ordinals[row])
            for each in view.scan()
            for row in range(len(each))
        }
        report = inspect(
            replaced_progress(view),
            lambda all_: np.array([known[ordinal_of[s.tobytes()]] for s in all_.signatures]),
        )
    assert any("is not in the bucket" in problem for problem in report.problems)
    index = opened(tmp_path / "state")
    entries = Entries()
    entries.delete(FAMILY, filter_names(info.number, info.words))
    index._store.write(entries)
    index.close()
    with pytest.raises(IndexDamaged, match="filter"):
        opened(tmp_path / "state")


def replaced_progress(view: Any) -> Any:
    """A view that says it is a service's: only there a document must be under all its keys."""
    progress = replace(view._standing.progress, changelog_offset=1, next_batch=1 << 48)
    view._standing = replace(view._standing, progress=progress)
    return view


@pytest.mark.parametrize("damage", [b"", b"\1", b"\2\0\0\0", b"\1\0\1\0", b"\1\0\1\0" + bytes(22),
                                    b"\2\0\0\0" + bytes(29), b"\2\1\0\0" + bytes(28)])  # fmt: skip
def test_a_list_of_runs_that_cannot_be_read_refuses_the_index(
    tmp_path: Path, damage: bytes
) -> None:
    index = in_pages(tmp_path / "state")
    entries = Entries()
    entries.put(FAMILY, [DIRECTORY], [damage])
    index._store.write(entries)
    index.close()
    with pytest.raises(IndexDamaged):
        opened(tmp_path / "state")


@pytest.mark.slow
def test_filters_are_halved_until_they_fit_and_are_whole_again_with_more_memory(
    tmp_path: Path,
) -> None:
    in_pages(tmp_path / "state").close()
    index = opened(tmp_path / "state")  # a start ends the write of a full run
    whole = sizes_of(index)
    index.close()
    index = opened(tmp_path / "state", front_bytes=3 << 10)
    assert sum(sizes_of(index)) <= 3 << 10
    assert index.usage().properties["front_pass_rate"] > 0.02
    assert list(index.dump()) == list(model_after(40).dump())
    index.close()
    index = opened(tmp_path / "state")
    assert sizes_of(index) == whole
    index.close()


def test_a_few_new_keys_unpack_no_page(tmp_path: Path, monkeypatch: Any) -> None:
    """Half of what a key that only passes the filter cost was to unpack its page."""
    in_pages(tmp_path / "state").close()
    index = opened(tmp_path / "state", front_bytes=0)  # all keys are looked for in all runs
    monkeypatch.setattr(paged_run, "unpacked", lambda rows: pytest.fail("a page was unpacked"))
    fresh = np.sort(np.random.default_rng(7).integers(0, 1 << 64, paged_run.FEW, np.uint64))
    assert not paged_run.find_in(runs_of(index).paged, fresh)
    index.close()


def sizes_of(index: Any) -> list[int]:
    return [run.filter.words.nbytes if run.filter else 0 for run in runs_of(index).paged]


def format_2(path: Path, index: Any) -> None:
    """Turn an empty database's buckets into those of *index*, a row each, as format 2 had them."""
    rows = [(key, value) for kind, key, value in index.dump() if kind == "bucket"]
    made = opened(path)
    for number in range(40):
        made.apply(changes(number))
    entries = Entries()
    entries.delete_range(FAMILY, (b"\0\0", b"\xff" * 9))
    entries.put(FAMILY, [key for key, _ in rows], [value for _, value in rows])
    made._store.write(entries)
    made.close()


@pytest.mark.slow
def test_the_default_bound_gives_12_bits_a_key_up_to_20_million_documents() -> None:
    """As many runs, and the same bits: runs and the bound are both smaller by the same factor."""
    small, keys_a_document = 256, 18
    memory = Memory(front_bytes=Memory().front_bytes // small, run_keys=RUN_KEYS_MAX // small)
    store, rng = MemoryDatabase(ids=False), np.random.default_rng(3)
    runs, most, step = WindowRuns(store, FAMILY, memory), 20_000_000, memory.run_keys // 2
    bits = list[float]()
    for written in range(0, most * keys_a_document // small, step):
        keys, entries = np.sort(rng.integers(0, 1 << 64, step, np.uint64)), Entries()
        runs.advance(entries, step, newest_window=True)
        runs.add(keys)
        runs.stage(entries, SortedRun.of(keys, np.full(step, 1 << 40, np.uint64), keys[:0]))
        store.write(entries)
        runs.written()
        if written > 8 * memory.run_keys:
            bits.append(FilterSizes.of([each.info for each in runs.paged], memory.front_bytes).bits)
    assert len(runs.paged) > 20
    assert min(bits) > 12
    assert bits[-1] < BITS, "the smallest runs alone have more"


@pytest.mark.slow
def test_rows_of_format_2_become_runs_with_the_writes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(window_runs, "ROWS_AT_ONCE", 100)
    model = model_after(40)
    format_2(tmp_path / "0", model)
    copy, kept, passing = tmp_path / "0", list[bool](), list[float]()
    index = opened(copy)
    assert list(index.dump()) == list(model.dump())
    for number in range(40, 70):
        index.apply(changes(number))
        model.apply(changes(number))
        kept.append(runs_of(index)._layers.rows is not None)
        passing.append(index.usage().properties["front_pass_rate"])
        asked = keys_at(number % 40)
        assert index.probe(asked).ordinals.tolist() == model.probe(asked).ordinals.tolist()
        if number == 43:
            copy = as_a_kill_leaves_it(copy, copy.with_name(f"{number}"))
            index.close()
            index = opened(copy)
            assert list(index.dump()) == list(model.dump())
        assert max(passing) < 0.02, "more memory would not help, so MissFilterSmall must not fire"
    assert kept[0]
    assert not kept[-1]
    assert not any(len(key) == 8 for key, _ in index._store.items(FAMILY))
    index.close()
    store = store_at(tmp_path / "backup")
    back_up(copy, store)
    restore(store, restorable(store), tmp_path / "again")
    again = opened(tmp_path / "again")
    assert list(again.dump()) == list(model.dump())
    again.close()


@cases("seed", range(6))
def test_runs_are_packed_cut_and_merged_as_dictionaries_are(seed: int) -> None:
    rng, runs, wanted = random.Random(seed), list[SortedRun](), dict[int, tuple[list[int], int]]()
    for _ in range(5):
        keys = sorted(rng.sample(range(400), rng.choice([0, 1, 90])))
        buckets = {
            key << 55: (
                sorted(rng.sample(range(1 << 40), rng.choice([0, 1, 1, 1, 2, 255]))),
                rng.choice([0, 0, 0, 7]),
            )
            for key in keys
        }
        wanted |= buckets
        runs.append(run_of(np.array(list(buckets), np.uint64), lists_of(buckets)))
    merged = newest(runs)
    assert as_dict(merged) == wanted
    cuts = [0, *sorted(rng.choices(range(len(merged) + 1), k=4)), len(merged)]
    assert as_dict(unpacked(packed(merged, cuts))) == wanted
    begin, end = 100 << 55, 300 << 55
    assert as_dict(merged.between(begin, end)) == {
        k: v for k, v in wanted.items() if begin <= k < end
    }
    assert as_dict(merged.kept()) == {k: v for k, v in wanted.items() if any(v)}
    places = np.array(rng.choices(range(len(merged)), k=9))
    taken = {key: value for key, value in wanted.items() if any(value)}
    assert encode_buckets(merged.kept().lists(np.arange(len(taken)))) == encode_buckets(
        lists_of(dict(sorted(taken.items())))
    )
    assert merged.lists(places).counts.tolist() == [
        len(wanted[int(merged.keys[place])][0]) for place in places
    ]
    (row,) = packed(merged)
    for cut in (row[:-1], row[:3], row + b"\0", row[:4] + row[20:]):
        with pytest.raises(FormatError):
            unpacked([cut])


def lists_of(buckets: dict[int, tuple[list[int], int]]) -> Lists:
    members, overflows = zip(*buckets.values(), strict=True) if buckets else ((), ())
    return Lists(
        np.array([len(each) for each in members], np.int64),
        np.array([ordinal for each in members for ordinal in each], np.int64),
        np.array(overflows, np.int64),
    )


def as_dict(run: SortedRun) -> dict[int, tuple[list[int], int]]:
    lists = run.lists(np.arange(len(run)))
    ordinals = iter(lists.ordinals.tolist())
    return {
        int(key): ([next(ordinals) for _ in range(count)], int(overflow))
        for key, count, overflow in zip(run.keys, lists.counts, lists.overflows, strict=True)
    }


@cases("count", [0, 1, 100, 5_000])
@cases("kinds", [1, 50, 2**16, 2**64])
@cases("shift", [0, 30])
def test_counting_the_bits_of_keys_orders_them(count: int, kinds: int, shift: int) -> None:
    keys = np.random.default_rng(count).integers(0, kinds, count, np.uint64) << np.uint64(shift)
    assert order_of(keys).tolist() == np.argsort(keys, kind="stable").tolist()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("first", ["new", "format 2"])
def test_processes_of_one_write_each_leave_few_runs_and_little_to_be_read(
    tmp_path, monkeypatch, killed: bool, first: str
):
    monkeypatch.setattr(window_runs, "ROWS_AT_ONCE", 100)
    for module in (run_rows, paged_run, run_merge):
        monkeypatch.setattr(module, "FILTER_WORDS", 32)  # of larger filters, pieces end in a row
    path, begun = tmp_path / "0", 40 if first == "format 2" else 0
    model = model_after(begun)
    if begun:
        format_2(path, model)
    most, levels = 0, list[int]()
    for number in range(begun, begun + 45):
        # Once with less memory, in which the filter of a merge does not fit: it begins again.
        index = opened(path, fan=3, front_bytes=1 << 10 if number == begun + 8 else 1 << 20)
        most = max(most, *(len(tables.runs._open) for tables in index._tables))
        index.apply(changes(number))
        model.apply(changes(number))
        levels = [run.info.level for run in runs_of(index).paged]
        assert max(map(levels.count, levels), default=0) < 3 * 3, "as many as in one long life"
        if killed:
            path = as_a_kill_leaves_it(path, path.with_name(f"{number + 1}"))
        index.close()
    index = opened(path, fan=3)
    assert list(index.dump()) == list(model.dump())
    assert most < SMALL.run_keys, "a start ends the write of a full run"
    assert max(levels) >= 3
    assert not any(len(key) == 8 for key, _ in index._store.items(FAMILY))
    for run in runs_of(index).paged:
        keys = run.between(0, 1 << 64).keys
        if run.filter is None:
            continue  # nothing can be missing in it
        assert together([run.filter], keys).all()
        assert len(keys) == len(run)
    index.close()
