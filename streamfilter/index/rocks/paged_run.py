"""A sorted run in the database, in pages; and buckets that are rows of their own (format 2)."""

from dataclasses import dataclass

import numpy as np

from streamfilter.index.bands.bloom_filter import BloomFilter, together
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
from streamfilter.similarity.columns import U64, distinct

ROW_BYTES_MAX = 32  # of nearly all rows of format 2
FEW = 16  # keys whose bytes are searched for in their pages, before these are unpacked
NO_LISTS = Lists(*np.zeros((3, 0), np.int64))


@dataclass(slots=True, eq=False)
class PagedRun:
    """One run in pages. Its rows never change; the filter shrinks if memory is short."""

    store: Database
    family: str
    info: RunInfo
    filter: BloomFilter | None = None  # None: not in memory. Every key is looked up then

    def __len__(self) -> int:
        return self.info.keys

    def find(self, keys: U64) -> tuple[Places, Lists]:
        """Return which of *keys*, distinct and rising, are in the run, and their buckets."""
        held = np.flatnonzero(together([self.filter], keys))
        if not len(held):  # most runs hold none of a batch's new keys
            return held, NO_LISTS
        asked = keys[held]
        pages = distinct((asked >> np.uint64(64 - self.info.bits)).astype(np.int64))
        rows = self._rows(page_names(self.info.number, pages))
        # Most of a few keys have only passed the filter. To see that costs less than to unpack.
        if len(asked) <= FEW and not any(
            key in row for key in asked.astype("<u8").view("V8").tolist() for row in rows
        ):
            return held[:0], NO_LISTS
        run = unpacked(rows)
        found, places = run.find(asked)
        return held[found], run.lists(places)

    def between(self, begin: int, end: int) -> SortedRun:
        shift = 64 - self.info.bits
        pages = np.arange(begin >> shift, (end - 1 >> shift) + 1)
        return unpacked(self._rows(page_names(self.info.number, pages))).between(begin, end)

    def _rows(self, names: list[bytes]) -> list[bytes]:
        return [row for row in self.store.get(self.family, names) if row is not None]

    def load_filter(self) -> None:
        """Read the filter from the database, or raise `IndexDamaged`."""
        words = self.filter_words(-(-self.info.words // FILTER_WORDS))
        self.filter = BloomFilter(words, self.info.keys) if len(words) else None

    def filter_words(self, count: int) -> U64:
        """Return the words of the filter's first *count* rows, or raise `IndexDamaged`."""
        rows = self._rows(filter_names(self.info.number, self.info.words)[:count])
        words = np.frombuffer(b"".join(rows), "<u8").astype(np.uint64)
        if len(words) != min(self.info.words, count * FILTER_WORDS):
            raise IndexDamaged(f"{self.store.path}: a filter of its buckets is not whole")
        return words


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
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


@dataclass(frozen=True, slots=True)
class Layers:
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
        for each in (*self.paged, *((self.rows,) if self.rows is not None else ())):
            asked = np.flatnonzero(left)
            if not len(asked):
                break
            hits, lists = each.find(keys[asked])
            if len(hits):
                found.append((asked[hits], lists))
                left[asked[hits]] = False
        return found


def filter_rows(words: U64) -> list[bytes]:
    return [
        words[at : at + FILTER_WORDS].astype("<u8", copy=False).tobytes()
        for at in range(0, len(words), FILTER_WORDS)
    ]
