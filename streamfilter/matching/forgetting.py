"""Forgetting by id: whom a batch's tombstones forget, and who meets them no more.

A tombstone forgets the documents of its id that were judged before it, those of this very batch
too: from it on they are nobody's candidates. With the batch's write they leave records and lists;
until then they keep their places in full buckets. What tombstone and document come in one batch of
is never written at all.

Whom a batch forgets is read and written at once, so there are at most `FORGET_MAX`: a batch ends
before the tombstone that would make them more. One that would do so by itself comes first in a
batch, and forgets the oldest: that follows from the order of records alone, however they are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfilter.index.protocol import Index, Removals
from streamfilter.similarity.columns import I64, Flags, KeysOf

FORGET_MAX = 50_000
"""Documents that one batch forgets: some hundred megabytes, and 300 columns of them are one write.
An id is to name a document, and a batch has some thousand records."""


class ForgetsTooMuch(Exception):
    """A batch would forget more than `FORGET_MAX` documents; its first *records* do not."""

    def __init__(self, records: int) -> None:
        super().__init__(records)
        self.records = records


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
    tombstones: int
    ordinals: I64
    """(d,) of the documents, rising."""
    rows: I64
    """(d,) the first row of the batch that meets each no more."""
    causes: I64
    """(d,) the place of each one's tombstone among the batch's."""
    left: int = 0
    """Documents that stay, because one tombstone names too many."""

    @classmethod
    def of(
        cls,
        tombstones: Sequence[Tombstone],
        ids: Sequence[str],
        index: Index,
        *,
        first_ordinal: int,
    ) -> Forgetting:
        """Return what *tombstones* ask for in a batch of documents with these *ids*.

        Raises:
            ForgetsTooMuch: for one batch.
        """
        asked = {each.id for each in tombstones if each.id is not None}
        if not asked:
            return cls(first_ordinal, len(tombstones), NOBODY, NOBODY, NOBODY)
        waiting = _ordinals(sorted(asked), ids, index, first_ordinal)
        found: dict[int, tuple[int, int]] = {}
        left = 0
        for cause, each in enumerate(tombstones):
            end = first_ordinal + each.before
            theirs = waiting.get(each.id, [])
            while theirs and theirs[-1] < end:
                if len(found) == FORGET_MAX:
                    if each.row:
                        raise ForgetsTooMuch(each.row)
                    left = len(theirs)
                    break
                found[theirs.pop()] = each.before, cause
        ordered = sorted(found.items())
        rows, causes = np.array([where for _, where in ordered], np.int64).reshape(-1, 2).T
        ordinals = np.array([ordinal for ordinal, _ in ordered], np.int64)
        return cls(first_ordinal, len(tombstones), ordinals, rows, causes, left)

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

    def forgotten(self, unique: Flags, horizon: int) -> Forgotten:
        """Return what came of it, when *unique* of the batch's documents were remembered.

        Who is older than the *horizon* leaves, too, but nobody remembered them any more.
        """
        own = self.ordinals >= self.first_ordinal
        there = ~own & (self.ordinals >= horizon)
        there[own] = unique[self.ordinals[own] - self.first_ordinal]
        heard = np.bincount(self.causes[there], minlength=self.tombstones)
        unknown = int((heard == 0).sum())
        return Forgotten(self.stored, int(there[own].sum()), unknown, self.left)


def _ordinals(
    asked: Sequence[str], ids: Sequence[str], index: Index, first_ordinal: int
) -> dict[str | None, list[int]]:
    """Return the documents of each id, those of the index and of a batch, the latest first."""
    own: dict[str, list[int]] = {name: [] for name in asked}
    for row, id_ in enumerate(ids):
        if id_ in own:
            own[id_].append(first_ordinal + row)
    stored = zip(asked, index.named(asked), strict=True)
    return {name: [*ordinals.tolist(), *own[name]][::-1] for name, ordinals in stored}


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a batch's tombstones have forgotten."""

    stored: I64
    """Ordinals of the index's documents, rising."""
    own: int = 0
    """Documents of the batch itself: they were never written."""
    unknown: int = 0
    """Tombstones that nothing was forgotten for."""
    left: int = 0
    """Documents that stay, because one tombstone names too many."""


NOBODY: I64 = np.zeros(0, np.int64)
NO_TOMBSTONES = Forgetting(0, 0, NOBODY, NOBODY, NOBODY)
NOTHING = Forgotten(NOBODY)


def removals_of(ordinals: I64, index: Index, keys_of: KeysOf) -> Removals | None:
    """Return what removes the documents of *ordinals* from the *index*, None if it has none."""
    if not len(ordinals):
        return None  # as with nearly every batch
    documents = index.fetch(ordinals)
    if not len(documents):
        return None
    contents = documents.contents
    return Removals(documents.ordinals, keys_of(contents), contents.signatures, documents.ids)
