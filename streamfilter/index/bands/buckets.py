"""Buckets as columns: spread the buckets of a read over its cells, and merge a write into them.

A bucket lists the oldest ordinals with its key, at most *cap* of them, and counts the others. These
are listed under a longer key (`bucket_overflow`). Ordinals rise from write to write. So a bucket
depends only on the set of documents, not on how they were cut into batches. A restore makes the
same bytes as the live run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from streamfilter.index.bands.bucket_overflow import DEPTH, longer
from streamfilter.index.bands.overflow_pages import paged
from streamfilter.index.bucket_levels import Level
from streamfilter.index.format import ORDINAL_BYTES, Lists
from streamfilter.index.protocol import Additions, Buckets, Copies, Meets, Readable
from streamfilter.similarity.columns import I64, U8, U64, Flags, distinct, slices

_ORDINAL_BITS = 8 * ORDINAL_BYTES
_ORDINAL_MASK = np.uint64((1 << _ORDINAL_BITS) - 1)
_HALF = np.uint64(32)
COUNTED = 2_000  # keys from which on counting their bits is faster than comparing them


class Grouped(Struct, frozen=True):
    """Keys as a sorted set: each distinct key is read and written once."""

    keys: U64  # distinct, rising
    inverse: NDArray[np.intp]  # the place in ``keys`` of every original key
    first: NDArray[np.intp]  # one original place of every distinct key

    @classmethod
    def of(cls, keys: U64) -> Grouped:
        """Group *keys* (any order, with repeats)."""
        order = order_of(keys)
        ranked = keys[order]
        heads = _heads(ranked)
        inverse = np.empty(len(keys), np.intp)
        inverse[order] = np.cumsum(heads) - 1
        return cls(ranked[heads], inverse, order[heads])


def order_of(keys: U64) -> NDArray[np.intp]:
    """Return the order in which *keys* rise; equal ones stay in their order.

    NumPy sorts 16 bits by counting: two passes over the upper bits take a third of the time of a
    comparing sort. These bits nearly always decide. If not, a merging sort repairs the rest.
    """
    if len(keys) < COUNTED:
        return np.argsort(keys, kind="stable")
    upper = (keys >> _HALF).astype(np.uint32)
    order = np.argsort(upper.astype(np.uint16), kind="stable")
    order = order[np.argsort((upper >> 16).astype(np.uint16)[order], kind="stable")]
    ranked = keys[order]
    if (ranked[1:] < ranked[:-1]).any():
        order = order[np.argsort(ranked, kind="stable")]
    return order


def _heads(ranked: U64) -> Flags:
    """Return where a new value begins in sorted values."""
    heads = np.ones(len(ranked), np.bool_)
    np.not_equal(ranked[1:], ranked[:-1], out=heads[1:])
    return heads


def encoded_integers(values: NDArray[np.uint64] | I64) -> list[bytes]:
    """Return integers >= 0 as 8 big-endian bytes each."""
    encoded: list[bytes] = values.astype(">u8").view("V8").tolist()
    return encoded


def taken(lists: Lists, places: NDArray[np.intp]) -> Lists:
    """Return the buckets at *places*, in that order (a place may come again)."""
    starts = np.cumsum(lists.counts) - lists.counts
    counts = lists.counts[places]
    return Lists(counts, lists.ordinals[slices(starts[places], counts)], lists.overflows[places])


def spread(lists: Lists, places: NDArray[np.intp], present: Flags) -> Buckets:
    """Return a probe's answer: *lists* at *places*, one for each True of *present* (n, c)."""
    counts = np.zeros(present.shape, np.uint8)
    starts, overflows = np.zeros(present.shape, np.int64), np.zeros(present.shape, np.int64)
    counts[present] = lists.counts[places]
    starts[present] = (np.cumsum(lists.counts) - lists.counts)[places]
    overflows[present] = lists.overflows[places]
    return Buckets(counts, starts, lists.ordinals, overflows)


