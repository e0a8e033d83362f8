"""A sorted run in the database, in pages; and buckets that are rows of their own (format 2)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
from msgspec import Struct

from streamfilter.index.bands.bloom_filter import (
    FILTERS_MAX,
    BloomFilter,
    FilterPool,
    passed,
    together,
)
from streamfilter.index.bands.buckets import encoded_integers
from streamfilter.index.bands.run_rows import (
    BEGIN,
    BUCKET_BYTES,
    DIRECTORY,
    FILTER_WORDS,
    RunInfo,
    filter_names,
    page_names,
)
from streamfilter.index.bands.sorted_run import Places, SortedRun, run_of, unpacked
from streamfilter.index.errors import IndexDamaged
from streamfilter.index.format import Lists, decode_buckets
from streamfilter.index.rocks.database import Database
from streamfilter.similarity.columns import U64, Flags

ROW_BYTES_MAX = 32  # of nearly all rows of format 2
FEW = 16  # keys whose bytes are searched for in their pages, before these are unpacked
KEYS_AT_ONCE = 1 << 14  # keys whose pages, of any runs, are read at a time: some megabytes

_ONE = np.uint64(1)


class PagedRun(Struct, eq=False):
    """One run in pages. Its rows never change; the filter shrinks if memory is short."""

    store: Database
    family: str
    info: RunInfo
    filter: BloomFilter | None = None  # None: not in memory. Every key is looked up then

    def __len__(self) -> int:
        return self.info.keys

    def between(self, begin: int, end: int) -> SortedRun:
        shift = 64 - self.info.bits
        pages = np.arange(begin >> shift, (end - 1 >> shift) + 1)
        return unpacked(self._rows(page_names(self.info.number, pages))).between(begin, end)

    def _rows(self, names: list[bytes]) -> list[bytes]:
        return _there(self.store.get(self.family, names))

    def load_filter(self, pool: FilterPool) -> None:
        """Read the filter from the database, or raise `IndexDamaged`."""
        words = self.filter_words(-(-self.info.words // FILTER_WORDS))
        if len(words):
            self.filter = pool.empty(len(words))
            self.filter.words[:] = words
            self.filter.keys = self.info.keys

    def filter_words(self, count: int) -> U64:
        """Return the words of the filter's first *count* rows, or raise `IndexDamaged`."""
        rows = self._rows(filter_names(self.info.number, self.info.words)[:count])
        words = np.frombuffer(b"".join(rows), "<u8").astype(np.uint64)
        if len(words) != min(self.info.words, count * FILTER_WORDS):
            raise IndexDamaged(f"{self.store.path}: a filter of its buckets is not whole")
        return words


def find_in(runs: Sequence[PagedRun], keys: U64) -> list[tuple[Places, Lists]]:
    """Return the buckets of *keys*, distinct and rising, with their places; each found once.

    The newest of the *runs*, which come first, that has a key counts.
    """
    found, left = list[tuple[Places, Lists]](), np.ones(len(keys), np.bool_)
    for begin in range(0, len(runs), FILTERS_MAX):
        some = runs[begin : begin + FILTERS_MAX]
        flags = passed([run.filter for run in some], keys)
        waiting, count = list[tuple[PagedRun, Places]](), 0
        for bit, run in enumerate(some):
            asked = np.flatnonzero((flags >> np.uint64(bit) & _ONE).astype(np.bool_) & left)
            if len(asked):  # most runs hold none of a batch's new keys
                waiting.append((run, asked))
                count += len(asked)
            if waiting and (run is some[-1] or count > KEYS_AT_ONCE):
                found += _read(waiting, keys, left)
                waiting, count = [], 0
    return found


def _read(
    waiting: Sequence[tuple[PagedRun, Places]], keys: U64, left: Flags
) -> Iterator[tuple[Places, Lists]]:
    """Read the pages of all runs at once. Yield what is found, and note that it is not *left*."""
    run, _ = waiting[0]
    of, names = _pages([run for run, _ in waiting], [keys[asked] for _, asked in waiting])
    rows, counts = iter(run.store.get(run.family, names)), np.bincount(of).tolist()
    for (_, places), count in zip(waiting, counts, strict=True):
        pages, asked = _there(islice(rows, count)), places[left[places]]
        # Most of a few keys have only passed the filter. To see that costs less than to unpack.
        if len(asked) <= FEW and not any(
            key in page for key in keys[asked].astype("<u8").view("V8").tolist() for page in pages
        ):
            continue
        buckets = unpacked(pages)
        hits, there = buckets.find(keys[asked])
        if len(hits):
            left[asked[hits]] = False
            yield asked[hits], buckets.lists(there)


