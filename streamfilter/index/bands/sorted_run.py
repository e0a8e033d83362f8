"""Sorted runs: many buckets as columns, by their keys; in memory, and packed into rows.

A bucket is one word, its entry. Nearly all buckets list one document, so this is nearly all of it:

    bits 0 to 39    the oldest document        bit 48     it was full once: counts the later ones
    bits 40 to 47   how many it lists

All other words of a bucket are in a pool: the count of a full one, then its other documents.
Key 3 lists 7, key 5 lists 2 and 9 and counts 4 more, key 8 was emptied:

    keys 3 5 8 | entries (1, 7) (2, 2, full) (0, 0) | pool 4 9

A packed row is a number of buckets (4 bytes), their keys and entries by turns, and their pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamfilter.index.errors import FormatError
from streamfilter.index.format import ORDINAL_BYTES, ORDINAL_MAX, OVERFLOW_MAX, Lists
from streamfilter.similarity.columns import I64, U64, slices

HEAD_BYTES = 4
_PAIR_BYTES, _WORD_BYTES = 16, 8

_ORDINAL = np.uint64(ORDINAL_MAX)
_COUNT_AT, _COUNT = np.uint64(8 * ORDINAL_BYTES), np.uint64(0xFF)
_FULL_AT = np.uint64(8 * ORDINAL_BYTES + 8)
_ONE = np.uint64(1)
_WIDE = np.uint64(2) << _COUNT_AT  # the least entry with words in the pool

Places = NDArray[np.intp]


class SortedRun(Struct, frozen=True, eq=False):
    """The buckets of n distinct keys. An entry of 0 says that the bucket has become empty."""

    keys: U64  # (n,) rising
    entries: U64  # (n,)
    pool: U64
    wide: Places  # which buckets have words in the pool
    begins: I64  # where the words of each of them begin

    @classmethod
    def of(cls, keys: U64, entries: U64, pool: U64) -> SortedRun:
        """Return the run of these columns; raise `FormatError` if the pool has another size."""
        wide = np.flatnonzero(entries >= _WIDE)
        sizes = _sizes(entries[wide])
        if sizes.sum() != len(pool):
            raise FormatError("a run of buckets has not the length that it says")
        return cls(keys, entries, pool, wide, np.cumsum(sizes) - sizes)

    @classmethod
    def none(cls) -> SortedRun:
        nothing = np.zeros(0, np.uint64)
        return cls.of(nothing, nothing, nothing)

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, keys: U64) -> tuple[Places, Places]:
        if not len(self.keys):
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        places = np.searchsorted(self.keys, keys)
        found = np.flatnonzero(self.keys.take(places, mode="clip") == keys)
        return found, places[found]

    def lists(self, places: Places) -> Lists:
        """Return the buckets at *places*, in that order."""
        entries = self.entries[places]
        counts = (entries >> _COUNT_AT & _COUNT).astype(np.int64)
        firsts = (entries & _ORDINAL).astype(np.int64)
        there, overflows = counts > 0, np.zeros(len(places), np.int64)
        wide = np.flatnonzero(entries >= _WIDE)
        if not len(wide):
            return Lists(counts, firsts[there], overflows)
        starts = np.cumsum(counts) - counts
        ordinals = np.empty(int(counts.sum()), np.int64)
        ordinals[starts[there]] = firsts[there]
        full = (entries[wide] >> _FULL_AT).astype(np.int64)
        begins, rest = self.begins[np.searchsorted(self.wide, places[wide])], counts[wide] - 1
        overflows[wide[full > 0]] = self.pool[begins[full > 0]]
        rest = rest.clip(min=0)
        ordinals[slices(starts[wide] + 1, rest)] = self.pool[slices(begins + full, rest)]
        return Lists(counts, ordinals, overflows)

    def between(self, begin: int, end: int) -> SortedRun:
        first = int(np.searchsorted(self.keys, np.uint64(begin)))
        last = len(self) if end >> 64 else int(np.searchsorted(self.keys, np.uint64(end)))
        low, high = np.searchsorted(self.wide, (first, last)).tolist()
        ends = np.append(self.begins, len(self.pool))
        pool = self.pool[ends[low] : ends[high]]
        return SortedRun.of(self.keys[first:last], self.entries[first:last], pool)

    def kept(self) -> SortedRun:
        """Return the run without the empty buckets: there is no older run with their keys."""
        there = self.entries > 0
        if there.all():
            return self
        return SortedRun.of(self.keys[there], self.entries[there], self.pool)


def _sizes(entries: U64) -> I64:
    """Return how many words of the pool belong to each of the wide *entries*."""
    counts = (entries >> _COUNT_AT & _COUNT).astype(np.int64)
    return counts - (counts > 0) + (entries >> _FULL_AT).astype(np.int64)


def run_of(keys: U64, lists: Lists) -> SortedRun:
    """Return the run of the buckets *lists* under *keys*; raise `FormatError` for a bad ordinal."""
    if len(lists.ordinals) and not 0 <= lists.ordinals.min() <= lists.ordinals.max() <= ORDINAL_MAX:
        raise FormatError(f"an ordinal must lie in 0..{ORDINAL_MAX}")
    counts, starts = lists.counts, np.cumsum(lists.counts) - lists.counts
    there, full = counts > 0, lists.overflows > 0
    entries = counts.astype(np.uint64) << _COUNT_AT | full.astype(np.uint64) << _FULL_AT
    entries[there] |= lists.ordinals[starts[there]].astype(np.uint64)
    wide = np.flatnonzero(entries >= _WIDE)
    sizes = _sizes(entries[wide])
    begins, pool = np.cumsum(sizes) - sizes, np.empty(int(sizes.sum()), np.uint64)
    counting, rest = full[wide], (counts[wide] - 1).clip(min=0)
    pool[begins[counting]] = np.minimum(lists.overflows[wide[counting]], OVERFLOW_MAX)
    pool[slices(begins + counting, rest)] = lists.ordinals[slices(starts[wide] + 1, rest)]
    return SortedRun(keys, entries, pool, wide, begins)


def newest(runs: Sequence[SortedRun]) -> SortedRun:
    """Return one run of all *runs*, the oldest first: of equal keys, the last run's counts."""
    runs = [run for run in runs if len(run)]
    if len(runs) < 2:
        return runs[0] if runs else SortedRun.none()
    keys = np.concatenate([run.keys for run in runs])
    order = np.argsort(keys, kind="stable")  # merges what is sorted already: 15 ns a key
    ranked = keys[order]
    last = np.ones(len(ranked), np.bool_)
    np.not_equal(ranked[1:], ranked[:-1], out=last[:-1])
    chosen = order[last]
    entries = np.concatenate([run.entries for run in runs])[chosen]
    wide = np.flatnonzero(entries >= _WIDE)
    pools = np.cumsum([0, *(len(run.pool) for run in runs)])[:-1].tolist()
    firsts = np.cumsum([0, *map(len, runs)])[:-1].tolist()
    known = np.concatenate([run.wide + first for run, first in zip(runs, firsts, strict=True)])
    begins = np.concatenate([run.begins + first for run, first in zip(runs, pools, strict=True)])
    at, sizes = begins[np.searchsorted(known, chosen[wide])], _sizes(entries[wide])
    pool = np.concatenate([run.pool for run in runs])[slices(at, sizes)]
    return SortedRun(ranked[last], entries, pool, wide, np.cumsum(sizes) - sizes)


