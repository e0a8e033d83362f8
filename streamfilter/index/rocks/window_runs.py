"""The buckets of a window: recent ones in memory, all others in pages, in runs that never change.

A write changes 17 buckets for each document, at random places. As a row for each, they were a third
of the time of a verdict. So a write stores the buckets that it changes as one packed row, and keeps
them in memory as a sorted run. Runs in memory are merged as they become more. A full one is written
in pages, a piece with each write. Eight runs of a level are merged into one of the next level.

    write 1    row 1 = its buckets                            in memory: run 1
    write 2    rows 1, 2                                      in memory: runs 1, 2
    ...        the runs are full: merged into one, whose pages are written piece by piece
    write 90   the list names run 7; rows 1 to 62 go          in memory: runs 63 to 90

A run holds whole buckets, and the newest run that has a key counts. An emptied bucket is an entry,
until there is no older run. So nothing depends on when a run is written. Everything is part of the
write that the index makes anyway: after a crash it is there, or it is not, and the rows of the
writes that are in no run are read again.

Each run has a Bloom filter in memory, made with it and stored with it. Together they recognise keys
that were never written. They grow with the index, up to a bound; then the largest are halved.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.index.bands.bloom_filter import WORD_BYTES, BloomFilter, FilterPool, together
from streamfilter.index.bands.open_run import OPEN_BITS, OpenRun
from streamfilter.index.bands.run_rows import (
    BEGIN,
    BUCKET_BYTES,
    DIRECTORY,
    RECENT,
    Directory,
    Range,
    decode_directory,
    encode_directory,
    recent_key,
    run_range,
)
from streamfilter.index.bands.sorted_run import SortedRun, gathered, newest, packed, unpacked
from streamfilter.index.format import Entries, Lists
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.options import Memory
from streamfilter.index.rocks.paged_run import Layers, PagedRun, StoredRows
from streamfilter.index.rocks.run_filters import pool_of
from streamfilter.index.rocks.run_merge import BucketSource, Merge
from streamfilter.killpoints import kill_point
from streamfilter.similarity.columns import U64, Flags

PACE = 3  # keys that each merge writes for each key of a write: it ends long before the next is due
ROWS_AT_ONCE = 1 << 13  # rows of format 2 that become pages with each write, some milliseconds
MERGED = 0.8  # share of a closed window's keys in one run, from which on it is merged no more
BITS = 24
"""Bits of a filter for each key of a run in pages. The smallest runs keep the filter with which
they grew, of `OPEN_BITS`."""
READ_BITS, READ_KEYS = 8, 1 << 16
"""Upper bits at most, and keys at least, of the ranges in which all buckets are read."""


class _Sealed(Struct, frozen=True):
    """The full run in memory, whose pages are being written."""

    run: SortedRun
    names: list[bytes]  # of its rows
    filter: BloomFilter


class _Staged(Struct):
    """The state of the runs after the write that is being made."""

    done: list[Merge]
    going: list[Merge]
    layers: Layers
    dead: list[Range]
    changed: list[tuple[bytes, SortedRun]] = field(default_factory=list)  # row and buckets


class WindowRuns:
    """The buckets of one window. Only its owner calls the methods that change it."""

    def __init__(self, store: Database, family: str, memory: Memory | None) -> None:
        """Read what is in memory; raise `IndexFault`. *memory*: the owner's bounds; None: a view.

        A view has no filters: it looks every key up in each run.
        """
        self._store, self._family, self._memory = store, family, memory
        self._sealed: _Sealed | None = None
        self._merges: list[Merge] = []
        self._dead: list[Range] = []  # rows that the next write deletes
        self._gave_up = (
            False  # whether the list names a merge that this process does not go on with
        )
        self._staged = _Staged([], [], Layers(), [])
        directory = self._directory()
        rows = StoredRows(store, family) if directory.rows else None
        paged = tuple(PagedRun(store, family, info) for info in directory.runs)
        self._number = max((info.number for info in directory.numbered), default=0)
        self._layers = Layers(paged=paged, rows=rows)
        held: dict[int, BucketSource] = {run.info.number: run for run in paged}
        for info in directory.merges:
            sources = [held[number] for number in info.sources]
            if not sources and rows is not None:
                sources.append(rows)
            self._merges.append(Merge.resumed(store, family, info, sources))
        self._pool = pool_of(memory.front_bytes if memory is not None else 0)
        self._open = _new_run(self._memory, self._pool)
        self._load()

    def _load(self) -> None:
        """Read the buckets of the writes that are in no run yet."""
        stored = self._store.items(self._family, RECENT)
        for name, value in takewhile(lambda item: item[0].startswith(RECENT), stored):
            run = unpacked([value])
            self._open.add(name, run)
            if self._memory is not None:
                self._open.filter.add(run.keys)
        self._arrange()

    def _directory(self) -> Directory:
        """Return the list of the runs; note the rows of others, which a crash has left."""
        (stored,) = self._store.get(self._family, [DIRECTORY])
        first = next((key for key, _ in self._store.items(self._family)), b"")
        rows = len(first) == BUCKET_BYTES
        if stored is None:
            return Directory(rows=rows)
        directory = decode_directory(stored)
        if rows and not directory.rows:
            self._dead.append((BEGIN, DIRECTORY))
        bound = self._memory.front_bytes if self._memory is not None else -1
        going = tuple(each for each in directory.merges if each.words * WORD_BYTES <= bound)
        self._gave_up = len(going) < len(directory.merges)
        directory, last = replace(directory, merges=going), 0
        for number in sorted(each.number for each in directory.numbered):
            if number > last + 1:
                self._dead.append(run_range(last + 1, number - 1))
            last = number
        return directory

    @property
    def filters(self) -> list[BloomFilter | None]:
        """Return the filters of all runs; None: every key passes.

        Rows of format 2 have none until they are converted. More memory would not help them.
        """
        return self._layers.all_filters

    @property
    def paged(self) -> tuple[PagedRun, ...]:
        """Return the runs in pages, the newest first."""
        return self._layers.paged

    def may_hold(self, keys: U64) -> Flags:
        """Return False for each of *keys* (any shape) that was surely never written."""
        layers = self._layers
        if not layers.filters:
            return np.ones(keys.shape, np.bool_)
        answer = together(layers.all_filters, keys)
        return answer if layers.rows is None else answer | self._perhaps_a_row(keys)

    def _perhaps_a_row(self, keys: U64) -> Flags:
        for merge in self._merges:
            if merge.from_rows and merge.filter is not None:
                unread = min(merge.bound, (1 << 64) - 1)  # before the filter: see `Layers`
                return together([merge.filter], keys) | (keys >= np.uint64(unread))
        return np.ones(keys.shape, np.bool_)

    def lists(self, keys: U64) -> Lists:
        """Return the buckets of *keys*, distinct and rising."""
        while True:
            layers = self._layers
            found = layers.find(keys)
            if layers is self._layers:  # otherwise, rows may have been deleted meanwhile
                return gathered(len(keys), found)

    def all(self) -> Iterator[SortedRun]:
        """Yield all buckets that are not empty, by ranges of keys in rising order."""
        layers = self._layers
        oldest = () if layers.rows is None else (layers.rows,)
        sources: list[BucketSource] = [*oldest, *layers.paged[::-1], *layers.recent[::-1]]
        bits = min(READ_BITS, (sum(map(len, sources)) // READ_KEYS).bit_length())
        for part in range(1 << bits):
            begin, end = part << (64 - bits), (part + 1) << (64 - bits)
            yield newest([each.between(begin, end) for each in sources]).kept()

    def add(self, keys: U64) -> None:
        """Add *keys*, distinct and rising, to the filter before they are written."""
        self._open.filter.add(keys)

    def stage(self, entries: Entries, changed: SortedRun) -> None:
        """Put the buckets that a write has *changed*; `written` makes them visible."""
        if len(changed):
            name = recent_key(self._store.stamp + 1)
            entries.put(self._family, [name], packed(changed))
            self._staged.changed.append((name, changed))

    def full(self, *, newest_window: bool) -> bool:
        """Return whether a full run is in memory: at a start, the process before has left it."""
        least = 1 if newest_window else self._bounds.fan
        return self._sealed is not None or len(self._open) * least >= self._bounds.run_keys

    def advance(
        self, entries: Entries, keys: int, *, newest_window: bool, starting: bool = False
    ) -> None:
        """Put pieces of the merges, in proportion to a write of *keys* keys, and what they end.

        *starting*: a full run is written at once. It comes before `stage`. Raises `IndexFault`: a
        source cannot be read; nothing has changed.
        """
        if self._sealed is None and self.full(newest_window=newest_window):
            self._seal()
        self._begin_merges()
        if not newest_window:
            self._pool = FilterPool(0)  # few filters follow: free places would only cost memory
            self._begin_last_merge()
        done = [merge for merge in self._merges if merge.complete]
        going = [merge for merge in self._merges if not merge.complete]
        late = starting or len(self._open) >= self._bounds.run_keys
        for merge in going:
            merge.put_piece(entries, _quota(merge, keys, late=late))
        for dead in self._dead:
            entries.delete_range(self._family, dead)
        layers = self._layers
        for merge in done:
            layers = _published(layers, merge)
            if merge.from_memory and self._sealed is not None:
                entries.delete(self._family, self._sealed.names)
        merges = tuple(merge.info for merge in going if not merge.from_memory)
        if done or merges or self._gave_up:
            runs = tuple(run.info for run in layers.paged)
            directory = Directory(runs, layers.rows is not None, merges)
            entries.put(self._family, [DIRECTORY], [encode_directory(directory)])
        # A reader may still be in the sources' pages. So their rows go with the write after this.
        self._staged = _Staged(done, going, layers, [range_ for m in done for range_ in _rows(m)])

    def written(self) -> None:
        """Note that the write with everything that was put is in the database."""
        staged, self._staged = self._staged, _Staged([], [], Layers(), [])
        self._gave_up = False
        removed = bool(self._dead)
        for merge in staged.going:
            merge.written()
        if any(merge.from_memory for merge in staged.done):
            self._sealed = None
        self._merges, self._dead, self._layers = staged.going, staged.dead, staged.layers
        for name, run in staged.changed:
            self._open.add(name, run)
        self._arrange()
        _pass_kill_points(staged, removed=removed)

    def _seal(self) -> None:
        """Close the open run, and begin another."""
        run, opened = self._open.whole(), self._open
        self._sealed = _Sealed(run, opened.names, opened.filter)
        self._open = _new_run(self._memory, self._pool)
        bottom = not self._layers.paged and self._layers.rows is None
        self._start([run], level=0, bottom=bottom, held=self._sealed.filter)
        self._arrange()

    def _begin_merges(self) -> None:
        """Begin a merge of the oldest runs of each level that has enough, one at a time."""
        layers, fan = self._layers, self._bounds.fan
        busy = {id(source) for merge in self._merges for source in merge.sources}
        if layers.rows is not None and id(layers.rows) not in busy:
            self._start([layers.rows], level=_level(len(layers.rows), self._bounds), bottom=True)
        for level in sorted({run.info.level for run in layers.paged}):
            runs = [run for run in layers.paged if run.info.level == level][-fan:]
            if len(runs) == fan and not any(id(run) in busy for run in runs):
                bottom = runs[-1] is layers.paged[-1] and layers.rows is None
                self._start(runs[::-1], level=level + 1, bottom=bottom)

    def _begin_last_merge(self) -> None:
        """Begin to merge all runs of a window that gets no more documents: each costs a look."""
        runs = self._layers.paged
        keys = sum(map(len, runs))
        if self._merges or self._layers.rows is not None or not keys:
            return
        if max(map(len, runs)) < keys * MERGED:  # otherwise it is hardly more than one run
            self._start(runs[::-1], level=runs[-1].info.level + 1, bottom=True)

    @property
    def _bounds(self) -> Memory:
        assert self._memory is not None
        return self._memory

    def _start(
        self,
        sources: Sequence[BucketSource],
        *,
        level: int,
        bottom: bool,
        held: BloomFilter | None = None,
    ) -> None:
        self._number += 1
        merge = Merge(
            self._store, self._family, self._number,
            level=level, sources=sources, bottom=bottom,
            filter_=_filter_of(sources, held, self._bounds, self._pool),
        )  # fmt: skip
        self._merges.append(merge)

    def _arrange(self) -> None:
        """Show the recent runs to readers, the newest first."""
        recent, filters = self._open.runs, [self._open.filter] if self._memory else []
        if self._sealed is not None:
            recent.append(self._sealed.run)
            filters.append(self._sealed.filter)
        self._layers = replace(self._layers, recent=tuple(recent), filters=tuple(filters))


def _new_run(memory: Memory | None, pool: FilterPool) -> OpenRun:
    memory = memory or Memory(run_keys=1)  # a view searches them without a filter
    return OpenRun.of_keys(memory.run_keys, memory.fan, pool)


def _pass_kill_points(staged: _Staged, *, removed: bool) -> None:
    for merge in staged.going:
        kill_point("run.piece" if merge.from_memory else "merge.piece")
    for merge in staged.done:
        kill_point("run.listed" if merge.from_memory else "merge.listed")
    if removed:
        kill_point("merge.removed")


def _filter_of(
    sources: Sequence[BucketSource], held: BloomFilter | None, bounds: Memory, pool: FilterPool
) -> BloomFilter | None:
    """Return the filter of a run: *held*, which has its keys already, or an empty one."""
    keys = sum(map(len, sources))
    most = 8 * bounds.front_bytes // (2 * max(keys, 1))  # half of the memory for one run
    if held is not None and most >= OPEN_BITS and held.keys <= 2 * bounds.run_keys:
        return held
    bits = min(BITS, most)
    return pool.of_keys(keys, bits=bits) if bits else None


def _quota(merge: Merge, keys: int, *, late: bool) -> float:
    """Return how many keys *merge* moves with a write of *keys*; *late*: all of a full run."""
    if merge.from_rows:
        return max(PACE * keys, ROWS_AT_ONCE)
    return len(merge.sources[0]) if late and merge.from_memory else PACE * keys


def _published(layers: Layers, merge: Merge) -> Layers:
    """Return *layers* with the run of a complete *merge* in the place of its sources."""
    if merge.from_memory:
        return replace(layers, paged=(merge.run(), *layers.paged))
    if merge.from_rows:
        merge.level = max(merge.level, *(run.info.level for run in layers.paged), 0)
        return replace(layers, paged=(*layers.paged, merge.run()), rows=None)
    sources = {id(source) for source in merge.sources}
    rest = [run for run in layers.paged if id(run) not in sources]
    place = next(i for i, run in enumerate(layers.paged) if id(run) in sources)
    return replace(layers, paged=(*rest[:place], merge.run(), *rest[place:]))


def _rows(merge: Merge) -> Iterator[Range]:
    """Yield the ranges of the rows that nothing needs after *merge* is listed."""
    for source in merge.sources:
        if isinstance(source, PagedRun):
            yield run_range(source.info.number, source.info.number)
        elif isinstance(source, StoredRows):
            yield BEGIN, DIRECTORY


def _level(keys: int, memory: Memory) -> int:
    """Return the level of a run of so many *keys*."""
    level, size = 0, memory.run_keys
    while size < keys:
        level, size = level + 1, size * memory.fan
    return level