def _pages(runs: Sequence[PagedRun], keys: Sequence[U64]) -> tuple[Places, list[bytes]]:
    """Return the pages in which the *keys* of each run would be, distinct and rising.

    That is the place of a page's run among *runs*, and the name of its row.
    """
    which = np.repeat(np.arange(len(runs)), [len(each) for each in keys])
    shifts = np.array([64 - run.info.bits for run in runs], np.uint64)
    pages = (np.concatenate(keys) >> shifts[which]).astype(np.int64)
    heads = np.flatnonzero(np.diff(which << 32 | pages, prepend=-1))
    numbers = np.array([run.info.number for run in runs])
    return which[heads], page_names(numbers[which[heads]], pages[heads])


def _there(rows: Iterable[bytes | None]) -> list[bytes]:
    return [row for row in rows if row is not None]


class StoredRows(Struct, frozen=True, eq=False):
    """Buckets of an index of format 2, the oldest layer: each is a row under its own key."""

    store: Database
    family: str

    def __len__(self) -> int:
        known = self.store.figure(self.family, "estimate-num-keys")
        stored = self.store.figure(self.family, "live-sst-files-size")
        return int(max(known, stored / ROW_BYTES_MAX))

    def find(self, keys: U64) -> tuple[Places, Lists]:
        """Return which of *keys*, distinct and rising, have a bucket, and their buckets."""
        values = self.store.get(self.family, encoded_integers(keys))
        found = [place for place, value in enumerate(values) if value is not None]
        return np.array(found, np.intp), decode_buckets([values[place] for place in found])

    def between(self, begin: int, end: int) -> SortedRun:
        keys, values = list[bytes](), list[bytes]()
        last = end.to_bytes(9, "big")[1:] if end < 1 << 64 else DIRECTORY
        start = begin.to_bytes(BUCKET_BYTES, "big")
        for key, value in self.store.items(self.family, max(start, BEGIN)):
            if key >= last:
                break
            if len(key) == BUCKET_BYTES:
                keys.append(key)
                values.append(value)
        names = np.frombuffer(b"".join(keys), ">u8").astype(np.uint64)
        return run_of(names, decode_buckets(values))


class Layers(Struct, frozen=True):
    """Where buckets are, the newest first. Replaced as a whole: another thread may be reading."""

    recent: tuple[SortedRun, ...] = ()
    filters: tuple[BloomFilter, ...] = ()  # of the recent ones; none: they are searched for all
    paged: tuple[PagedRun, ...] = ()
    rows: StoredRows | None = None

    @property
    def all_filters(self) -> list[BloomFilter | None]:
        """Return the filters of all runs; None: not in memory, every key passes."""
        return [*self.filters, *(run.filter for run in self.paged)]

    def find(self, keys: U64) -> list[tuple[Places, Lists]]:
        """Return the buckets of *keys*, distinct and rising, with their places; each found once."""
        found, left = list[tuple[Places, Lists]](), np.ones(len(keys), np.bool_)
        asked = np.flatnonzero(together(self.filters, keys) if self.filters else left)
        for run in self.recent if len(asked) else ():
            hits, places = run.find(keys[asked])
            if len(hits):
                found.append((asked[hits], run.lists(places)))
                left[asked[hits]] = False
                asked = np.delete(asked, hits)
        asked = np.flatnonzero(left)
        for hits, lists in find_in(self.paged, keys[asked]):
            found.append((asked[hits], lists))
            left[asked[hits]] = False
        asked = np.flatnonzero(left)
        if self.rows is not None and len(asked):
            hits, lists = self.rows.find(keys[asked])
            found.append((asked[hits], lists))
        return found


def filter_rows(words: U64) -> list[bytes]:
    return [
        words[at : at + FILTER_WORDS].astype("<u8", copy=False).tobytes()
        for at in range(0, len(words), FILTER_WORDS)
    ]
