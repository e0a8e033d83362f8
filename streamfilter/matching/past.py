"""The past of a batch: which earlier documents each of its own may meet.

A new batch meets what is remembered. A batch that is read again meets what was remembered when it
was judged first, and of that batch those with a smaller place: in it ordinals rise with places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfilter.index.protocol import Index
from streamfilter.matching.candidates import Candidates
from streamfilter.model import BatchMark
from streamfilter.similarity.columns import I64


@dataclass(frozen=True, slots=True)
class Past:
    """Whom each of n documents may meet."""

    since: I64
    """(n,) the first ordinal that it meets."""
    until: I64
    """(n,) the first ordinal behind it."""
    whole: bool = False
    """Whether that is everything an index holds."""

    @classmethod
    def all(cls, documents: int, *, since: int, until: int) -> Past:
        """Return the past of so many *documents* that have the same."""
        first, behind = (np.full(documents, each, np.int64) for each in (since, until))
        return cls(first, behind, whole=not since)

    @classmethod
    def reread(
        cls, marks: Sequence[BatchMark | None], partitions: I64, offsets: I64, index: Index
    ) -> Past:
        """Return the past of documents at these places as of the batches that judged them."""
        since, until = np.zeros((2, len(marks)), np.int64)
        for mark in {each.number: each for each in marks if each is not None}.values():
            rows = np.array([each is not None and each.number == mark.number for each in marks])
            since[rows] = mark.horizon
            until[rows] = _own_ordinals(mark, partitions[rows], offsets[rows], index)
        return cls(since, until)

    def of(self, pairs: Candidates) -> Candidates:
        """Return those of *pairs* whose candidate is in the past of its document."""
        if self.whole:
            return pairs
        rows, ordinals = pairs.rows, pairs.ordinals
        return pairs.where((self.since[rows] <= ordinals) & (ordinals < self.until[rows]))


def _own_ordinals(mark: BatchMark, partitions: I64, offsets: I64, index: Index) -> I64:
    """Return for each place the ordinal of the first of the batch's that is no smaller."""
    stored = index.fetch(np.arange(mark.first_ordinal, mark.next_ordinal))
    # Of equal places ours comes first: the sort is stable.
    columns = ((offsets, stored.offsets), (partitions, stored.partitions))
    order = np.lexsort([np.concatenate(column) for column in columns])
    smaller = np.empty(len(order), np.int64)
    smaller[order] = np.cumsum(order >= len(offsets))
    return np.append(stored.ordinals, mark.next_ordinal)[smaller[: len(offsets)]]
