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

from streamfilter.index.protocol import Index
from streamfilter.matching.candidates import Candidates, joined, meetings
from streamfilter.matching.forgetting import NO_TOMBSTONES, Forgetting
from streamfilter.model import BatchMark
from streamfilter.similarity.columns import I64, Flags, distinct, slices
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
    def of_new(cls, documents: int, *, since: int, forgetting: Forgetting) -> Past:
        """Return the past of so many *documents* that come now."""
        first, behind = (np.full(documents, each, np.int64) for each in (since, NEVER))
        return cls(first, behind, forgetting, whole=not since)

    @classmethod
    def reread(
        cls, marks: Sequence[BatchMark | None], partitions: I64, offsets: I64, index: Index
    ) -> Past:
        """Return the past of documents at these places as of the batches that judged them."""
        numbered = [(m.number, m.horizon, m.next_ordinal) if m else (-1, 0, 0) for m in marks]
        numbers, since, ends = np.array(numbered, np.int64).reshape(-1, 3).T
        stored = index.fetch(_ordinals_of({each.number: each for each in marks if each}))
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

    def among(self, pairs: Candidates) -> Candidates:
        """Return those of *pairs* whose candidate is in the past of its document."""
        pairs = pairs.where(self.forgetting.meets(pairs))
        if self.whole:
            return pairs
        rows, ordinals = pairs.rows, pairs.ordinals
        return pairs.where((self.since[rows] <= ordinals) & (ordinals < self.until[rows]))

    def but_for_copies(self, present: Flags, sketches: Sketches, index: Index) -> Flags:
        """Return *present* without the bands of texts that are in the *index*, word for word.

        The key is a fold of the fingerprint, which others may share: all 128 bits are compared.
        Who is not in a document's past is no copy for it: he may be forgotten.
        """
        found = index.probe(sketches.keys[:, -1:], present[:, -1:])
        met = joined(map(self.among, meetings(found.levels, columns=1)))
        stored = index.fetch(distinct(met.ordinals))
        if not len(stored):
            return present
        at = np.searchsorted(stored.ordinals, met.ordinals).clip(max=len(stored) - 1)
        ours, theirs = sketches.contents.fingerprints[met.rows], stored.contents.fingerprints[at]
        same = (stored.ordinals[at] == met.ordinals) & (ours == theirs).all(axis=1)
        wanted = present.copy()
        wanted[met.rows[same], :-1] = False
        return wanted


def _ordinals_of(marks: Mapping[int, BatchMark]) -> I64:
    """Return the ordinals of all documents of some batches, by their numbers, rising."""
    firsts = np.array([mark.first_ordinal for _, mark in sorted(marks.items())], np.int64)
    ends = np.array([mark.next_ordinal for _, mark in sorted(marks.items())], np.int64)
    return slices(firsts, ends - firsts)