def gathered(size: int, found: Sequence[tuple[Places, Lists]]) -> Lists:
    """Return *size* buckets. Each of *found* gives some of them: their places, and the lists."""
    counts, overflows = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for places, lists in found:
        counts[places], overflows[places] = lists.counts, lists.overflows
    starts = np.cumsum(counts) - counts
    ordinals = np.empty(int(counts.sum()), np.int64)
    for places, lists in found:
        ordinals[slices(starts[places], lists.counts)] = lists.ordinals
    return Lists(counts, ordinals, overflows)


def packed(run: SortedRun, cuts: Sequence[int] = ()) -> list[bytes]:
    """Return rows of *run*: the buckets between each two of *cuts*; without cuts, of all."""
    cuts = cuts or (0, len(run))
    pairs = np.stack((run.keys, run.entries), axis=1).astype("<u8", copy=False).tobytes()
    words = run.pool.astype("<u8", copy=False).tobytes()
    ends = np.append(run.begins, len(run.pool))[np.searchsorted(run.wide, cuts)].tolist()
    return [
        b"".join(
            (
                (end - begin).to_bytes(HEAD_BYTES, "little"),
                pairs[_PAIR_BYTES * begin : _PAIR_BYTES * end],
                words[_WORD_BYTES * low : _WORD_BYTES * high],
            )
        )
        for (begin, end), (low, high) in zip(pairwise(cuts), pairwise(ends), strict=True)
    ]


def unpacked(rows: Sequence[bytes]) -> SortedRun:
    """Return the run of packed *rows*, whose keys rise, or raise `FormatError`."""
    ends = [HEAD_BYTES + _PAIR_BYTES * int.from_bytes(row[:HEAD_BYTES], "little") for row in rows]
    pairs = b"".join([row[HEAD_BYTES:end] for row, end in zip(rows, ends, strict=True)])
    words = b"".join([row[end:] for row, end in zip(rows, ends, strict=True)])
    if len(pairs) != sum(ends) - HEAD_BYTES * len(ends) or len(words) % _WORD_BYTES:
        raise FormatError("a run of buckets is truncated")
    columns = np.frombuffer(pairs, "<u8").astype(np.uint64, copy=False).reshape(-1, 2)
    keys = np.ascontiguousarray(columns[:, 0])
    if (keys[1:] <= keys[:-1]).any():
        raise FormatError("the keys of a run of buckets do not rise")
    pool = np.frombuffer(words, "<u8").astype(np.uint64, copy=False)
    return SortedRun.of(keys, np.ascontiguousarray(columns[:, 1]), pool)
