"""Forgetting: documents leave their buckets, in the same write in which others may join them.

A bucket that loses a member counts no overflows any more: whom it once turned away, nobody knows.
An emptied bucket is deleted, as if its key had never been written; the front in RAM still calls
it perhaps written, which costs a look and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from streamfilter.index.buckets import Grouped, encoded_integers, merged, taken, written
from streamfilter.index.format import ORDINAL_BYTES, Lists, encode_buckets, encode_documents
from streamfilter.index.protocol import I64, Additions, Applied, Removals
from streamfilter.index.store import BANDS, DOCUMENTS, Entries

_ORDINAL_BITS = 8 * ORDINAL_BYTES

ReadLists = Callable[[Grouped, Sequence[bytes]], Lists]
ReadDocuments = Callable[[list[bytes]], list[bytes | None]]


def exchange(
    entries: Entries,
    removals: Removals,
    additions: Additions | None,
    *,
    lists_of: ReadLists,
    documents_of: ReadDocuments,
    cap: int,
) -> Applied:
    """Put into *entries* what remains without *removals*, with *additions* (if any) in it."""
    leaving, joining = removals.ordinals, np.zeros(0, np.int64)
    keys = [removals.keys.ravel()]
    if additions is not None:
        present = written(additions)
        keys.append(additions.keys[present])
        joining = np.broadcast_to(additions.documents.ordinals[:, None], present.shape)[present]
        documents = additions.documents
        entries.put(DOCUMENTS, encoded_integers(documents.ordinals), encode_documents(documents))
    grouped = Grouped.of(np.concatenate(keys))
    names = grouped.key_bytes()
    old = lists_of(grouped, names)
    gone = np.repeat(leaving, removals.keys.shape[1])
    rest = _without(old, grouped.inverse[: len(gone)], gone)
    lists, overflows = merged(rest, grouped.inverse[len(gone) :], joining, cap=cap)
    _put_buckets(entries, names, old, lists)
    stored = encoded_integers(leaving)
    known = [key for key, value in zip(stored, documents_of(stored), strict=True) if value]
    entries.delete(DOCUMENTS, known)
    added = len(additions.documents) if additions is not None else 0
    return Applied(documents=added, overflows=overflows, removed=len(known))


def _without(old: Lists, groups: I64, gone: I64) -> Lists:
    """Return the buckets without ordinal ``gone[j]`` in bucket ``groups[j]``, for every j."""
    size = len(old.counts)
    owners = np.repeat(np.arange(size), old.counts)
    leaves = np.isin(
        owners << _ORDINAL_BITS | old.ordinals, groups.astype(np.int64) << _ORDINAL_BITS | gone
    )
    counts = np.bincount(owners[~leaves], minlength=size)
    overflows = np.where(counts < old.counts, 0, old.overflows)
    return Lists(counts, old.ordinals[~leaves], overflows)


def _put_buckets(entries: Entries, names: Sequence[bytes], old: Lists, lists: Lists) -> None:
    """Put what is left, delete what was there and is empty now, and leave the rest alone."""
    left = np.flatnonzero(lists.counts)
    entries.put(BANDS, [names[i] for i in left.tolist()], encode_buckets(taken(lists, left)))
    emptied = np.flatnonzero((lists.counts == 0) & (old.counts > 0))
    entries.delete(BANDS, [names[i] for i in emptied.tolist()])
