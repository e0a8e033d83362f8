"""Candidates: which earlier documents share a bucket with a document, and in how many bands.

They come from two places that behave as one: the index, and the overlay, which holds the unique
documents of the same micro-batch. A bucket lists a bounded number of documents in the order of
judgement: the index's first, then the overlay's. If it is full, later documents use a longer key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamfilter.index.bands.bucket_overflow import WEIGHTS
from streamfilter.index.bucket_levels import Level
from streamfilter.similarity.columns import I64, U32, Flags, distinct, places_of, slices

TALLIES_MAX = 1 << 20  # counters in a table, at most 4 MiB; a flood needs far fewer

_WEIGHT_SHIFT = np.uint32(16)
_BANDS = np.uint32((1 << 16) - 1)
_WEIGHTS = np.uint32((1 << 15) - 1)
_SAME_TEXT = np.uint32(1 << 31)
"""A pair's counter has 32 bits. The lower 16 count shared bands, the next 15 add up their weights,
and the top bit is set if the texts are equal. Two shared keys of weight 1 give 0x00020002."""


class Candidates(Struct, frozen=True):
    """Distinct (document, candidate) pairs, by document, then oldest."""

    rows: I64  # (p,) row of the document in the micro-batch, rising
    ordinals: I64  # (p,) the candidate's ordinal
    tallies: U32  # (p,) packed counters of the keys that the two share: bands, weights, equal text

    @classmethod
    def of(
        cls, rows: I64, ordinals: I64, *, bands: I64, weights: I64, same_text: Flags
    ) -> Candidates:
        """Return pairs with these counts packed into their tallies."""
        tallies = weights << int(_WEIGHT_SHIFT) | bands | same_text * np.int64(_SAME_TEXT)
        return cls(rows, ordinals, tallies.astype(np.uint32))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def bands(self) -> I64:
        """Return (p,) how many band keys the two share."""
        return (self.tallies & _BANDS).astype(np.int64)

    @property
    def weights(self) -> I64:
        """Return (p,) the summed weight of these keys; longer keys weigh more (`WEIGHTS`)."""
        return (self.tallies >> _WEIGHT_SHIFT & _WEIGHTS).astype(np.int64)

    @property
    def same_text(self) -> Flags:
        """Return (p,): True where the two share the whole text's key, the folded fingerprint."""
        same: Flags = self.tallies >= _SAME_TEXT
        return same

    def where(self, chosen: Flags) -> Candidates:
        if chosen.all():
            return self
        return self.at(np.flatnonzero(chosen))

    def at(self, places: NDArray[np.intp]) -> Candidates:
        """Return the pairs at *places*, in that order."""
        return Candidates(self.rows[places], self.ordinals[places], self.tallies[places])


_NONE = np.zeros(0, np.int64)
NO_CANDIDATES = Candidates(_NONE, _NONE, np.zeros(0, np.uint32))


def collect(levels: Sequence[Level], *, columns: int) -> Candidates:
    """Return the distinct pairs of a document and a candidate, under keys of all lengths.

    Three listings in, two pairs out: row 0 finds ordinal 5 under two bands and ordinal 6 under one.
    The pairs are (0, 5) with 2 bands and (0, 6) with 1.
    """
    return joined(meetings(levels, columns=columns))


def meetings(levels: Sequence[Level], *, columns: int) -> Iterator[Candidates]:
    """Yield the pairs that `collect` returns, those of some documents at a time.

    Pairs are counted in tables, not sorted. In a flood a document shares several keys with each of
    hundreds of others, and sorting so many listings would cost more than everything else.
    """
    if not levels:
        return
    met = _Met.of(levels, columns)
    for part in met.parts():
        yield _tallied(met, part)


def joined(parts: Iterable[Candidates]) -> Candidates:
    """Return the pairs of all *parts*, one after the other."""
    columns = zip(*((p.rows, p.ordinals, p.tallies) for p in (NO_CANDIDATES, *parts)), strict=True)
    rows, ordinals, tallies = (np.concatenate(column) for column in columns)
    return Candidates(rows, ordinals, tallies)


