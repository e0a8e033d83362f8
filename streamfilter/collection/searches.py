"""The questions that a `Deduplicator` answers; none of them changes anything."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from streamfilter.collection.clusters import CLUSTERS
from streamfilter.collection.collection import (
    BATCH_DOCUMENTS,
    Collection,
    Duplicate,
    Likeness,
    Pair,
)
from streamfilter.collection.guard import Guarded, alone
from streamfilter.collection.identity import warn_of_missed
from streamfilter.collection.rows import (
    TEXT,
    Id,
    Ids,
    Rows,
    check_limit,
    check_scope,
    check_text,
    check_threshold,
    chunks,
    texts_of,
)
from streamfilter.matching.verdict.policy import MatchPolicy


class Searches(Guarded):
    """Finds documents in an open collection: by text, by id, in pairs, in clusters."""

    def _search(self, collection: Collection, policy: MatchPolicy) -> None:
        """Begin to answer from *collection*, by *policy*."""
        self._opened, self._policy, self._ids = collection, policy, Ids(collection.index)

    def __repr__(self) -> str:
        path = f"{self._where}, " if self._where else ""
        if self._holder.forked:
            how = f"of process {self._holder.process}"
        else:
            how = f"{len(self):,} documents" if self._release.alive else "closed"
        return f"<Deduplicator {path}threshold={self.threshold:g}: {how}>"

    @property
    def threshold(self) -> float:
        """Return the similarity at which two texts begin to count as duplicates."""
        return self._policy.threshold

    @alone
    def __len__(self) -> int:
        return len(self._opened)

    @alone
    def __contains__(self, id: Id) -> bool:
        return self._opened.ordinals_of([self._ids.stored(id)]) != [None]

    def __iter__(self) -> Iterator[Id]:
        """Iterate over the ids, in the order in which their texts were added."""
        for documents in self._in_turn(self._opened.documents()):
            yield from map(self._ids.given, documents.ids)

    def is_duplicate(self, text: str, *, scope: str | None = None) -> bool:
        """Return whether a remembered document is similar to *text*; remember nothing."""
        return bool(self.duplicates_of(check_text(text), scope=scope))

    @alone
    def duplicates_of(
        self,
        text: str | None = None,
        *,
        id: Id | None = None,
        threshold: float | None = None,
        scope: str | None = None,
        limit: int | None = None,
    ) -> list[Duplicate]:
        """Return the documents similar to *text* or to the document *id*, most similar first.

        *scope* is that of *text*; a document has its own, and an unknown *id* raises `KeyError`.
        *limit* is the greatest number of documents to return. Below the threshold that the bands
        were planned for, they find fewer pairs. A warning says how many.
        """
        if (text is None) is (id is None):
            raise ValueError("give a text, or id=...: one of them")
        if id is not None and scope is not None:
            raise ValueError(f"leave out scope: the document {id!r} has its own")
        check_limit(limit)
        policy = self._policy_at(threshold, stacklevel=3)  # through `alone`
        if text is not None:
            inside = check_scope(scope)
            (row,) = self._opened.like_texts([check_text(text)], policy, inside)
        else:
            (ordinal,) = self._opened.ordinals_of([self._ids.stored(id)])
            if ordinal is None:
                raise KeyError(id)
            ordinals = np.array([ordinal], np.int64)
            (row,) = self._opened.like_ordinals(ordinals, policy, earlier=False)
        return self._given(row, limit)

    def duplicates_of_many(
        self,
        texts: Rows,
        *,
        text: str = TEXT,
        threshold: float | None = None,
        scope: str | None = None,
        limit: int | None = None,
    ) -> Iterator[list[Duplicate]]:
        """Yield for each of *texts* the documents similar to it; remember nothing.

        So a training set is cleared of an evaluation set. *texts* are str, or rows as in
        `add_many`, whose ids are not read. The other arguments are those of `duplicates_of`.
        """
        check_limit(limit)
        policy, inside = self._policy_at(threshold, stacklevel=2), check_scope(scope)
        read = texts_of(texts, text)

        def answers() -> Iterator[list[list[Likeness]]]:
            for chunk in chunks(read, BATCH_DOCUMENTS):
                yield self._opened.like_texts([each for _, each in chunk], policy, inside)

        return (self._given(row, limit) for rows in self._in_turn(answers()) for row in rows)

    def all_duplicates(
        self, *, threshold: float | None = None, limit: int | None = None
    ) -> Iterator[Pair]:
        """Yield every pair of similar documents, once. Change nothing during the iteration.

        With *limit*, yield of each document only the pairs with so many earlier ones.
        """
        check_limit(limit)
        policy, given = self._policy_at(threshold, stacklevel=2), self._ids.given
        for _, rows in self._in_turn(self._opened.likenesses(policy)):
            for row in rows:
                for each in row[:limit]:
                    yield each.pair(given)

    def clusters(self, *, kind: str = "stars", threshold: float | None = None) -> list[list[Id]]:
        """Return the clusters of similar documents, each with its first document in front.

        In a star each member is similar to the first. With *kind* ``components`` it is similar to
        any member. Change nothing meanwhile.
        """
        if kind not in CLUSTERS:
            raise ValueError(f"kind is {kind!r:.60}; use {' or '.join(CLUSTERS)}")
        policy, groups = self._policy_at(threshold, stacklevel=2), CLUSTERS[kind]()
        for _, rows in self._in_turn(self._opened.likenesses(policy)):
            for row in rows:
                groups.add(row)
        return [[*map(self._ids.given, (c.centre, *c.members))] for c in groups.clusters()]

    def _given(self, likenesses: list[Likeness], limit: int | None = None) -> list[Duplicate]:
        """Return what a caller gets of one document's *likenesses*: the first *limit*."""
        return [
            Duplicate(self._ids.given(each.other_id), each.similarity, each.same_text)
            for each in likenesses[:limit]
        ]

    def _policy_at(self, threshold: float | None, *, stacklevel: int) -> MatchPolicy:
        if threshold is None:
            return self._policy
        check_threshold(threshold)
        policy = replace(self._policy, threshold=threshold)
        warn_of_missed(self._opened.sketcher.scheme, threshold, stacklevel=stacklevel + 1)
        return policy