def descended(
    buckets: Buckets, keys: U64, signatures: U8, lists_of: Callable[[Grouped], Lists]
) -> Buckets:
    """Return *buckets* with the levels of longer keys, which *lists_of* reads for full buckets."""
    columns = keys.shape[1]
    full = buckets.full
    full[:, -1] = False
    cells, levels = np.flatnonzero(full), list[Level]()
    trail = keys.reshape(-1)[cells]
    for depth in range(1, DEPTH + 1):
        if not cells.size:
            break
        rows, at = np.divmod(cells, columns)
        trail = longer(trail, signatures[rows], at, bands=columns - 1, depth=depth)
        grouped = Grouped.of(trail)
        level = level_of(depth, cells, lists_of(grouped), grouped.inverse)
        levels.append(level)
        cells, trail = cells[level.overflows > 0], trail[level.overflows > 0]
    return replace(buckets, deeper=tuple(levels))


def copies(index: Readable, keys: U64, asked: Flags, fingerprints: U8, meets: Meets) -> Copies:
    """Return stored documents whose text equals one of n texts: `Index.copies` of every index."""
    buckets = index.probe(keys[:, None], asked[:, None])
    levels = buckets.levels
    rows = np.concatenate([level.askers for level in levels])
    ordinals = np.concatenate([level.ordinals for level in levels])
    pairs = [_equal(index, rows, ordinals, fingerprints, meets)]
    turned_away = np.max([each.overflows[:, 0] for each in buckets.windows], axis=0)
    pending = turned_away > 0
    pending[pairs[0].rows] = False
    for rows, ordinals in paged(index.probe, keys, turned_away, pending, cap=index.bucket_cap):
        pairs.append(_equal(index, rows, ordinals, fingerprints, meets))
        pending[pairs[-1].rows] = False
    rows = np.concatenate([each.rows for each in pairs])
    return Copies(rows, np.concatenate([each.ordinals for each in pairs]))


def _equal(index: Readable, rows: I64, ordinals: I64, fingerprints: U8, meets: Meets) -> Copies:
    """Return the pairs that may be compared and have equal texts."""
    met = meets(rows, ordinals)
    rows, ordinals = rows[met], ordinals[met]
    stored = index.fetch(distinct(ordinals))
    if not len(stored):
        return Copies(rows[:0], ordinals[:0])
    at = np.searchsorted(stored.ordinals, ordinals).clip(max=len(stored) - 1)
    equal = (fingerprints[rows] == stored.contents.fingerprints[at]).all(axis=1)
    equal &= stored.ordinals[at] == ordinals
    return Copies(rows[equal], ordinals[equal])


def level_of(depth: int, cells: I64, lists: Lists, places: NDArray[np.intp]) -> Level:
    """Return the level in which cell ``cells[j]`` has the list ``places[j]`` of *lists*."""
    starts = np.cumsum(lists.counts) - lists.counts
    return Level(
        depth, cells, starts[places], lists.counts[places], lists.ordinals, lists.overflows[places]
    )


def written(additions: Additions) -> Flags:
    """Return which of the (n, c) keys exist: an unsigned document has only the last ones."""
    signed = additions.documents.contents.set_sizes > 0
    present = np.repeat(signed[:, None], additions.keys.shape[1], axis=1)
    present[:, -additions.always :] = True
    return present


def found(buckets: Buckets, places: NDArray[np.intp]) -> Lists:
    """Return the buckets that a probe found in the cells *places*: the opposite of `spread`."""
    counts = buckets.counts.reshape(-1)[places].astype(np.int64)
    there = np.flatnonzero(counts)  # most buckets are new
    starts = buckets.starts.reshape(-1)[places[there]]
    ordinals = buckets.pool[slices(starts, counts[there])]
    return Lists(counts, ordinals, buckets.overflows.reshape(-1)[places])


