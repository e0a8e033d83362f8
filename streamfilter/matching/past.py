"""The past of a batch: which earlier documents each of its own may meet.

A new batch meets what is remembered, but for those whom a tombstone before it forgets. A batch that
is read again meets what was remembered when it was judged first, and of that batch those with a
smaller place.

Exact copies of what is remembered are found by one key before any other is looked for. An equal
text is all the evidence there is to give (`Verifier.verify`), so whom a copy resembles besides need
not be known. In a large index a known key costs a read where an unknown one costs nothing: a copy
has as many known keys as bands, and one that would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamfilter.index.ages import ages_of
from streamfilter.index.protocol import Copies, Index
from streamfilter.matching.candidates import Candidates
from streamfilter.matching.forgetting import NO_TOMBSTONES, Forgetting
from streamfilter.model import BatchMark
from streamfilter.similarity.columns import I64, Flags, slices
from streamfilter.similarity.sketch import Sketches

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Past:
    """Whom each of n documents may meet."""

    since: I64
    """(n,) the first ordinal that it meets."""
    until: I64
    """(n,) the first ordinal behind it."""
    forgetting: Forgetting = NO_TOMBSTONES
    """Whom it forgets, by the row from which on nobody meets them."""
    whole: bool = False
    """Whether no ordinal is too old or too young."""

    @classmethod
    def of_new(cls, since: I64, *, forgetting: Forgetting) -> Past:
        """Return the past of documents that come now, each of which meets none before *since*."""
        return cls(since, np.full_like(since, NEVER), forgetting, whole=not since.any())

    @classmethod
    def reread(
        cls, marks: Sequence[BatchMark | None], partitions: I64, offsets: I64, index: Index
    ) -> Past:
        """Return the past of documents at these places as of the batches that judged them."""
        numbered = [(m.number, m.next_ordinal) if m else (-1, 0) for m in marks]
        numbers, ends = np.array(numbered, np.int64).reshape(-1, 2).T
        known = {each.number: each for each in marks if each}
        since = np.zeros(len(marks), np.int64)
        for number, mark in known.items():
            rows = np.flatnonzero(numbers == number)
            since[rows] = _horizons(mark, partitions[rows], offsets[rows])
        stored = index.fetch(_ordinals_of(known))
        # Ordinals rise with places. Of equal places ours comes first: the sort is stable.
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
        """Return whether each ordinal is in the past of the document in its row, (p,) both."""
        met = self.forgetting.meets(rows, ordinals)
        if self.whole:
            return met
        return met & (self.since[rows] <= ordinals) & (ordinals < self.until[rows])

    def among(self, pairs: Candidates) -> Candidates:
        """Return those of *pairs* whose candidate is in the past of its document."""
        return pairs.where(self.meets(pairs.rows, pairs.ordinals))

    def copies(self, present: Flags, sketches: Sketches, index: Index) -> Copies:
        """Return the documents of the *index* that are copies, word for word, of rows *present*.

        Copies that a document may not see do not count: they may be forgotten.
        """
        whole, fingerprints = sketches.keys[:, -1], sketches.contents.fingerprints
        return index.copies(whole, present[:, -1], fingerprints, self.meets)


def _horizons(mark: BatchMark, partitions: I64, offsets: I64) -> I64:
    """Return what was forgotten when a batch judged the documents at these places."""
    if (ages := ages_of(mark)) is None:
        return np.full(len(offsets), mark.horizon, np.int64)
    return ages.horizons_at(partitions, offsets)


def _ordinals_of(marks: Mapping[int, BatchMark]) -> I64:
    """Return the ordinals of all documents of some batches, by their numbers, rising."""
    firsts = np.array([mark.first_ordinal for _, mark in sorted(marks.items())], np.int64)
    ends = np.array([mark.next_ordinal for _, mark in sorted(marks.items())], np.int64)
    return slices(firsts, ends - firsts)
