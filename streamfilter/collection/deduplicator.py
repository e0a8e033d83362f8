"""`Deduplicator`: finds near-duplicates from Python, in memory or in a directory.

    >>> from streamfilter import Deduplicator
    >>> stories = Deduplicator(shingle="word:2", threshold=0.7)
    >>> stories.add("a", "the cat sat on the mat and looked at dogs")
    []
    >>> stories.add("b", "the cat sat on the mat and looked at birds")
    [Duplicate(id='a', similarity=0.8, same_text=False)]
    >>> stories.is_duplicate("a dog looked at the cat")
    False
    >>> [(pair.id, pair.other, pair.similarity) for pair in stories.all_duplicates()]
    [('b', 'a', 0.8)]
    >>> stories.forget("a")
    True
    >>> stories.duplicates_of(id="b")
    []

Candidates are found by the same bands as in the service, and similarity is computed from the same
sets. The difference: here every document is remembered, duplicates too.
"""

from __future__ import annotations

import builtins
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import wraps
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Concatenate, NoReturn, ParamSpec, TypeVar

import numpy as np

from streamfilter.collection import argument_checks as checks
from streamfilter.collection.collection import (
    BATCH_DOCUMENTS,
    Collection,
    DeduplicatorClosed,
    Duplicate,
    Pair,
)
from streamfilter.collection.identity import (
    identity_at,
    noted_policy,
    noted_retention,
    refusing_callers,
    retention_of,
    wanted_identity,
    wanted_scheme,
    warn_of_missed,
)
from streamfilter.index.directory.lock_and_marker import refuse_inside
from streamfilter.index.directory.opening import open_index
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.protocol import Index
from streamfilter.index.rocks.forks import Holder
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Document
from streamfilter.similarity.scheme import Scheme, scheme_of
from streamfilter.similarity.sketch import Sketcher

BUCKET_CAP = 255  # documents of a bucket; if more are alike, not all are found

P = ParamSpec("P")
R = TypeVar("R")


