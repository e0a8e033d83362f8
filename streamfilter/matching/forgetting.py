"""Forgetting by id: which documents a batch's tombstones forget, and from which record on.

A tombstone forgets the documents of its id that were judged before it, those of this very batch
too: from it on they are nobody's candidates. With the batch's write they leave records and lists.
If a tombstone and its document come in the same batch, the document is never written.

Verdicts must not depend on where batches are cut, so two things end a batch early (`CutBatch`):

- A forgotten document would leave a place in a full bucket that another document of the batch
  needs. Those before the tombstone must find the bucket full, those after it must not.
- More than `FORGET_MAX` documents are forgotten. That bounds the memory and the time of a write. A
  tombstone that names more by itself comes first in its batch. Then its oldest documents are
  forgotten in a transaction of their own, which leaves the positions before the tombstone. The
  next step, or after a kill the next owner, reads it again and forgets the next ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from streamfilter.index.protocol import Index, Removals
from streamfilter.similarity.columns import I64, U8, U64, Flags, KeysOf

FORGET_MAX = 1_000
"""Documents that one batch forgets: half a second, and some megabytes of keys."""
ASK_AT_ONCE = 64
"""Ids whose documents are looked up together: each may name up to `FORGET_MAX` and one."""
FETCH_AT_ONCE = 64
"""Documents that are read together to remove them: records with fields may be a megabyte each."""


class CutBatch(Exception):
    """Not all records of a batch can be judged in one; its first *records* can.

    There are none if the first record is a tombstone that names too many documents: then those of
    the *ordinals* are to be forgotten before it is taken again.
    """

    def __init__(self, records: int, ordinals: I64 | None = None) -> None:
        super().__init__(records)
        self.records, self.ordinals = records, ordinals


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A record that asks to forget."""

    row: int
    """Records of the batch that come before it."""
    before: int
    """Documents of the batch that come before it."""
    id: str | None
    """Whose documents; None: its key is no document's id."""


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What the tombstones of a batch ask for."""

    first_ordinal: int
    """Of the batch: documents from there on are its own, and only asked for if they are unique."""
    tombstones: Sequence[Tombstone]
    ordinals: I64
    """(d,) of the documents, rising."""
    rows: I64
    """(d,) the first row of the batch that meets each no more."""
    causes: I64
    """(d,) the place of each one's tombstone among the batch's."""
    records: Sequence[int] = ()
    """Where the batch's documents stand among its records."""

    @classmethod
    def of(
        cls,
        tombstones: Sequence[Tombstone],
        ids: Sequence[str],
        index: Index,
        *,
        first_ordinal: int,
        records: Sequence[int],
    ) -> Forgetting:
        """Return what *tombstones* ask for in a batch of documents with these *ids*.

        The documents stand at *records* among the batch's records.

        Raises:
            CutBatch: for one batch.
        """
        if not any(each.id is not None for each in tombstones):
            return cls(first_ordinal, tombstones, NOBODY, NOBODY, NOBODY)
        waiting = _Named(tombstones, ids, index, first_ordinal)
        found: dict[int, tuple[int, int]] = {}
        for cause, each in enumerate(tombstones):
            end = first_ordinal + each.before
            theirs = waiting.of(cause)
            while theirs and theirs[-1] < end:
                if len(found) == FORGET_MAX:
                    raise CutBatch(each.row, None if each.row else np.array([*found], np.int64))
                found[theirs.pop()] = each.before, cause
        ordered = sorted(found.items())
        rows, causes = np.array([where for _, where in ordered], np.int64).reshape(-1, 2).T
        ordinals = np.array([ordinal for ordinal, _ in ordered], np.int64)
        return cls(first_ordinal, tombstones, ordinals, rows, causes, records)

    @property
    def stored(self) -> I64:
        """Return whom of the index's documents they forget."""
        return self.ordinals[self.ordinals < self.first_ordinal]

    def rows_of(self, n: int) -> Flags:
        """Return which of the batch's own *n* documents they forget."""
        rows = np.zeros(n, np.bool_)
        rows[self.ordinals[self.ordinals >= self.first_ordinal] - self.first_ordinal] = True
        return rows

    def meets(self, rows: I64, ordinals: I64) -> Flags:
        """Return (p,): the document of an ordinal is not forgotten when that in the row comes."""
        if not len(self.ordinals):
            return np.ones(len(rows), np.bool_)
        at = np.searchsorted(self.ordinals, ordinals).clip(max=len(self.ordinals) - 1)
        gone = (self.ordinals[at] == ordinals) & (rows >= self.rows[at])
        return np.asarray(~gone)

    def forgotten(self, unique: Flags, horizons: I64) -> Forgotten:
        """Return what came of it, when *unique* of the batch's documents were remembered.

        Documents below the horizon leave, too, but were not remembered any more. *horizons* are
        those of the batch's documents and of what comes after them.
        """
        own = self.ordinals >= self.first_ordinal
        there = ~own & (self.ordinals >= horizons[self.rows])
        there[own] = unique[self.ordinals[own] - self.first_ordinal]
        heard = np.bincount(self.causes[there], minlength=len(self.tombstones))
        unknown = int((heard == 0).sum())
        return Forgotten(self.stored, int(there[own].sum()), unknown)

    def check_places(self, rows: I64, ordinals: I64) -> None:
        """End the batch before it judges documents without the places that they would find.

        Args:
            rows: (p,) documents of the batch, each in a full bucket with a forgotten one.
            ordinals: (p,) of that one.

        Raises:
            CutBatch: before the tombstone if the document comes first, else before the document.
        """
        if len(rows):
            asked = np.array([each.row for each in self.tombstones], np.int64)
            asked = asked[self.causes[np.searchsorted(self.ordinals, ordinals)]]
            places = np.asarray(self.records, np.int64)[rows]
            raise CutBatch(int(np.maximum(asked, places).min()))


