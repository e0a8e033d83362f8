"""Listing: the buckets that a write changes, the shortest keys first, then one step longer each.

New documents join the buckets of their keys. Where a bucket is full, they continue with a longer
key. Forgotten documents leave the bucket that lists them; in the same write others may join it.
The overflow count of a bucket never falls, so that readers still look under the longer key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from streamfilter.index.bands.bucket_overflow import DEPTH, cap_at, longer
from streamfilter.index.bands.buckets import Grouped, merged, written
from streamfilter.index.bands.page_writes import ReadLists, put_buckets, put_pages, without
from streamfilter.index.protocol import FAINT_BELOW, Additions, Applied, Removals
from streamfilter.index.rocks.entries import Entries
from streamfilter.similarity.columns import I64, U8, U64, Flags

APPLY_KEYS_MAX = 1 << 24
"""Keys of one write, joining and leaving: they are numbered in 24 bits while they are merged."""


@dataclass(slots=True)
class _Keys:
    """Some documents, and their keys that have not reached a bucket yet."""

    ordinals: I64
    """(n,) of the documents."""
    signatures: U8
    columns: int
    bands: int
    """The first so many columns go on to longer keys."""
    cells: I64
    """(m,) row * columns + column of these keys."""
    trail: U64
    """(m,) the keys, in their present length."""

    @classmethod
    def of(cls, ordinals: I64, signatures: U8, keys: U64, present: Flags, always: int) -> _Keys:
        columns = keys.shape[1]
        cells = np.flatnonzero(present)
        return cls(ordinals, signatures, columns, columns - always, cells, keys.reshape(-1)[cells])

    @classmethod
    def none(cls) -> _Keys:
        nothing = np.zeros(0, np.int64)
        return cls(nothing, np.zeros((0, 1), np.uint8), 1, 0, nothing, np.zeros(0, np.uint64))

    @property
    def owners(self) -> I64:
        """Return the ordinal of each key's document."""
        owners: I64 = self.ordinals[self.cells // self.columns]
        return owners

    @property
    def whole(self) -> Flags:
        """Return which keys are of no band: their buckets continue in pages."""
        whole: Flags = self.cells % self.columns >= self.bands
        return whole

    def go_on(self, which: Flags, depth: int) -> I64:
        """Lengthen the keys in *which* to *depth* steps; return the cells where that is impossible.

        Keys of whole texts are removed here: they continue in pages.
        """
        cells, trail, whole = self.cells[which], self.trail[which], self.whole[which]
        ends = whole | (depth > DEPTH)
        self.cells = cells[~ends]
        rows, at = np.divmod(self.cells, self.columns)
        if len(self.cells):
            trail = longer(trail[~ends], self.signatures[rows], at, bands=self.bands, depth=depth)
        self.trail = trail[: len(self.cells)]
        return cells[ends & ~whole]


@dataclass(slots=True)
class _Count:
    """Counts of the keys of one write."""

    longer: int = 0
    nowhere: list[I64] = field(default_factory=list)
    """Cells of the keys under which a document is not listed at any length."""

    def applied(self, joining: _Keys, signed: Flags) -> Applied:
        """Return the counts as `Applied`."""
        cells = np.concatenate([*self.nowhere, np.zeros(0, np.int64)]).astype(np.int64)
        in_band = cells[cells % joining.columns < joining.bands] // joining.columns
        listed = joining.bands - np.bincount(in_band, minlength=len(signed))
        return Applied(
            documents=len(joining.ordinals),
            longer=self.longer,
            overflows=len(cells),
            faint=int((signed & (listed < min(FAINT_BELOW, joining.bands))).sum()),
            unlisted=int((signed & (listed == 0)).sum()),
        )


def listed(
    entries: Entries,
    bands: str,
    additions: Additions | None,
    removals: Removals | None,
    *,
    first_lists: ReadLists,
    lists_of: ReadLists,
    about_to_write: Callable[[U64], None],
    cap: int,
) -> Applied:
    """Put into *entries* the buckets without *removals*, and with *additions* in them.

    Args:
        entries: Of the write.
        bands: The family of the buckets.
        additions: Documents that are not stored yet.
        removals: Documents that leave.
        first_lists: Reads the buckets of the shortest keys.
        lists_of: Reads the buckets of longer keys.
        about_to_write: Called with distinct, rising keys before they are written.
        cap: The cap of the shortest keys' buckets.

    Raises:
        ValueError: there are too many keys; nothing was put.
    """
    joining, leaving, count = _joining(additions), _leaving(removals), _Count()
    if (keys := len(joining.cells) + len(leaving.cells)) >= APPLY_KEYS_MAX:
        raise ValueError(f"one write may change fewer than {APPLY_KEYS_MAX} keys, not {keys}")
    for depth in range(DEPTH + 1):
        if not len(joining.cells) and not len(leaving.cells):
            break
        grouped = Grouped.of(np.concatenate((leaving.trail, joining.trail)))
        names = grouped.key_bytes()
        old = (lists_of if depth else first_lists)(grouped, names)
        about_to_write(grouped.keys)  # harmless if the write fails later
        gone, coming = np.split(grouped.inverse, [len(leaving.cells)])
        closed = np.concatenate((leaving.whole, joining.whole))[grouped.first] & (old.overflows > 0)
        rest, held = without(old, gone, leaving.owners)
        lists, away = merged(rest, coming, joining.owners, cap=cap_at(cap, depth), closed=closed)
        put_buckets(entries, bands, names, old, lists)
        onward = ~held & (old.overflows > 0)[gone]
        paged_in, paged_out = away & joining.whole, onward & leaving.whole
        if paged_in.any() or paged_out.any():
            put_pages(
                entries, bands, grouped.keys, old.overflows,
                joining=(coming[paged_in], joining.owners[paged_in]),
                leaving=(gone[paged_out], leaving.owners[paged_out]),
                lists_of=lists_of, about_to_write=about_to_write, cap=cap,
            )  # fmt: skip
        leaving.go_on(onward, depth + 1)
        count.longer += int((~away).sum()) if depth else 0
        count.nowhere.append(joining.go_on(away, depth + 1))
    return count.applied(
        joining, additions.documents.contents.set_sizes > 0 if additions else np.zeros(0, np.bool_)
    )


def _joining(additions: Additions | None) -> _Keys:
    if additions is None:
        return _Keys.none()
    documents, present = additions.documents, written(additions)
    return _Keys.of(
        documents.ordinals, documents.contents.signatures, additions.keys, present, additions.always
    )


def _leaving(removals: Removals | None) -> _Keys:
    if removals is None:
        return _Keys.none()
    everywhere = np.ones(removals.keys.shape, np.bool_)
    return _Keys.of(
        removals.ordinals, removals.signatures, removals.keys, everywhere, removals.always
    )
