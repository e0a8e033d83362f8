"""Forgetting by id: which documents a batch's records forget, and from which record on.

A tombstone forgets the documents of its id that were judged before it, also those of the same
batch. They are no candidates of later documents. The batch's write removes their records and their
entries in buckets. If a tombstone and its document arrive in the same batch, the document is never
written.

With ``index.scope_field`` an id is known within its scope. A tombstone that names no scope forgets
the documents of its id in all scopes.

With ``known_id: update`` each record with an id does the same, and is then judged: it replaces the
earlier version of its document. So the stored version of an id is always that of its last record.

Verdicts must not depend on where batches are cut, so two things end a batch early (`CutBatch`):

- A forgotten document frees a place in a full bucket that an earlier document of the batch would
  have taken (`overlay.Overlay.cut`). A write removes before it adds, so it would let that one in.
- More than `FORGET_MAX` documents are forgotten. The bound limits the memory and the time of a
  write. A tombstone that names more by itself comes first in its batch. Then its oldest documents
  are forgotten in a transaction of their own, which leaves the positions before the tombstone.
  The next step reads it again and forgets the next ones. After a kill the next owner does so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from msgspec import Struct

from streamfilter.index.errors import IndexDamaged
from streamfilter.index.format import name_of, names_of
from streamfilter.index.protocol import Index, Removals
from streamfilter.similarity.columns import I64, U8, U64, Flags, KeysOf
from streamfilter.stops import counted

FORGET_MAX = 1_000  # by one batch: half a second, and some megabytes of keys
NEVER = np.iinfo(np.int64).max
ASK_AT_ONCE = 64  # ids; each may return up to `FORGET_MAX` + 1 documents
FETCH_AT_ONCE = 64  # documents to remove: a record with fields may have a megabyte


class CutBatch(Exception):
    """The batch must end early: only its first *records* can be judged together.

    *records* is 0 if the first record is a tombstone that names too many documents. Then forget
    the documents of the *ordinals* first, and read the tombstone again.
    """

    def __init__(self, records: int, ordinals: I64 | None = None) -> None:
        super().__init__(records)
        self.records, self.ordinals = records, ordinals


def known_as(document_id: str, scope: bytes) -> bytes | None:
    """Return the name under which ``known_id`` knows a document; None for the empty id of many."""
    return name_of(document_id, scope) if document_id else None


class Tombstone(Struct, frozen=True):
    """A record that forgets the documents of an id: a tombstone, or a new version of them."""

    row: int  # number of the batch's records before it
    before: int  # number of the batch's documents before it
    name: bytes | None
    """The name of the documents to forget (`format.name_of`), without a scope those of all scopes.
    None: the record's key is no document's id."""
    replaces: bool = False  # whether the record is their new version


class Forgetting(Struct, frozen=True):
    """The documents that the tombstones of a batch forget."""

    first_ordinal: int
    """The batch's first ordinal. Documents from there on are its own; only unique ones count."""
    tombstones: Sequence[Tombstone]
    ordinals: I64  # (d,) ordinals of the documents to forget, rising
    rows: I64  # (d,) the batch's first row for which the document is no candidate any more
    causes: I64  # (d,) index into ``tombstones``: the one that forgets the document
    records: Sequence[int] = ()  # places of the batch's documents among its records

    @classmethod
    def of(
        cls,
        tombstones: Sequence[Tombstone],
        names: Sequence[tuple[str, bytes]],
        index: Index,
        *,
        first_ordinal: int,
        records: Sequence[int],
    ) -> Forgetting:
        """Return what *tombstones* forget in a batch, or raise `CutBatch`.

        *names* are the ids and scopes of the batch's documents, and *records* are their places
        among the batch's records.
        """
        if not any(each.name is not None for each in tombstones):
            return cls(first_ordinal, tombstones, NO_ORDINALS, NO_ORDINALS, NO_ORDINALS)
        waiting = _Named(tombstones, names, index, first_ordinal)
        found: dict[int, tuple[int, int]] = {}
        for cause, each in enumerate(tombstones):
            end = first_ordinal + each.before
            theirs = waiting.of(cause)
            while theirs and theirs[-1] < end:
                if theirs[-1] in found:  # by a tombstone of another name: of all scopes, or of one
                    theirs.pop()
                    continue
                if len(found) == FORGET_MAX:
                    raise CutBatch(each.row, None if each.row else np.array([*found], np.int64))
                found[theirs.pop()] = each.before, cause
        ordered = sorted(found.items())
        rows, causes = np.array([where for _, where in ordered], np.int64).reshape(-1, 2).T
        ordinals = np.array([ordinal for ordinal, _ in ordered], np.int64)
        return cls(first_ordinal, tombstones, ordinals, rows, causes, records)

    @property
    def stored(self) -> I64:
        """Return the ordinals of the forgotten documents that are in the index."""
        return self.ordinals[self.ordinals < self.first_ordinal]

    def rows_of(self, n: int) -> Flags:
        """Return which of the batch's own *n* documents are forgotten."""
        rows = np.zeros(n, np.bool_)
        rows[self.ordinals[self.ordinals >= self.first_ordinal] - self.first_ordinal] = True
        return rows

    def until(self, n: int) -> I64:
        """Return (n,) the row from which on each of the batch's documents is gone, or `NEVER`."""
        until = np.full(n, NEVER)
        own = self.ordinals >= self.first_ordinal
        until[self.ordinals[own] - self.first_ordinal] = self.rows[own]
        return until

    def meets(self, rows: I64, ordinals: I64) -> Flags:
        """Return (p,): whether each ordinal's document is not yet forgotten at its row."""
        if not len(self.ordinals):
            return np.ones(len(rows), np.bool_)
        at = np.searchsorted(self.ordinals, ordinals).clip(max=len(self.ordinals) - 1)
        gone = (self.ordinals[at] == ordinals) & (rows >= self.rows[at])
        return np.asarray(~gone)

    def forgotten(self, unique: Flags, horizons: I64) -> Forgotten:
        """Return the result, where *unique* says which of the batch's documents were remembered.

        Documents below the horizon are removed too, but not counted: they were forgotten already.
        *horizons* are those of the batch's documents, then the one after the batch.
        """
        own = self.ordinals >= self.first_ordinal
        there = ~own & (self.ordinals >= horizons[self.rows])
        there[own] = unique[self.ordinals[own] - self.first_ordinal]
        heard = np.bincount(self.causes[there], minlength=len(self.tombstones)) > 0
        replace = np.array([each.replaces for each in self.tombstones], np.bool_)
        unknown, updates = int((~heard & ~replace).sum()), int((heard & replace).sum())
        return Forgotten(self.stored, int(there[own].sum()), unknown, updates)

    def end_before(self, row: int) -> None:
        """Raise `CutBatch`: the batch ends before *row*, and so before what is forgotten there."""
        raise CutBatch(self.records[row - 1] + 1)


