"""A merge: it writes one run in pages out of several, piece by piece, with the writes of the index.

The sources are a full run in memory, eight runs in pages, or rows of format 2. If several have
a key, the newest one counts. Each piece is a range of keys: the pages of the range, and the
rows of the filter that it completes. Pieces are no part of the index until the list of runs names
the new run (`window_runs.py`). With each piece, the list says how far the merge is. So the next
process goes on, whether this one ends or crashes. Only the write of a full run in memory begins
again.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from streamfilter.index.bands.bloom_filter import WORDS, BloomFilter, lone
from streamfilter.index.bands.run_rows import (
    FILTER_WORDS,
    MergeInfo,
    RunInfo,
    bits_for,
    filter_names,
    page_names,
    run_range,
)
from streamfilter.index.bands.sorted_run import SortedRun, newest, packed
from streamfilter.index.format import Entries
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.paged_run import PagedRun, StoredRows, filter_rows

KEY_BITS = 64


class BucketSource(Protocol):
    """Something that holds buckets by their keys."""

    def __len__(self) -> int: ...

    def between(self, begin: int, end: int) -> SortedRun:
        """Return the buckets from key *begin* on and below *end*."""


class Merge:
    """One run that is being written."""

    def __init__(
        self,
        store: Database,
        family: str,
        number: int,
        *,
        level: int,
        sources: Sequence[BucketSource],
        bottom: bool,
        filter_: BloomFilter | None,
    ) -> None:
        """Begin to write run *number* of *level* out of *sources*, the oldest first.

        With *bottom*, there is no older run: empty buckets are left out. *filter_* is that of the
        new run: it holds the keys already, or gets them with the pieces.
        """
        self.store, self.family, self.number, self.level = store, family, number, level
        self.sources, self._bottom, self.filter = tuple(sources), bottom, filter_
        self._fill = filter_ is not None and not filter_.keys
        self._size = sum(map(len, sources))
        self.bits = bits_for(self._size)
        self._next = 0  # the first page that is not written
        self._keys = 0  # that were written
        self._credit = 0.0  # keys that a next piece may have beside its own
        self._staged = (0, 0, 0.0)

    @classmethod
    def resumed(
        cls, store: Database, family: str, info: MergeInfo, sources: Sequence[BucketSource]
    ) -> "Merge":
        """Return the merge that *info* describes, or raise `IndexDamaged`."""
        merge = cls(
            store, family, info.number,
            level=info.level, sources=sources, bottom=info.bottom,
            filter_=lone(info.words) if info.words else None,
        )  # fmt: skip
        merge.bits, merge._next, merge._keys = info.bits, info.page, info.keys
        if merge.filter is not None:
            merge._load_filter(merge.filter)
        return merge

    def _load_filter(self, held: BloomFilter) -> None:
        """Read the rows of the filter that are written; find the others' keys in the pages."""
        rows, run = _rows_below(held, self.bound), self.run()
        words = run.filter_words(rows)
        held.words[: len(words)] = words
        blocks, first = len(held.words) // WORDS, rows * FILTER_WORDS // WORDS
        begin = -(-(first << 32) // blocks) << 32  # the lowest key of the first row that is left
        if begin < self.bound:
            held.add(run.between(begin, self.bound).keys)
        held.keys = self._keys

    @property
    def bound(self) -> int:
        """Return the first key that is not written."""
        return self._next << (KEY_BITS - self.bits)

    @property
    def complete(self) -> bool:
        return self._next == 1 << self.bits

    @property
    def from_memory(self) -> bool:
        """Return whether it writes the full run in memory."""
        return isinstance(self.sources[0], SortedRun)

    @property
    def from_rows(self) -> bool:
        """Return whether it converts rows of format 2."""
        return isinstance(self.sources[0], StoredRows)

    def put_piece(self, entries: Entries, keys: float) -> None:
        """Put the rows of about the next *keys* keys; `written` takes note of them."""
        pages, each = 1 << self.bits, max(1.0, self._size / (1 << self.bits))
        # At least one page: processes of one small write each would never end a merge otherwise.
        count = min(max(1, int((self._credit + keys) / each)), pages - self._next)
        if not self._next:
            entries.delete_range(self.family, run_range(self.number, self.number))
        shift = KEY_BITS - self.bits
        begin, end = self._next << shift, (self._next + count) << shift
        self._staged = self._next, 0, self._credit + keys
        run = newest([each.between(begin, end) for each in self.sources])
        run = run.kept() if self._bottom else run
        self._put_pages(entries, run, begin, end)
        if self.filter is not None:
            self._put_filter(entries, self.filter, run, begin, end)
        self._staged = self._next + count, len(run), self._credit + keys - count * each

    def _put_pages(self, entries: Entries, run: SortedRun, begin: int, end: int) -> None:
        shift = KEY_BITS - self.bits
        pages = np.arange(begin >> shift, end >> shift)
        cuts = np.searchsorted(run.keys, pages.astype(np.uint64) << np.uint64(shift))
        ends = np.append(cuts, len(run))
        filled = np.flatnonzero(np.diff(ends))
        values = packed(run, ends[np.append(filled, len(pages))].tolist()) if len(filled) else []
        entries.put(self.family, page_names(self.number, pages[filled]), values)

    def _put_filter(
        self, entries: Entries, held: BloomFilter, run: SortedRun, begin: int, end: int
    ) -> None:
        if self._fill:
            held.add(run.keys)
        first, last = _rows_below(held, begin), _rows_below(held, end)
        names = filter_names(self.number, len(held.words))
        rows = filter_rows(held.words[first * FILTER_WORDS : last * FILTER_WORDS])
        entries.put(self.family, names[first:last], rows)

    def written(self) -> None:
        """Note that the last piece is in the database."""
        self._next, keys, self._credit = self._staged
        self._keys += keys

    @property
    def info(self) -> MergeInfo:
        """Return how far it is with the piece that was put last."""
        page, keys, _ = self._staged
        words = 0 if self.filter is None else len(self.filter.words)
        sources = tuple(each.info.number for each in self.sources if isinstance(each, PagedRun))
        return MergeInfo(
            self.number, self.level, self.bits, self._bottom,
            page, self._keys + keys, words, sources,
        )  # fmt: skip

    def run(self) -> PagedRun:
        words = 0 if self.filter is None else len(self.filter.words)
        info = RunInfo(self.number, self.level, self.bits, self._keys, words)
        return PagedRun(self.store, self.family, info, self.filter)


def _rows_below(held: BloomFilter, bound: int) -> int:
    """Return how many rows of a filter get no key from *bound* on; the last row may be short."""
    words = held.words_below(bound)
    return -(-words // FILTER_WORDS) if bound >> KEY_BITS else words // FILTER_WORDS
