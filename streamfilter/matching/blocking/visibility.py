"""Visibility: which earlier documents each document of a batch may match.

A document of a new batch may match all remembered documents, except those that an earlier tombstone
forgets. If a batch is read again, its documents may match what was remembered when it was first
judged. They may also match the batch's own documents with a smaller place.

Exact copies are found by the key of the whole text, before any band key is read. An equal text is
all that the evidence needs (`Verifier.verify`), so other similar documents need not be found. This
saves reads in a large index: a known key costs a read, and an unknown one costs nothing. All band
keys of a copy are known, and one key is enough.

*Known names.* With ``known_id: duplicate`` the id alone decides, and with ``verify.also_same`` an
equal value of one of its fields does: such a record is a duplicate of the oldest document with one
of its names, whatever its text is. That document may be in the index, or an earlier row of the
batch that comes out. Which rows come out is not known before the batch is judged, so `earlier`
takes a guess. Example: the rows 0 to 2 bear the id "a", which the index does not know. If row 0 is
withheld for its text and row 1 comes out, only row 2 is a duplicate by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from streamfilter.index.ages import ages_of
from streamfilter.index.format import values_of
from streamfilter.index.protocol import Copies, Documents, Index
from streamfilter.matching.blocking.candidates import Candidates
from streamfilter.matching.blocking.forgetting import (
    FORGET_MAX,
    NEVER,
    NO_TOMBSTONES,
    Forgetting,
    known_as,
)
from streamfilter.matching.blocking.retention import Extent
from streamfilter.model import BatchMark
from streamfilter.similarity.columns import I64, Flags, slices
from streamfilter.similarity.sketch import Sketches

NONE = -1
ASKED = FORGET_MAX + 1  # documents of a name: a batch forgets at most all but one of them


def names_in(ours: Documents, *, by_id: bool) -> list[tuple[bytes, ...]]:
    """Return for each of *ours* the names that make it a duplicate, each alone."""
    contents, n = ours.contents, len(ours)
    none: list[tuple[bytes, ...]] = [()] * n
    values = values_of(contents) if contents.also else none
    if not by_id:
        return values
    ids = map(known_as, ours.ids, contents.scopes)
    return [v if id_ is None else (id_, *v) for id_, v in zip(ids, values, strict=True)]


def remembered_under(names: Sequence[Sequence[bytes]], visible: Visibility, index: Index) -> I64:
    """Return (n,) the oldest document of the index that each row may see under a name; `NONE`."""
    distinct = list(dict.fromkeys(name for each in names for name in each))
    # Documents that the horizon has passed are still stored, and may be more than we read.
    since = int(visible.since.min(initial=NEVER))
    named = dict(zip(distinct, index.named(distinct, ASKED, since), strict=True))
    found = np.full(len(names), NONE)
    for row, each in enumerate(names):
        seen = [s for name in each if (s := _oldest(row, name, named[name], visible, index)) > NONE]
        found[row] = min(seen, default=NONE)
    return found


def _oldest(row: int, name: bytes, ordinals: I64, visible: Visibility, index: Index) -> int:
    """Return the first of *ordinals*, the documents under a *name*, that a row sees; `NONE`."""
    if not len(ordinals):
        return NONE
    seen = ordinals[visible.meets(np.full(len(ordinals), row), ordinals)]
    if not len(seen) and len(ordinals) == ASKED:  # all may be older than what the row sees
        (ordinals,) = index.named([name], ASKED, int(visible.since[row]))
        seen = ordinals[visible.meets(np.full(len(ordinals), row), ordinals)]
    return int(seen[0]) if len(seen) else NONE


class SharedNames:
    """The rows of a batch that have a name which another row has, too."""

    def __init__(
        self, names: Sequence[Sequence[bytes]], visible: Visibility, *, first_ordinal: int
    ) -> None:
        rows: dict[bytes, list[int]] = {}
        for row, each in enumerate(names):
            for name in each:
                rows.setdefault(name, []).append(row)
        self._groups = [group for group in rows.values() if len(group) > 1]
        self._groups_of: list[list[int]] = [[] for _ in names]
        for number, group in enumerate(self._groups):
            for row in group:
                self._groups_of[row].append(number)
        self._visible, self._first = visible, first_ordinal

    def earlier(self, unique: Flags) -> I64:
        """Return (n,) the oldest earlier row that is remembered under a same name, or `NONE`."""
        pairs = np.array([*self._pairs(unique.tolist())], np.int64).reshape(-1, 2)
        rows, others = pairs[self._visible.meets(pairs[:, 0], pairs[:, 1] + self._first)].T
        found = np.full(len(unique), NEVER)
        np.minimum.at(found, rows, others)
        return np.where(found < NEVER, found, NONE)

    def _pairs(self, comes_out: Sequence[bool]) -> Iterator[tuple[int, int]]:
        """Yield each row with the last one before it that comes out under a same name.

        That is the only one that it may see: a row comes out only if it sees none before it.
        """
        for group in self._groups:
            last = NONE
            for row in group:
                if last > NONE:
                    yield row, last
                last = row if comes_out[row] else last

    def walk(self, unique: list[bool], comes_out: Callable[[int], bool]) -> None:
        """Guess row by row in *unique*: it *comes_out*, and no earlier one has a same name.

        Row by row, not name by name: a row that is withheld for one name makes none with its other
        names a duplicate. Else a chain of names would be right up to a few rows more each round.
        """
        last = [NONE] * len(self._groups)
        for row, groups in enumerate(self._groups_of):
            earlier = (last[group] for group in groups if last[group] > NONE)
            unique[row] = comes_out(row) and not any(self._sees(row, each) for each in earlier)
            for group in groups if unique[row] else ():
                last[group] = row

    def _sees(self, row: int, earlier: int) -> bool:
        pair = np.array([row]), np.array([earlier + self._first])
        return bool(self._visible.meets(*pair)[0])

    def behind(self, rows: Flags) -> Flags:
        """Return the rows that come after one of *rows* in their group."""
        found = np.zeros(len(rows), np.bool_)
        for group in self._groups:
            chosen = np.flatnonzero(rows[group])
            if len(chosen):
                found[group[chosen[0] + 1 :]] = True
        return found


class Visibility(Struct, frozen=True):
    """The range of ordinals that each of n documents may match."""

    since: I64  # (n,) first ordinal of the range
    until: I64  # (n,) first ordinal behind the range
    forgetting: Forgetting = NO_TOMBSTONES
    """The documents that tombstones of the batch forget, and the row from which on each is gone."""
    whole: bool = False  # whether the range has no bounds: no ordinal is too old or too young
    remembered: I64 | None = None
    """(n,) with `verify.within`: the first ordinal that is remembered, at or below ``since``."""

    @classmethod
    def of_new(cls, extent: Extent, documents: int, *, forgetting: Forgetting) -> Visibility:
        """Return the visibility of a batch's new *documents*: all that *extent* lets them match."""
        since = extent.since(documents)
        remembered = None if extent.reach is None else extent.remembered(documents)
        until = np.full_like(since, NEVER)
        return cls(since, until, forgetting, not since.any(), remembered)

    @classmethod
    def reread(
        cls, marks: Sequence[BatchMark | None], partitions: I64, offsets: I64, index: Index
    ) -> Visibility:
        """Return the visibility of documents at these places as of the batches that judged them."""
        numbered = [(m.number, m.next_ordinal) if m else (-1, 0) for m in marks]
        numbers, ends = np.array(numbered, np.int64).reshape(-1, 2).T
        known = {each.number: each for each in marks if each}
        since = np.zeros(len(marks), np.int64)
        for number, mark in known.items():
            rows = np.flatnonzero(numbers == number)
            since[rows] = _horizons(mark, partitions[rows], offsets[rows])
        stored = index.fetch(_ordinals_of(known))
        # Ordinals rise with places. If places are equal, ours comes first: the sort is stable.
        columns = (
            (offsets, stored.offsets),
            (partitions, stored.partitions),
            (numbers, stored.batches),
        )
        order = np.lexsort([np.concatenate(column) for column in columns])
        smaller = np.empty(len(order), np.int64)
        smaller[order] = np.cumsum(order >= len(marks))
        behind = np.append(stored.ordinals, NEVER)[smaller[: len(marks)]]
        return cls(since, np.minimum(behind, ends))

    def meets(self, rows: I64, ordinals: I64) -> Flags:
        """Return whether each ordinal is visible to the document in its row, (p,) both."""
        met = self.forgetting.meets(rows, ordinals)
        if self.whole:
            return met
        return met & (self.since[rows] <= ordinals) & (ordinals < self.until[rows])

    def among(self, pairs: Candidates) -> Candidates:
        return pairs.where(self.meets(pairs.rows, pairs.ordinals))

    def too_old(self, pairs: Candidates) -> I64:
        """Return (n,) how many of its *pairs* each document may not match for their age alone."""
        n, rows, ordinals = len(self.since), pairs.rows, pairs.ordinals
        if self.remembered is None:
            return np.zeros(n, np.int64)
        old = (self.remembered[rows] <= ordinals) & (ordinals < self.since[rows])
        old &= self.forgetting.meets(rows, ordinals)
        return np.bincount(rows[old], minlength=n)

    def copies(self, present: Flags, sketches: Sketches, index: Index) -> Copies:
        """Return the visible documents of the *index* whose text equals that of a *present* row."""
        whole, fingerprints = sketches.keys[:, -1], sketches.contents.fingerprints
        return index.copies(whole, present[:, -1], fingerprints, self.meets)


def _horizons(mark: BatchMark, partitions: I64, offsets: I64) -> I64:
    """Return the horizon with which a batch judged each of the documents at these places."""
    if (ages := ages_of(mark)) is None:
        return np.full(len(offsets), mark.horizon, np.int64)
    return ages.horizons_at(partitions, offsets)


def _ordinals_of(marks: Mapping[int, BatchMark]) -> I64:
    firsts = np.array([mark.first_ordinal for _, mark in sorted(marks.items())], np.int64)
    ends = np.array([mark.next_ordinal for _, mark in sorted(marks.items())], np.int64)
    return slices(firsts, ends - firsts)