class _Named:
    """The documents of each tombstone's id, in the index and in the batch, the latest first."""

    def __init__(
        self, tombstones: Sequence[Tombstone], ids: Sequence[str], index: Index, first_ordinal: int
    ) -> None:
        self._tombstones, self._index = tombstones, index
        self._own: dict[str, list[int]] = {}
        for row, id_ in enumerate(ids):
            self._own.setdefault(id_, []).append(first_ordinal + row)
        self._known: dict[str, list[int]] = {}

    def of(self, cause: int) -> list[int]:
        """Return whom a tombstone names; who takes from the list, takes from those after it."""
        name = self._tombstones[cause].id
        if name is None:
            return []
        if name not in self._known:
            self._ask(cause)
        return self._known[name]

    def _ask(self, cause: int) -> None:
        coming = {each.id: None for each in self._tombstones[cause : cause + ASK_AT_ONCE]}
        names = [name for name in coming if name is not None and name not in self._known]
        for name, stored in zip(names, self._index.named(names, FORGET_MAX + 1), strict=True):
            self._known[name] = [*stored.tolist(), *self._own.get(name, ())][::-1]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a batch's tombstones have forgotten."""

    stored: I64
    """Ordinals of the index's documents, rising."""
    own: int = 0
    """Documents of the batch itself: they were never written."""
    unknown: int = 0
    """Tombstones that nothing was forgotten for."""


NOBODY: I64 = np.zeros(0, np.int64)
NO_TOMBSTONES = Forgetting(0, (), NOBODY, NOBODY, NOBODY)
NOTHING = Forgotten(NOBODY)


def removals_of(ordinals: I64, index: Index, keys_of: KeysOf) -> Removals | None:
    """Return what removes the documents of *ordinals* from the *index*, None if it has none."""
    if not len(ordinals):
        return None  # as with nearly every batch
    starts = range(0, len(ordinals), FETCH_AT_ONCE)
    parts = [_removals(ordinals[at : at + FETCH_AT_ONCE], index, keys_of) for at in starts]
    numbers, keys, signatures, ids = zip(*parts, strict=True)
    removed = np.concatenate(numbers)
    if not len(removed):
        return None
    return Removals(removed, np.concatenate(keys), np.concatenate(signatures), [*chain(*ids)])


def _removals(ordinals: I64, index: Index, keys_of: KeysOf) -> tuple[I64, U64, U8, Sequence[str]]:
    """Return what it takes to remove some documents, without what they are compared by."""
    documents = index.fetch(ordinals)
    contents = documents.contents
    return documents.ordinals, keys_of(contents), contents.signatures, documents.ids
