"""A collection: every document is remembered, each under an id of its own.

The filter remembers only the documents that it forwarded. A collection remembers all, and answers
two questions. Search: which documents are similar to this one? Discovery: which pairs of documents
are similar? It uses the same index as the filter. The id of a document is one more key in the
index, and the bucket of that key lists the document's ordinal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.collection.rows import Id
from streamfilter.documents.reader import is_blank
from streamfilter.documents.sketching import sketched
from streamfilter.index.errors import IndexFault
from streamfilter.index.format import names_of
from streamfilter.index.protocol import Additions, Applied, Changes, Documents, Index, Removals
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from streamfilter.matching.search import candidates_of, compared
from streamfilter.matching.verdict.decision import Outcome
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Document
from streamfilter.similarity.columns import I64, U64, Contents, Flags, distinct
from streamfilter.similarity.sketch import Sketcher, Sketches

BATCH_DOCUMENTS = 1_000  # bounds memory, and the size of an atomic write

NO_TEXT = np.uint8(0)
"""The fingerprint of an empty text is all zero. Its text key is the key of its id, so that no
document is similar to it."""

ALWAYS = 2  # the last two key columns (the id's and the whole text's) exist for short texts too


class DeduplicatorClosed(RuntimeError):
    """A `Deduplicator` was used after `close`. Its documents are on disk if it had a path."""


class Duplicate(Struct, frozen=True):
    """A remembered document that is similar to the given one."""

    id: Id
    similarity: float  # Jaccard similarity of the sets of shingles; 1.0 for equal texts
    same_text: bool  # true if the two texts are equal after normalisation


class Pair(Struct, frozen=True):
    """Two remembered documents that are similar."""

    id: Id  # the document that was added later
    other: Id
    similarity: float
    same_text: bool
    same_field: str = ""
    """The field that makes them the same, by `verify.also_same`; empty if none does."""


class Likeness(Struct, frozen=True):
    """Two similar documents: *ordinal* came later."""

    ordinal: int
    id: str
    other_ordinal: int
    other_id: str
    similarity: float
    same_text: bool
    same_field: str = ""

    def pair(self, given: Callable[[str], Id] = str) -> Pair:
        """Return the two as a caller sees them; *given* makes his id of a stored one."""
        return Pair(
            given(self.id), given(self.other_id), self.similarity, self.same_text, self.same_field
        )


class Collection:
    """Documents by id in an index that belongs to this collection alone."""

    def __init__(
        self,
        index: Index,
        sketcher: Sketcher,
        *,
        seed: bytes,
        retention: Retention = UNLIMITED,
        sketch: Callable[[Sequence[Document]], Sketches] | None = None,
    ) -> None:
        """Use *index*; *sketch* works as `sketched` does, maybe on several cores."""
        self.index, self.sketcher, self.retention = index, sketcher, retention
        self._sketch = sketch or partial(sketched, sketcher)
        self.overflows = 0  # how often a full bucket did not list a document
        self._name_key = hashlib.blake2b(seed, person=b"document id").digest()

    def __len__(self) -> int:
        return len(self.index)

    def ordinals_of(self, ids: Sequence[str]) -> list[int | None]:
        """Return the ordinal of each of *ids*; None: the id is not remembered."""
        windows = self.index.probe(self._name_keys(ids)[:, None]).windows
        found = distinct(np.concatenate([each.ordinals for each in windows]))
        documents = self.index.fetch(found[found >= self.index.progress.horizon])
        names = dict(zip(documents.ids, documents.ordinals.tolist(), strict=True))
        return [names.get(id_) for id_ in ids]

    def put(self, added: Sequence[Document], scope: str | None = None) -> I64:
        """Remember documents of one *scope* in one write, and return their ordinals (n,).

        A known id gets the new text. With a retention, call `forget_old` after the search for
        similar documents. Until then the index still holds what the first of the texts must be
        compared with.
        """
        if scope is None:
            contents = self._sketch(added).contents
        else:
            contents = self.sketcher.sketch([each.text for each in added], scope=scope).contents
        blank = np.fromiter((is_blank(each.text) for each in added), np.bool_, len(added))
        fingerprints = np.where(blank[:, None], NO_TEXT, contents.fingerprints)
        return self._write(
            _documents([each.id for each in added], replace(contents, fingerprints=fingerprints))
        )

    def _write(self, documents: Documents) -> I64:
        """Write *documents* under new ordinals and remove stored documents with the same ids."""
        progress, n = self.index.progress, len(documents)
        ordinals = progress.next_ordinal + np.arange(n, dtype=np.int64)
        batches = np.full(n, progress.next_batch, np.int64)
        documents = replace(documents, ordinals=ordinals, offsets=ordinals, batches=batches)
        old = [ordinal for ordinal in self.ordinals_of(documents.ids) if ordinal is not None]
        extent = self.retention.extent(progress, self.index.windows, times=_UNDATED)
        following, _ = progress.advanced(n, (), extent)
        additions = Additions(documents, self._keys(documents), always=ALWAYS)
        changes = Changes(following, additions, removals=self._removals(old), opens=extent.opens)
        self.overflows += self._apply(changes).overflows
        return ordinals

    def _apply(self, changes: Changes) -> Applied:
        """Write *changes*, or raise and forget them: no changelog has them, so nothing is owed."""
        try:
            return self.index.apply(changes)
        except IndexFault:
            self.index.drop_owed()
            raise

    def forget_old(self) -> None:
        """Forget the documents that are older than the retention."""
        progress = self.index.progress
        extent = self.retention.extent(progress, self.index.windows)
        if extent.horizon > progress.horizon:
            self._apply(Changes(replace(progress, horizon=extent.horizon)))

    def remove(self, ids: Sequence[str]) -> int:
        """Forget documents; return how many of *ids* were known."""
        known = [ordinal for ordinal in self.ordinals_of(ids) if ordinal is not None]
        if known:
            self._apply(Changes(self.index.progress, removals=self._removals(known)))
        return len(known)

    def _removals(self, ordinals: list[int]) -> Removals | None:
        if not ordinals:
            return None
        documents = self.index.fetch(distinct(np.array(ordinals, np.int64)))
        keys = self._keys(documents)
        signatures = documents.contents.splitters
        return Removals(documents.ordinals, keys, signatures, names_of(documents), always=ALWAYS)

    def _keys(self, documents: Documents) -> U64:
        """Return (n, bands + 2): the bands, the id's key, the whole text's key."""
        text_keys = self.sketcher.keys_of(documents.contents)
        names = self._name_keys(documents.ids)
        blank = ~documents.contents.fingerprints.any(axis=1)
        whole = np.where(blank, names, text_keys[:, -1])
        return np.column_stack((text_keys[:, :-1], names, whole))

    def _name_keys(self, ids: Sequence[str]) -> U64:
        key = self._name_key
        digests = [hashlib.blake2b(id_.encode(), digest_size=8, key=key).digest() for id_ in ids]
        return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)

    def like_texts(
        self, texts: Sequence[str], policy: MatchPolicy, scope: str | None = None
    ) -> list[list[Likeness]]:
        """Return for each text the similar documents of its *scope*, the most similar first."""
        sketches = self.sketcher.sketch(texts, scope=scope)
        asked = np.fromiter((not is_blank(text) for text in texts), np.bool_, len(texts))
        return self._grouped(sketches, None, asked, policy)

    def like_ordinals(
        self, ordinals: I64, policy: MatchPolicy, *, earlier: bool, short: bool = True
    ) -> list[list[Likeness]]:
        """Return for each stored document the similar others, with *earlier* only older ones.

        *short* says whether equal short texts are similar (`MatchPolicy.least_set`).
        """
        return self._like(self.index.fetch(ordinals), policy, earlier=earlier, short=short)

    def _like(
        self, documents: Documents, policy: MatchPolicy, *, earlier: bool, short: bool = True
    ) -> list[list[Likeness]]:
        asked = (documents.contents.set_sizes >= policy.least_set) | short
        sketches = Sketches(documents.contents, self.sketcher.keys_of(documents.contents))
        found = self._grouped(sketches, documents, asked, policy)
        if not earlier:
            return found
        return [
            [each for each in row if self.retention.meets(each.ordinal, each.other_ordinal)]
            for row in found
        ]

    def _grouped(
        self, sketches: Sketches, own: Documents | None, asked: Flags, policy: MatchPolicy
    ) -> list[list[Likeness]]:
        own_ordinals = None if own is None else own.ordinals
        candidates = candidates_of(self.index, sketches, but_for=own_ordinals)
        also = sketches.contents.also > 0
        if not also:
            candidates = candidates.where(asked[candidates.rows])
        stored = self.index.fetch(distinct(candidates.ordinals))
        outcome = compared(sketches.contents, candidates, stored, policy=policy)
        if also:  # short texts are the same by a field, too
            outcome = outcome.where(asked[candidates.rows] | outcome.by_field)
        found: list[list[Likeness]] = [[] for _ in range(len(sketches))]
        for row, likeness in _best_first(outcome, stored, own):
            found[row].append(likeness)
        return found

    def likenesses(self, policy: MatchPolicy) -> Iterator[tuple[Documents, list[list[Likeness]]]]:
        """Yield every similar pair that shares a key, once: a list for each document of a chunk."""
        for documents in self.documents():
            yield documents, self._like(documents, policy, earlier=True)

    def documents(self) -> Iterator[Documents]:
        """Yield all documents in the order in which they were added, in chunks."""
        for start in self._starts():
            yield self.index.fetch(np.arange(start, start + BATCH_DOCUMENTS, dtype=np.int64))

    def _starts(self) -> range:
        progress = self.index.progress
        return range(progress.horizon, progress.next_ordinal, BATCH_DOCUMENTS)

    def copy_into(self, other: Collection) -> None:
        """Write into *other* all documents whose ids it does not have, without sketching again."""
        for documents in self.documents():
            known = other.ordinals_of(documents.ids)
            rows = np.flatnonzero([ordinal is None for ordinal in known])
            if rows.size:
                other._write(documents.at(rows))
                other.forget_old()


_UNDATED: I64 = np.full(1, -1, np.int64)
"""The time of the first document of a write, which chooses its window: unknown here."""


def _documents(ids: Sequence[str], contents: Contents) -> Documents:
    """Return the columns of documents that have no ordinal yet."""
    nothing = np.zeros(len(ids), np.int64)
    return Documents(
        ordinals=nothing,
        ids=list(ids),
        batches=nothing,
        partitions=nothing,
        offsets=nothing,
        timestamps=nothing - 1,
        contents=contents,
    )


def _best_first(
    outcome: Outcome, stored: Documents, own: Documents | None
) -> Iterator[tuple[int, Likeness]]:
    """Yield the confirmed pairs and their rows: by row, then most similar, then oldest."""
    pairs = outcome.candidates
    order = np.lexsort((pairs.ordinals, -outcome.similarity, pairs.rows))
    order = order[outcome.confirmed[order]]
    others = pairs.ordinals[order]
    # A thousand copies are half a million pairs: columns avoid one look-up for each pair.
    columns = (
        pairs.rows[order],
        others,
        np.searchsorted(stored.ordinals, others),
        outcome.similarity[order],
        outcome.equal_text[order],
    )
    ordinals = None if own is None else own.ordinals.tolist()
    lists, fields = (column.tolist() for column in columns), outcome.fields_of(order)
    for row, other, place, similarity, same, field in zip(*lists, fields, strict=True):
        yield (
            row,
            Likeness(
                ordinal=-1 if ordinals is None else ordinals[row],
                id="" if own is None else own.ids[row],
                other_ordinal=other,
                other_id=stored.ids[place],
                similarity=similarity,
                same_text=same,
                same_field=field,
            ),
        )
