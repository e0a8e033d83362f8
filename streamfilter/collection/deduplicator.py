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
import shutil
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from streamfilter.collection.collection import BATCH_DOCUMENTS, Collection, Duplicate
from streamfilter.collection.guard import alone
from streamfilter.collection.identity import (
    directory_of,
    identity_at,
    index_at,
    new_policy,
    noted_policy,
    noted_retention,
    retention_of,
    wanted_identity,
    wanted_scheme,
    warn_of_missed,
)
from streamfilter.collection.rows import (
    ID,
    TEXT,
    Id,
    Ids,
    Rows,
    check_conflict,
    check_many,
    check_scope,
    chunks,
)
from streamfilter.collection.searches import Searches
from streamfilter.index.directory.lock_and_marker import refuse_inside
from streamfilter.index.errors import IndexLocked
from streamfilter.similarity.scheme import Scheme, scheme_of
from streamfilter.similarity.sketch import Sketcher

BUCKET_CAP = 255  # documents of a bucket; if more are alike, not all are found


class Deduplicator(Searches):
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
        new_policy(threshold), retention_of(retention_documents)  # before anything is made
        known, self._path = identity_at(path), None if path is None else directory_of(path)
        identity = wanted_identity(known, wanted_scheme(known, threshold, shingle, scheme))
        sketcher = Sketcher(scheme_of(identity.scheme), seed=identity.seed)
        if threshold is not None:
            warn_of_missed(sketcher.scheme, threshold, stacklevel=2)
        index = index_at(self._path, identity, bucket_cap=BUCKET_CAP)
        try:
            policy = noted_policy(index, threshold, new=known is None)
            retention = noted_retention(index, retention_documents)
        except BaseException:  # the traceback keeps self alive, so no finalizer would close it
            index.close()
            raise
        self._identity = identity
        self._guard(release=index.close, where="" if path is None else repr(str(path)))
        collection = Collection(index, sketcher, seed=identity.seed, retention=retention)
        self._search(collection, replace(policy, agree_on=sketcher.scheme.agree_on))
        self._opened.forget_old()  # the retention may be smaller now, or a kill came before

    @classmethod
    def open(cls, path: str | Path) -> Deduplicator:
        """Open the existing directory *path*.

        Raises:
            FileNotFoundError: it holds no Deduplicator; `Deduplicator(path)` makes a new one.
            IndexFault: it is in use or damaged.
        """
        if identity_at(directory_of(path)) is None:
            raise FileNotFoundError(f"{path}: holds no Deduplicator; Deduplicator(path) makes one")
        return cls(path)

    @alone
    def save(self, path: str | Path) -> None:
        """Write a copy into the directory *path*, which must be empty or missing.

        A Deduplicator with a path needs no `save`: each call is on disk when it returns.

        Raises:
            FileExistsError: *path* is no empty directory.
            IndexFault: *path* cannot be written, or lies in this Deduplicator's own directory.
                What was written is removed, so the call can be repeated.
        """
        path = directory_of(path)
        if self._path is not None:
            refuse_inside(path, self._path, what="the index")
        if os.path.exists(path) and not (os.path.isdir(path) and not os.listdir(path)):
            raise FileExistsError(f"{path}: is no empty directory; name one that is new")
        try:
            with closing(index_at(path, self._identity, bucket_cap=BUCKET_CAP)) as index:
                noted_policy(index, self.threshold, new=True)
                ours = self._opened
                if self._ids.integers:
                    Ids(index).begin(0)
                kept = noted_retention(index, ours.retention.documents)
                copy = Collection(index, ours.sketcher, seed=self._identity.seed, retention=kept)
                ours.copy_into(copy)
        except IndexLocked:
            raise  # another process saves into *path*
        except BaseException:
            _empty(path)
            raise

    def add(self, id: Id, text: str, *, scope: str | None = None) -> list[Duplicate]:
        """Remember *text* under a new *id*; return the earlier documents that are similar to it.

        Documents match only within their *scope*, such as a tenant's name; those without one are a
        scope together. An id belongs to one document of any scope. A known one raises `ValueError`;
        use `update` to give it another text.
        """
        (found,) = self.add_many([(id, text)], scope=scope)
        return found

    @alone
    def add_many(
        self,
        rows: Rows,
        *,
        id: str = ID,
        text: str = TEXT,
        scope: str | None = None,
        on_conflict: str = "error",
    ) -> list[list[Duplicate]]:
        """Remember the documents in *rows*, a thousand at a time: faster than one by one.

        Return for each row the similar earlier documents, including those of this call.

        Args:
            rows: pairs of an id and a text; or mappings, a DataFrame, an Arrow table or a data set,
                with the fields *id* and *text*. All ids are str, or all are int.
            id: the field with the id.
            text: the field with the text.
            scope: the scope of all of them, as in `add`.
            on_conflict: a row whose id is known, or comes twice: ``error``, or ``skip`` (its list
                is empty). `update_many` replaces the text.

        Raises:
            TypeError, KeyError, ValueError: a row that cannot be used, with its number, from 0 on.
                The full thousands before it are remembered.
        """
        skip = check_conflict(on_conflict)
        inside = check_scope(scope)
        found: list[list[Duplicate]] = []
        for documents in self._ids.documents(rows, id, text, most=BATCH_DOCUMENTS):
            known = self._opened.ordinals_of([each.id for each in documents])
            refused = self._ids.twice(documents) | self._ids.known(documents, known)
            if refused and not skip:
                raise _refusal(refused, len(found))
            new = [row for row in range(len(documents)) if row not in refused]
            ordinals = self._opened.put([documents[row] for row in new], inside)
            like = self._opened.like_ordinals(ordinals, self._policy, earlier=True)
            self._opened.forget_old()
            lists: list[list[Duplicate]] = [[] for _ in documents]
            for row, likenesses in zip(new, like, strict=True):
                lists[row] = self._given(likenesses)
            found += lists
        return found

    def update(self, id: Id, text: str, *, scope: str | None = None) -> list[Duplicate]:
        """Set text and scope of *id*, known or not; return the other documents similar to it."""
        (found,) = self.update_many([(id, text)], scope=scope)
        return found

    @alone
    def update_many(
        self, rows: Rows, *, id: str = ID, text: str = TEXT, scope: str | None = None
    ) -> list[list[Duplicate]]:
        """Set the texts of the documents in *rows*, known or not, a thousand in one write.

        Return for each row the other documents that are similar to it, as of its write. The
        arguments and errors are those of `add_many`; an id may not come twice in a thousand.
        """
        found: list[list[Duplicate]] = []
        inside = check_scope(scope)
        for documents in self._ids.documents(rows, id, text, most=BATCH_DOCUMENTS):
            if refused := self._ids.twice(documents):
                raise _refusal(refused, len(found))
            ordinals = self._opened.put(documents, inside)
            like = self._opened.like_ordinals(ordinals, self._policy, earlier=False)
            self._opened.forget_old()
            found += [self._given(row) for row in like]
        return found

    @alone
    def forget(self, id: Id) -> bool:
        """Forget the document *id*; return whether it was known."""
        return self._opened.remove([self._ids.stored(id)]) == 1

    @alone
    def forget_many(self, ids: Iterable[Id]) -> int:
        """Forget the documents *ids*, a thousand in one write; return how many were known."""
        names = map(self._ids.stored, check_many(ids))
        return sum(
            self._opened.remove(list(dict.fromkeys(chunk)))
            for chunk in chunks(names, BATCH_DOCUMENTS)
        )

    def merge(self, other: Deduplicator) -> None:
        """Add the documents of *other*; both began as copies of one Deduplicator (`save`).

        A document whose id is known here already is skipped. If *other* has another scheme or
        seed, their sketches cannot be compared, which raises `ValueError`.
        """
        if not isinstance(other, Deduplicator):
            raise TypeError(
                f"got {other!r:.60}; expected a Deduplicator, by Deduplicator.open(path)"
            )
        self._refuse_child()
        other._refuse_child()
        ours, theirs = self._identity, other._identity
        if (ours.scheme, ours.seed) != (theirs.scheme, theirs.seed):
            raise ValueError("the two were not made as copies of one; add the texts instead")
        # Always in the same order: two objects that merge each other would deadlock otherwise.
        first, second = sorted((self, other), key=builtins.id)
        with first._lock, second._lock:
            self._refuse_closed()
            other._refuse_closed()
            if len(other._opened):
                self._ids.begin(0 if other._ids.integers else "")
            if len(other._opened) and self._ids.integers is not other._ids.integers:
                raise ValueError("the ids of one are int, those of the other str")
            other._opened.copy_into(self._opened)


def _empty(path: Path) -> None:
    """Remove what a `save` wrote into *path*; nothing else was there before."""
    for each in path.iterdir() if os.path.isdir(path) else ():
        shutil.rmtree(each) if each.is_dir() else each.unlink()


def _refusal(refused: dict[int, str], before: int) -> ValueError:
    """Return the error of the first of the *refused* rows of a chunk, *before* which rows came."""
    row = min(refused)
    return ValueError(f"row {before + row}: {refused[row]}")