def _alone(
    method: Callable[Concatenate[Deduplicator, P], R],
) -> Callable[Concatenate[Deduplicator, P], R]:
    """Allow one thread at a time in *method*: each call reads, decides and writes."""

    @wraps(method)
    def call(self: Deduplicator, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._holder.refuse_child()  # first: a child lacks the thread that may hold the lock
        with self._lock:
            return method(self, *args, **kwargs)

    return call


class Deduplicator:
    """Remembers texts under ids and finds near-duplicates among them.

    Without a *path* the texts are kept in memory. With a *path* they are kept in a directory
    (RocksDB), which survives the process. Opened again, it has all texts and its old settings.

    One process at a time may open a directory; `streamfilter query --state` can read it meanwhile.
    A forked child cannot use the object, even without a *path* (`IndexForked`): open it in the
    process that uses it. Any thread may call the methods; the calls run one after the other.
    Do not change it during an iteration. Without `close`, the directory is released when the
    object is garbage-collected.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        threshold: float | None = None,
        shingle: str | None = None,
        scheme: Scheme | None = None,
        retention_documents: int | None = None,
    ) -> None:
        """Open the directory *path*, or start empty.

        Args:
            path: a directory, created if it is missing; None: in memory.
            threshold: two texts are duplicates if their Jaccard similarity is at least this
                number, in (0, 1] (default 0.8). A directory may be opened with another threshold,
                which is stored. The bands of a directory do not change: below the threshold that
                they were planned for, they find fewer pairs. A warning says how many.
            shingle: how a text is cut into a set: ``word:3`` (default), ``char:5``, ...
            scheme: all settings that shape the index, instead of *shingle*. By default, bands are
                planned that find .99 of the pairs at the threshold.
            retention_documents: remember only the last documents that were added or updated, this
                many (at least 2,000). The directory holds up to a quarter or a thousand more,
                whichever is larger. The number is stored. Another one may be given later, but
                forgotten documents do not come back. By default nothing is forgotten.

        Raises:
            TypeError, ValueError: an invalid value; the message says what to use instead.
            IndexFault: *path* is in use, damaged, or was made with another scheme.
        """
        if threshold is not None:
            checks.check_threshold(threshold)
        retention = retention_of(retention_documents)
        asked = MatchPolicy() if threshold is None else MatchPolicy(threshold=threshold)
        known = identity_at(path)
        identity = wanted_identity(known, wanted_scheme(known, threshold, shingle, scheme))
        sketcher = Sketcher(scheme_of(identity.scheme), seed=identity.seed)
        if threshold is not None:
            warn_of_missed(sketcher.scheme, threshold, stacklevel=2)
        if path is None:
            index: Index = MemoryIndex(identity.widths, bucket_cap=BUCKET_CAP)
            self._policy = asked
        else:
            with refusing_callers():
                index = stored = open_index(Path(path), identity, bucket_cap=BUCKET_CAP)
            try:
                self._policy = noted_policy(stored, threshold, new=known is None)
                retention = noted_retention(stored, retention_documents)
            except BaseException:  # the traceback keeps self alive, so no finalizer would close it
                stored.close()
                raise
        self._policy = replace(self._policy, agree_on=sketcher.scheme.agree_on)
        # Not __del__: with reference cycles it runs late, when modules may be gone already.
        self._release = weakref.finalize(self, index.close)
        self._path, self._identity, self._lock = path, identity, threading.RLock()
        self._holder = Holder("this Deduplicator" if path is None else str(path))
        self._opened = Collection(index, sketcher, seed=identity.seed, retention=retention)
        self._opened.forget_old()  # the retention may be smaller now, or a kill came before

    @classmethod
    def open(cls, path: str | Path) -> Deduplicator:
        """Open the existing directory *path*.

        Raises:
            FileNotFoundError: it holds no Deduplicator; `Deduplicator(path)` makes a new one.
            IndexFault: it is in use or damaged.
        """
        if identity_at(path) is None:
            raise FileNotFoundError(f"{path}: holds no Deduplicator; Deduplicator(path) makes one")
        return cls(path)

    @_alone
    def save(self, path: str | Path) -> None:
        """Write a copy into the directory *path*, which must be empty or missing.

        A Deduplicator with a path needs no `save`: each call is on disk when it returns.

        Raises:
            FileExistsError: *path* is not empty.
            IndexFault: *path* cannot be written, or lies in this Deduplicator's own directory.
        """
        if self._path is not None:
            refuse_inside(Path(path), Path(self._path), what="the index")
        if os.path.exists(path) and any(Path(path).iterdir()):
            raise FileExistsError(f"{path}: is not empty; name a directory that is new")
        index = open_index(Path(path), self._identity, bucket_cap=BUCKET_CAP)
        try:
            noted_policy(index, self.threshold, new=True)
            ours = self._collection
            retention = noted_retention(index, ours.retention.documents)
            copy = Collection(index, ours.sketcher, seed=self._identity.seed, retention=retention)
            ours.copy_into(copy)
        finally:
            index.close()

    @property
    def _collection(self) -> Collection:
        self._refuse_closed()
        return self._opened

    def _refuse_closed(self) -> None:
        if not self._release.alive:
            cure = "Deduplicator()" if self._path is None else f"Deduplicator({str(self._path)!r})"
            raise DeduplicatorClosed(f"this Deduplicator is closed; {cure} opens one")

    def __repr__(self) -> str:
        path = "" if self._path is None else f"{str(self._path)!r}, "
        if self._holder.forked:
            how = f"of process {self._holder.process}"
        else:
            how = f"{len(self):,} documents" if self._release.alive else "closed"
        return f"<Deduplicator {path}threshold={self.threshold:g}: {how}>"

    @property
    def threshold(self) -> float:
        """Return the similarity at which two texts begin to count as duplicates."""
        return self._policy.threshold

    @_alone
    def __len__(self) -> int:
        return len(self._collection)

    @_alone
    def __contains__(self, id: str) -> bool:
        return self._collection.ordinals_of([checks.check_id(id)]) != [None]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids, in the order in which their texts were added."""
        for documents in self._in_turn(self._opened.documents()):
            yield from documents.ids

    def add(self, id: str, text: str, *, scope: str | None = None) -> list[Duplicate]:
        """Remember *text* under a new *id*; return the earlier documents that are similar to it.

        Documents match only within their *scope*, such as a tenant's name; those without one are a
        scope together. An id belongs to one document of any scope. A known one raises `ValueError`;
        use `update` to give it another text.
        """
        (found,) = self.add_many([(id, text)], scope=scope)
        return found

    @_alone
    def add_many(
        self, documents: Iterable[tuple[str, str]], *, scope: str | None = None
    ) -> list[list[Duplicate]]:
        """Remember (id, text) pairs of one *scope*, a thousand at a time: faster than one by one.

        Return for each pair the similar earlier documents, including those of this call. A
        `TypeError` names an item that is no (id, text), and a `ValueError` an id that is known
        already, comes twice, or is no UTF-8. The full thousands before it are remembered.
        """
        found: list[list[Duplicate]] = []
        pairs, inside = map(checks.check_pair, documents), checks.check_scope(scope)
        while chunk := list(islice(pairs, BATCH_DOCUMENTS)):
            ids = [id for id, _ in chunk]
            self._refuse_known(ids)
            ordinals = self._collection.put([Document(*each) for each in chunk], inside)
            rows = self._collection.like_ordinals(ordinals, self._policy, earlier=True)
            self._collection.forget_old()
            found += [[each.duplicate for each in row] for row in rows]
        return found

    def _refuse_known(self, ids: list[str]) -> None:
        known = self._collection.ordinals_of(ids)
        for place, id in enumerate(ids):
            if known[place] is not None:
                raise ValueError(f"the id {id!r} is known already; use update({id!r}, text)")
        if len(set(ids)) < len(ids):
            twice = next(id for place, id in enumerate(ids) if id in ids[:place])
            raise ValueError(f"the id {twice!r} comes twice; give each text an id of its own")

    @_alone
    def update(self, id: str, text: str, *, scope: str | None = None) -> list[Duplicate]:
        """Set text and scope of *id*, known or not; return the other documents similar to it."""
        document = Document(checks.check_id(id), checks.check_text(text))
        ordinals = self._collection.put([document], checks.check_scope(scope))
        (row,) = self._collection.like_ordinals(ordinals, self._policy, earlier=False)
        return [each.duplicate for each in row]

    @_alone
    def forget(self, id: str) -> bool:
        """Forget the document *id*; return whether it was known."""
        return self._collection.remove([checks.check_id(id)]) == 1

    @_alone
    def forget_many(self, ids: Iterable[str]) -> int:
        """Forget the documents *ids*, a thousand in one write; return how many were known."""
        left, known = map(checks.check_id, checks.check_many(ids)), 0
        while chunk := list(islice(left, BATCH_DOCUMENTS)):
            known += self._collection.remove(list(dict.fromkeys(chunk)))
        return known

    def is_duplicate(self, text: str, *, scope: str | None = None) -> bool:
        """Return whether a remembered document is similar to *text*; remember nothing."""
        return bool(self.duplicates_of(checks.check_text(text), scope=scope))

    @_alone
    def duplicates_of(
        self,
        text: str | None = None,
        *,
        id: str | None = None,
        threshold: float | None = None,
        scope: str | None = None,
    ) -> list[Duplicate]:
        """Return the documents similar to *text* or to the document *id*, most similar first.

        *scope* is that of *text*; a document has its own, and an unknown *id* raises `KeyError`.
        Below the threshold that the bands were planned for, they find fewer pairs. A warning says
        how many.
        """
        if (text is None) is (id is None):
            raise ValueError("give a text, or id=...: one of them")
        if id is not None and scope is not None:
            raise ValueError(f"leave out scope: the document {id!r} has its own")
        policy = self._policy_at(threshold, stacklevel=3)  # through `_alone`
        if text is not None:
            inside = checks.check_scope(scope)
            (row,) = self._collection.like_texts([checks.check_text(text)], policy, inside)
        else:
            (ordinal,) = self._collection.ordinals_of([checks.check_id(id)])
            if ordinal is None:
                raise KeyError(id)
            ordinals = np.array([ordinal], np.int64)
            (row,) = self._collection.like_ordinals(ordinals, policy, earlier=False)
        return [each.duplicate for each in row]

    def all_duplicates(self, *, threshold: float | None = None) -> Iterator[Pair]:
        """Yield every pair of similar documents, once. Change nothing during the iteration."""
        policy = self._policy_at(threshold, stacklevel=2)
        for row in self._in_turn(self._opened.likenesses(policy)):
            for each in row:
                yield Pair(each.id, each.other_id, each.similarity, each.same_text)

    def _in_turn(self, steps: Iterator[R]) -> Iterator[R]:
        """Yield the results of *steps*; each step holds the lock like a call of its own.

        Each step checks that the Deduplicator is still open. The lock is free between steps:
        otherwise a caller that stops half-way would lock out all others.
        """
        while True:
            self._holder.refuse_child()
            with self._lock:
                self._refuse_closed()
                step = next(steps, None)
            if step is None:
                return
            yield step

    def merge(self, other: Deduplicator) -> None:
        """Add the documents of *other*; both began as copies of one Deduplicator (`save`).

        A document whose id is known here already is skipped. If *other* has another scheme or
        seed, their sketches cannot be compared, which raises `ValueError`.
        """
        if not isinstance(other, Deduplicator):
            raise TypeError(
                f"got {other!r:.60}; expected a Deduplicator, by Deduplicator.open(path)"
            )
        self._holder.refuse_child()
        other._holder.refuse_child()
        ours, theirs = self._identity, other._identity
        if (ours.scheme, ours.seed) != (theirs.scheme, theirs.seed):
            raise ValueError("the two were not made as copies of one; add the texts instead")
        # Always in the same order: two objects that merge each other would deadlock otherwise.
        first, second = sorted((self, other), key=builtins.id)
        with first._lock, second._lock:
            other._collection.copy_into(self._collection)

    def _policy_at(self, threshold: float | None, *, stacklevel: int) -> MatchPolicy:
        if threshold is None:
            return self._policy
        checks.check_threshold(threshold)
        policy = replace(self._policy, threshold=threshold)
        warn_of_missed(scheme_of(self._identity.scheme), threshold, stacklevel=stacklevel + 1)
        return policy

    def close(self) -> None:
        """Release the directory. All other methods then raise `DeduplicatorClosed`.

        A second call does nothing. In a forked child `close` does nothing: the parent owns the
        directory.
        """
        if not self._holder.forked:
            with self._lock:
                self._release()

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: a directory has one holder."""
        raise TypeError("a Deduplicator is not copied or pickled; save(path) copies its documents")

    def __enter__(self) -> Deduplicator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