class _Met(Struct, frozen=True):
    """The bucket lists found under all keys, by row, without empty ones."""

    rows: I64  # (m,) row of the document that found the list; rising
    starts: I64
    counts: I64
    worth: U32  # (m,) value that the list adds to the counter of each of its pairs
    ordinals: I64  # distinct ordinals of all lists, rising
    places: I64  # the contents of all lists, each ordinal replaced by its place in ``ordinals``

    @classmethod
    def of(cls, levels: Sequence[Level], columns: int) -> _Met:
        sizes = np.cumsum([0, *(len(level.pool) for level in levels)]).tolist()
        cells = np.concatenate([level.cells for level in levels])
        counts = np.concatenate([level.counts for level in levels])
        starts = np.concatenate([o + s.starts for o, s in zip(sizes, levels, strict=False)])
        rows, at = np.divmod(cells, columns)
        order = np.argsort(rows, kind="stable")
        order = order[counts[order] > 0]
        depths = np.repeat([level.depth for level in levels], [len(s.cells) for s in levels])
        band = np.array(WEIGHTS, np.uint32)[depths] << _WEIGHT_SHIFT | np.uint32(1)
        worth = np.where(at == columns - 1, _SAME_TEXT, band)
        pool = np.concatenate([level.pool for level in levels])
        ordinals = distinct(pool)
        places = places_of(pool, ordinals)
        return cls(rows[order], starts[order], counts[order], worth[order], ordinals, places)

    def parts(self) -> Iterator[slice]:
        """Cut the lists between rows, so that the table of a part of several rows is bounded."""
        met, changes = np.cumsum(self.counts), np.flatnonzero(np.diff(self.rows)) + 1
        ends = np.concatenate((changes, [len(self.rows)] * (len(self.rows) > 0))).astype(np.int64)
        begin = done = 0
        while done < len(ends):
            before = met[begin - 1] if begin else 0
            tables = np.arange(1, len(ends) - done + 1) * (met[ends[done:] - 1] - before)
            done += max(int(np.searchsorted(tables, TALLIES_MAX, "right")), 1)
            end = int(ends[done - 1])
            yield slice(begin, end)
            begin = end


def _tallied(met: _Met, part: slice) -> Candidates:
    """Return the pairs of a *part*, counted in a table of its rows x its distinct ordinals.

    Rows 0 and 0 with the lists (5, 6) and (5,) give a table of one row and two columns: (2, 1).
    Each counter above 0 is a pair.
    """
    counts, ours = met.counts[part], met.rows[part]
    rows = ours[np.concatenate(([True], ours[1:] != ours[:-1]))]
    theirs = met.places[slices(met.starts[part], counts)]
    seen = np.zeros(len(met.ordinals), np.bool_)
    seen[theirs] = True
    places = np.flatnonzero(seen)
    columns = np.empty(len(met.ordinals), np.int64)
    columns[places] = np.arange(len(places))
    tallies = np.zeros(len(rows) * len(places), np.uint32)
    firsts = np.arange(len(rows) + 1) * len(places)
    number = np.searchsorted(rows, ours)
    np.add.at(
        tallies, np.repeat(firsts[number], counts) + columns[theirs],
        np.repeat(met.worth[part], counts),
    )  # fmt: skip
    pairs = np.flatnonzero(tallies > 0)
    met_by = np.diff(np.searchsorted(pairs, firsts))
    ordinals = met.ordinals[places][pairs - np.repeat(firsts[:-1], met_by)]
    return Candidates(np.repeat(rows, met_by), ordinals, tallies[pairs])


def merge(one: Candidates, other: Candidates) -> Candidates:
    """Return the pairs of both, by document; *other*'s candidates are younger than *one*'s."""
    both = joined((one, other))
    return both.at(np.argsort(both.rows, kind="stable")) if len(one) and len(other) else both


def merged(one: Candidates, other: Candidates) -> Candidates:
    """Return the pairs of both, each once: a pair of both has the counts of *one*."""
    both = joined((one, other))
    order = np.lexsort((both.ordinals, both.rows))  # stable: a pair of *one* comes first
    rows, ordinals = both.rows[order], both.ordinals[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (ordinals[1:] != ordinals[:-1])
    return both.at(order[first])