def merged(
    old: Lists, groups: NDArray[np.intp], ordinals: I64, *, cap: int, closed: Flags | None = None
) -> tuple[Lists, Flags]:
    """Add ordinal j to bucket ``groups[j]`` for every j, but not to *closed* buckets.

    Three ordinals, two buckets, cap 2: bucket 0 lists 3 and 7, bucket 1 lists 5. Add 8 to bucket 0,
    9 and 10 to bucket 1. Then bucket 0 lists 3 7 and counts 1 more, bucket 1 lists 5 9 and counts
    1 more, and the flags are True False True.

    Returns:
        The new buckets, and for every j whether the bucket was full, so that it only counts j.
    """
    came = np.bincount(groups, minlength=len(old.counts))
    easy = (came == 1) & (old.counts == 0) & (old.overflows == 0)
    if not easy.any():
        return _merged(old, groups, ordinals, cap=cap, closed=closed)
    # Most buckets are new and get one document. Only the others are sorted.
    others = np.flatnonzero(~easy)
    number = np.cumsum(~easy) - 1
    rows = np.flatnonzero(~easy[groups])
    closed = closed if closed is None else closed[others]
    rest, turned_away = _merged(
        taken(old, others), number[groups[rows]], ordinals[rows], cap=cap, closed=closed
    )
    counts, overflows = np.ones_like(old.counts), old.overflows.copy()
    counts[others], overflows[others] = rest.counts, rest.overflows
    starts = np.cumsum(counts) - counts
    listed = np.empty(int(counts.sum()), np.int64)
    joined = np.flatnonzero(easy[groups])
    listed[starts[groups[joined]]] = ordinals[joined]
    listed[slices(starts[others], rest.counts)] = rest.ordinals
    away = np.zeros(len(ordinals), np.bool_)
    away[rows] = turned_away
    return Lists(counts, listed, overflows), away


def _merged(
    old: Lists, groups: NDArray[np.intp], ordinals: I64, *, cap: int, closed: Flags | None
) -> tuple[Lists, Flags]:
    """Do it for buckets of all kinds, by sorting (bucket, ordinal)."""
    size = len(old.counts)
    owners = np.concatenate((np.repeat(np.arange(size), old.counts), groups)).astype(np.uint64)
    members = np.concatenate((old.ordinals, ordinals)).astype(np.uint64)
    # One integer holds (bucket, ordinal), so a plain sort brings repeats together. np.unique uses
    # a hash table first and takes twice the time. The caller keeps bucket numbers in 24 bits.
    tagged = owners << np.uint64(_ORDINAL_BITS) | members
    pairs, counts = _distinct(tagged, size)
    if counts.max(initial=0) <= cap and (closed is None or not closed.any()):
        kept = (pairs & _ORDINAL_MASK).astype(np.int64)
        return Lists(counts, kept, old.overflows), np.zeros(len(ordinals), np.bool_)
    known, asked = tagged[: len(old.ordinals)], tagged[len(old.ordinals) :]
    newcomers, arrivals = _distinct(asked, size)
    owner = (newcomers >> np.uint64(_ORDINAL_BITS)).astype(np.int64)
    rank = np.arange(len(newcomers)) - (np.cumsum(arrivals) - arrivals)[owner]
    room = cap - old.counts if closed is None else np.where(closed, 0, cap - old.counts)
    listed = rank < room[owner]
    pairs, counts = _distinct(np.concatenate((known, newcomers[listed])), size)
    away = ~listed[np.searchsorted(newcomers, asked)]
    overflows = old.overflows + np.bincount(owner[~listed], minlength=size)
    return Lists(counts, (pairs & _ORDINAL_MASK).astype(np.int64), overflows), away


def _distinct(tagged: U64, size: int) -> tuple[U64, I64]:
    """Return the distinct (bucket, ordinal) integers, rising, and how many each bucket has."""
    pairs = np.sort(tagged)
    pairs = pairs[_heads(pairs)]
    owner = (pairs >> np.uint64(_ORDINAL_BITS)).astype(np.int64)
    return pairs, np.bincount(owner, minlength=size)
