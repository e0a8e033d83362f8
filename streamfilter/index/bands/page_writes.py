"""Which buckets and pages a write changes: documents leave the one list that has them, or join.

An emptied bucket that has turned no document away reads as if its key had never been written. The
filters in RAM still call the key perhaps written, which costs a look and nothing else.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from streamfilter.index.bands.buckets import Grouped, merged, taken
from streamfilter.index.bands.overflow_pages import page_cap, page_keys, pages_of
from streamfilter.index.bands.sorted_run import SortedRun, run_of
from streamfilter.index.format import ORDINAL_BYTES, Lists
from streamfilter.similarity.columns import I64, U64, Flags, distinct, ranks

_ORDINAL_BITS = 8 * ORDINAL_BYTES
_PAGE_BITS = 32

ReadLists = Callable[[Grouped], Lists]
Members = tuple[NDArray[np.intp], I64]  # (m,) the number of the bucket, and (m,) ordinals


class BucketTable(Struct, frozen=True):
    """The buckets of one window, as a write reads and changes them."""

    cap: int  # the cap of the shortest keys' buckets
    lists: ReadLists  # as they were before the write
    about_to_write: Callable[[U64], None]  # gets distinct, rising keys before the write
    changed: list[SortedRun] = field(default_factory=list)  # what the write changes

    def put(self, keys: U64, old: Lists, lists: Lists) -> None:
        """Note the buckets that are not empty, and those that have become empty."""
        there = (lists.counts > 0) | (lists.overflows > 0) | (old.counts > 0)
        if not there.all():
            places = np.flatnonzero(there)
            keys, lists = keys[places], taken(lists, places)
        if len(keys):
            self.changed.append(run_of(keys, lists))


def put_pages(
    table: BucketTable, keys: U64, turned_away: I64, *, joining: Members, leaving: Members
) -> None:
    """Put the pages without those *leaving*, and with those *joining* in them.

    The first buckets have the *keys* (b,), and counted *turned_away* (b,) before this write. They
    turn away the documents that join. Those that leave are in no first bucket.
    """
    # A document has one place in a page, even if two of its keys are the same.
    bits = np.uint64(_ORDINAL_BITS)
    tagged = distinct(joining[0].astype(np.uint64) << bits | joining[1].astype(np.uint64))
    groups = (tagged >> bits).astype(np.int64)
    ordinals = (tagged & (np.uint64(1) << bits) - np.uint64(1)).astype(np.int64)
    numbers = 1 + (turned_away[groups] + ranks(groups)) // page_cap(table.cap)
    wanted = groups << _PAGE_BITS | numbers
    places = distinct(np.concatenate((wanted, _pages_of(leaving[0], turned_away, table.cap))))
    owners = places >> _PAGE_BITS
    grouped = Grouped.of(page_keys(keys[owners], places & (1 << _PAGE_BITS) - 1))
    old = table.lists(grouped)
    table.about_to_write(grouped.keys)
    # Which page lists a document is not known: it leaves whichever page of its bucket does.
    rest, _ = without(old, *leaving, owners=owners[grouped.first])
    coming = grouped.inverse[np.searchsorted(places, wanted)]
    lists, _ = merged(rest, coming, ordinals, cap=page_cap(table.cap))
    changed = rest.counts < old.counts
    changed[coming] = True
    these = np.flatnonzero(changed)
    table.put(grouped.keys[these], taken(old, these), taken(lists, these))


def _pages_of(groups: NDArray[np.intp], turned_away: I64, cap: int) -> I64:
    """Return all pages of the buckets in *groups*: the bucket's number above the page's."""
    owners = distinct(groups.astype(np.int64))
    counts = pages_of(turned_away[owners], cap)
    numbers = ranks(np.repeat(owners, counts)) + 1
    return np.repeat(owners, counts) << _PAGE_BITS | numbers


def without(
    old: Lists, groups: NDArray[np.intp], gone: I64, *, owners: I64 | None = None
) -> tuple[Lists, Flags]:
    """Return the buckets without ordinal ``gone[j]`` in ``groups[j]``, and which j were there.

    Bucket 0 lists 3 and 7, bucket 1 lists 5. Remove 7 from bucket 0, 9 and 5 from bucket 1: bucket
    0 lists 3, bucket 1 is empty, and the flags are True False True.

    With *owners*, ``groups[j]`` names an owner, and the ordinal leaves each bucket of that owner.
    """
    if not len(gone):
        return old, np.zeros(0, np.bool_)
    size = len(old.counts)
    buckets = np.repeat(np.arange(size), old.counts)
    members = (buckets if owners is None else owners[buckets]) << _ORDINAL_BITS | old.ordinals
    asked = groups.astype(np.int64) << _ORDINAL_BITS | gone
    stay = ~np.isin(members, asked)
    counts = np.bincount(buckets[stay], minlength=size)
    return Lists(counts, old.ordinals[stay], old.overflows), np.isin(asked, members)
