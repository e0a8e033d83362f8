"""Pages: where a document is listed if the bucket of its whole text is full.

Equal texts have equal signatures, so no longer key would split their bucket. It goes on under the
keys of numbered pages instead, and every document is listed. Texts come again when the last one
was forgotten, and the forgotten stay listed until their window is dropped: without pages they
would hide the one that is remembered.

The first bucket counts the documents that found it full. This number alone gives the page:

    listed in the bucket    found it full before  page (of 64 documents)
    5 of 8                  0                     none: it joins the bucket
    8 of 8                  0                     1
    8 of 8                  63                    1
    8 of 8                  64                    2
    0 of 8, all removed     65                    2: a bucket that was full once stays closed

So a write reads one page, and bytes depend on the order of documents alone.
"""

from collections.abc import Callable, Iterator

import numpy as np

from streamfilter.index.bands.bucket_overflow import cap_at, mixed_with
from streamfilter.index.protocol import Buckets
from streamfilter.similarity.columns import I64, U64, Flags

PAGES_AT_ONCE = 8  # read together for a copy; nearly always the first look ends the search


def page_cap(cap: int) -> int:
    """Return how many documents a page lists, if a bucket lists *cap*."""
    return cap_at(cap, 1)


def pages_of(turned_away: I64, cap: int) -> I64:
    """Return how many pages a bucket has that has *turned_away* so many documents."""
    return -(-turned_away // page_cap(cap))


def page_keys(keys: U64, numbers: I64) -> U64:
    """Return the keys of the pages with these *numbers*, from 1, of the buckets of *keys*."""
    return mixed_with(keys, numbers.astype(np.uint64))


def paged(
    probe: Callable[[U64, Flags], Buckets], keys: U64, turned_away: I64, pending: Flags, *, cap: int
) -> Iterator[tuple[I64, I64]]:
    """Yield rows and ordinals of what the pages of some texts list, the last pages first.

    *keys* (n,) are of the first buckets, and *turned_away* (n,) is what these count. *pending* (n,)
    are the texts that are looked for: the caller clears those that it has found.
    """
    ends = pages_of(turned_away, cap)
    while True:
        rows = np.flatnonzero(pending & (ends > 0))
        if not rows.size:
            return
        numbers = ends[rows][:, None] - np.arange(PAGES_AT_ONCE)
        levels = probe(page_keys(keys[rows][:, None], numbers), numbers > 0).levels
        askers = np.concatenate([level.askers for level in levels])
        ordinals = np.concatenate([level.ordinals for level in levels])
        yield rows[askers // PAGES_AT_ONCE], ordinals
        ends[rows] -= PAGES_AT_ONCE
