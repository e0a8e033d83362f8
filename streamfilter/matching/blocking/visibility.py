"""Visibility: which earlier documents each document of a batch may match.

A document of a new batch may match all remembered documents, except those that an earlier tombstone
forgets. If a batch is read again, its documents may match what was remembered when it was first
judged. They may also match the batch's own documents with a smaller place.

Exact copies are found by the key of the whole text, before any band key is read. An equal text is
all that the evidence needs (`Verifier.verify`), so other similar documents need not be found. This
saves reads in a large index: a known key costs a read, and an unknown one costs nothing. All band
keys of a copy are known, and one key is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamfilter.index.ages import ages_of
from streamfilter.index.protocol import Copies, Index
from streamfilter.matching.blocking.candidates import Candidates
from streamfilter.matching.blocking.forgetting import NEVER, NO_TOMBSTONES, Forgetting
from streamfilter.matching.blocking.retention import Extent
from streamfilter.model import BatchMark
from streamfilter.similarity.columns import I64, Flags, slices
from streamfilter.similarity.sketch import Sketches


@dataclass(frozen=True, slots=True)
class Visibility:
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
        """Return those of *pairs* whose candidate is visible to its document."""
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
