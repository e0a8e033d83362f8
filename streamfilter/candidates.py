"""Candidates: which earlier documents share a bucket with a document, and in how many bands.

They come from two places that behave as one: the index, and the overlay, the documents of this
very micro-batch that have already been found unique. A bucket lists at most *cap* documents,
the index's first, then the overlay's, in the order of judgement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfilter.index.protocol import Buckets

I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOBODY = -1
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Candidates:
    """Distinct (document, candidate) pairs, by document, then most bands, then oldest."""

    rows: I64
    """(p,) row of the document in the micro-batch, rising."""
    ordinals: I64
    """(p,) the candidate's ordinal."""
    bands: I64
    """(p,) band keys that the two share."""
    same_text: Flags
    """(p,) True where the folded content fingerprints are equal."""

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: Flags | I64) -> Candidates:
        """Return the chosen pairs, in their order."""
        return Candidates(
            self.rows[chosen], self.ordinals[chosen], self.bands[chosen], self.same_text[chosen]
        )


@dataclass(frozen=True, slots=True)
class Hits:
    """Single key equalities: document *rows[h]* met *ordinals[h]* in one key column."""

    rows: I64
    ordinals: I64
    same_text: Flags
    """True where the column is that of the content fingerprint."""


def hits_of(buckets: Buckets) -> Hits:
    """Return the hits that a probe of the index found."""
    columns = buckets.counts.shape[1]
    cells = np.repeat(np.arange(buckets.counts.size), buckets.counts.reshape(-1))
    return Hits(cells // columns, buckets.ordinals, cells % columns == columns - 1)


def collect(hits: Hits) -> Candidates:
    """Gather hits into distinct pairs and put them in the order in which they are verified."""
    order = np.lexsort((hits.ordinals, hits.rows))
    rows, ordinals, same_text = hits.rows[order], hits.ordinals[order], hits.same_text[order]
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]) | (ordinals[1:] != ordinals[:-1])
    begins = np.flatnonzero(first)
    if not begins.size:
        return Candidates(rows, ordinals, np.zeros(0, np.int64), same_text)
    bands = np.add.reduceat((~same_text).astype(np.int64), begins)
    same = np.logical_or.reduceat(same_text, begins)
    rows, ordinals = rows[begins], ordinals[begins]
    best = np.lexsort((ordinals, -bands, rows))
    return Candidates(rows[best], ordinals[best], bands[best], same[best])


def merge(one: Candidates, other: Candidates) -> Candidates:
    """Return the pairs of both, which have none in common, in the order of verification."""
    rows = np.concatenate((one.rows, other.rows))
    ordinals = np.concatenate((one.ordinals, other.ordinals))
    bands = np.concatenate((one.bands, other.bands))
    same = np.concatenate((one.same_text, other.same_text))
    best = np.lexsort((ordinals, -bands, rows))
    return Candidates(rows[best], ordinals[best], bands[best], same[best])


def ranks(rows: I64) -> I64:
    """Return for each element of the rising *rows* its place among the equal ones, from 0."""
    if not len(rows):
        return rows
    first = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    return np.arange(len(rows)) - np.repeat(first, np.diff(np.append(first, len(rows))))


class Overlay:
    """The buckets that documents of one micro-batch share among themselves.

    Only keys that occur twice in the batch matter: each is a group, and its entries are the
    batch's rows that have the key, in order. Rows found unique join their groups' members.
    """

    def __init__(
        self, keys: NDArray[np.uint64], present: Flags, listed: NDArray[np.uint8], *, cap: int
    ) -> None:
        """Group equal *keys* (n, c) where *present*; *listed* (n, c) counts the index's bucket."""
        rows, columns = np.nonzero(present)
        flat = keys[rows, columns]
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        equal = ordered[1:] == ordered[:-1]
        shared = np.zeros(len(ordered), bool)
        shared[1:] |= equal
        shared[:-1] |= equal
        chosen = order[shared]
        heads = np.concatenate(([True], flat[chosen][1:] != flat[chosen][:-1]))[: len(chosen)]
        self._rows = rows[chosen]
        self._groups = np.cumsum(heads) - 1
        self._begins = np.flatnonzero(heads)
        self._same_text = columns[chosen] == keys.shape[1] - 1
        self._room = cap - listed[rows, columns][chosen][self._begins].astype(np.int64)
        self._members = np.full((len(self._begins), cap), NOBODY, np.int64)
        self._filled = np.zeros(len(self._begins), np.int64)

    def hits(self, undecided: Flags, *, first_ordinal: int) -> Hits:
        """Return the hits of *undecided* rows among the members so far."""
        entries = np.flatnonzero(undecided[self._rows])
        members = self._members[self._groups[entries]]
        which, place = np.nonzero(members != NOBODY)
        return Hits(
            self._rows[entries][which],
            members[which, place] + first_ordinal,
            self._same_text[entries][which],
        )

    def add(self, unique: Flags) -> None:
        """Let the rows flagged in *unique* join their groups, while their buckets have room."""
        entries = np.flatnonzero(unique[self._rows])
        groups = self._groups[entries]
        place = self._filled[groups] + ranks(groups)
        listed = place < self._room[groups]
        self._members[groups[listed], place[listed]] = self._rows[entries][listed]
        np.add.at(self._filled, groups, 1)

    def unsettled(self, unique: Flags, undecided: Flags) -> Flags:
        """Return which *undecided* rows may still change their verdict.

        *unique* flags the rows that would be unique if nothing were added. Such a row, about to
        become a member, unsettles the later rows of its groups, and these unsettle others.
        """
        unsettled = np.zeros(len(undecided), bool)
        if not self._begins.size:
            return unsettled
        while True:
            doubtful = (unique | unsettled)[self._rows]
            firsts = np.minimum.reduceat(np.where(doubtful, self._rows, NEVER), self._begins)
            touched = self._rows[self._rows > firsts[self._groups]]
            before = int(unsettled.sum())
            unsettled[touched] = True
            unsettled &= undecided
            if int(unsettled.sum()) == before:
                return unsettled