class _Named:
    """Looks up the documents of each tombstone's id, in the index and the batch, latest first."""

    def __init__(
        self,
        tombstones: Sequence[Tombstone],
        names: Sequence[tuple[str, bytes]],
        index: Index,
        first_ordinal: int,
    ) -> None:
        self._tombstones, self._index = tombstones, index
        self._own: dict[bytes, list[int]] = {}
        for ordinal, (id_, scope) in enumerate(names, start=first_ordinal):
            for name in {name_of(id_), name_of(id_, scope)}:
                self._own.setdefault(name, []).append(ordinal)
        self._known: dict[bytes, list[int]] = {}

    def of(self, cause: int) -> list[int]:
        """Return the ordinals that a tombstone names, latest first; later ones share the list."""
        name = self._tombstones[cause].name
        if name is None:
            return []
        if name not in self._known:
            self._ask(cause)
        return self._known[name]

    def _ask(self, cause: int) -> None:
        coming = {each.name: None for each in self._tombstones[cause : cause + ASK_AT_ONCE]}
        names = [name for name in coming if name is not None and name not in self._known]
        for name, stored in zip(names, self._index.named(names, FORGET_MAX + 1), strict=True):
            self._known[name] = [*stored.tolist(), *self._own.get(name, ())][::-1]


class Forgotten(Struct, frozen=True):
    """The documents that a batch's records have removed."""

    stored: I64  # ordinals of documents that were in the index, rising
    own: int = 0  # number of documents of the batch itself, which were never written
    unknown: int = 0  # number of tombstones for which no document was forgotten
    updates: int = 0  # number of records that replaced an earlier version


NO_ORDINALS: I64 = np.zeros(0, np.int64)
NO_TOMBSTONES = Forgetting(0, (), NO_ORDINALS, NO_ORDINALS, NO_ORDINALS)
NOTHING = Forgotten(NO_ORDINALS)


def named_removals(ordinals: I64, index: Index, keys_of: KeysOf) -> Removals | None:
    """Return the removals of documents that the *index* has named by their ids.

    Raises `IndexDamaged` if it has none of them. Its table of ids would name them again, and the
    tombstone would be read again for ever.
    """
    removals = removals_of(ordinals, index, keys_of)
    if removals is None and len(ordinals):
        raise IndexDamaged(
            f"the index finds {counted(len(ordinals), 'document')} by id, from ordinal "
            f"{ordinals[0]} on, and holds none of them: its table of ids is damaged"
        )
    return removals


def removals_of(ordinals: I64, index: Index, keys_of: KeysOf) -> Removals | None:
    """Return the removals of the documents of *ordinals*; None if the *index* has none of them."""
    if not len(ordinals):
        return None  # nearly every batch
    starts = range(0, len(ordinals), FETCH_AT_ONCE)
    parts = [_removals(ordinals[at : at + FETCH_AT_ONCE], index, keys_of) for at in starts]
    numbers, keys, signatures, names = zip(*parts, strict=True)
    removed = np.concatenate(numbers)
    if not len(removed):
        return None
    return Removals(removed, np.concatenate(keys), np.concatenate(signatures), [*chain(*names)])


def _removals(
    ordinals: I64, index: Index, keys_of: KeysOf
) -> tuple[I64, U64, U8, list[tuple[bytes, ...]]]:
    """Return ordinals, keys, signatures and names of some documents, without samples."""
    documents = index.fetch(ordinals)
    contents = documents.contents
    return documents.ordinals, keys_of(contents), contents.splitters, names_of(documents)
