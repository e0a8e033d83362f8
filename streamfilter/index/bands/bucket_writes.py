"""Bucket overflow: which buckets a write changes, and where documents go from full ones.

The theory. A probe must read few documents for each key, and no flood of variants may hide a text.
So a bucket lists its oldest documents up to a cap, and counts the others. A counted document is
listed under a longer key: the full bucket's key, extended by more slots of the signature. Two
documents of one bucket that differ elsewhere get different longer keys, so the crowd divides. If
that bucket is full too, the key gets longer again, for `DEPTH` steps. Equal texts have equal
signatures and would never divide: their bucket goes on in numbered pages (`overflow_pages`).

    cap 2; the documents 1 to 4 have key A; their next two slots are x, x, x and y

    A     lists 1 2   counts 2      full: readers with key A read their longer key too
    A+x   lists 3     counts 0      read by those whose slots are x
    A+y   lists 4     counts 0

Two facts make it exact. The count never falls, so a reader knows when to read on, even after the
bucket has lost a document. And ordinals rise from write to write, so a bucket depends only on the
order of documents, not on batches: a restore writes the same bytes.

The code follows the theory: one round for each length of the keys, the shortest first. In a round,
documents that leave are taken out of the bucket that lists them, and joining documents fill it.
The keys of all others get one step longer, and go into the next round.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from streamfilter.index.bands.bucket_overflow import DEPTH, cap_at, longer
from streamfilter.index.bands.buckets import Grouped, merged, written
from streamfilter.index.bands.page_writes import BucketTable, ReadLists, put_pages, without
from streamfilter.index.protocol import FAINT_BELOW, Additions, Applied, Removals
from streamfilter.similarity.columns import I64, U8, U64, Flags

APPLY_KEYS_MAX = 1 << 24  # keys of one write: they are numbered in 24 bits while they are merged


class Joining(Struct, frozen=True):
    """New documents, and the cells of their keys that exist."""

    additions: Additions
    cells: I64  # (m,) row * columns + column; the bands of an unsigned document have no keys

    @classmethod
    def of(cls, additions: Additions) -> Joining:
        return cls(additions, np.flatnonzero(written(additions)))


class _Keys(Struct):
    """Some documents, and their keys that have not reached a bucket yet."""

    ordinals: I64  # (n,) of the documents
    signatures: U8
    columns: int
    bands: int  # the first so many columns go on to longer keys
    cells: I64  # (m,) row * columns + column of these keys
    trail: U64  # (m,) the keys, in their present length

    @classmethod
    def joining(cls, joining: Joining | None) -> _Keys:
        if joining is None:
            return cls.none()
        more, cells = joining.additions, joining.cells
        documents, columns = more.documents, more.keys.shape[1]
        signatures, keys = documents.contents.splitters, more.keys.reshape(-1)[cells]
        return cls(documents.ordinals, signatures, columns, columns - more.always, cells, keys)

    @classmethod
    def leaving(cls, removals: Removals | None) -> _Keys:
        if removals is None:
            return cls.none()
        keys, columns = removals.keys.reshape(-1), removals.keys.shape[1]
        cells, bands = np.arange(len(keys)), columns - removals.always
        return cls(removals.ordinals, removals.signatures, columns, bands, cells, keys)

    @classmethod
    def none(cls) -> _Keys:
        nothing = np.zeros(0, np.int64)
        return cls(nothing, np.zeros((0, 1), np.uint8), 1, 0, nothing, np.zeros(0, np.uint64))

    @property
    def owners(self) -> I64:
        owners: I64 = self.ordinals[self.cells // self.columns]
        return owners

    @property
    def whole(self) -> Flags:
        """Return which keys are of no band: their buckets continue in pages."""
        whole: Flags = self.cells % self.columns >= self.bands
        return whole

    def go_on(self, which: Flags, depth: int) -> I64:
        """Lengthen keys to *depth* steps; return the cells of bands where that is impossible."""
        cells, trail, whole = self.cells[which], self.trail[which], self.whole[which]
        ends = whole | (depth > DEPTH)
        self.cells = cells[~ends]
        rows, at = np.divmod(self.cells, self.columns)
        if len(self.cells):
            trail = longer(trail[~ends], self.signatures[rows], at, bands=self.bands, depth=depth)
        self.trail = trail[: len(self.cells)]
        return cells[ends & ~whole]


class _Count(Struct):
    longer: int = 0
    nowhere: list[I64] = field(default_factory=list)  # keys listed nowhere, at any length

    def applied(self, joining: _Keys, signed: Flags) -> Applied:
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
    table: BucketTable, new: Joining | None, removals: Removals | None, *, first_lists: ReadLists
) -> Applied:
    """Put the buckets without *removals*, and with the *new* documents, which are not stored yet.

    *first_lists* reads the buckets of the shortest keys. Raises `ValueError`: there are too many
    keys; nothing was put.
    """
    joining, leaving, count = _Keys.joining(new), _Keys.leaving(removals), _Count()
    if (keys := len(joining.cells) + len(leaving.cells)) >= APPLY_KEYS_MAX:
        raise ValueError(f"one write may change fewer than {APPLY_KEYS_MAX} keys, not {keys}")
    for depth in range(DEPTH + 1):
        if not len(joining.cells) and not len(leaving.cells):
            break
        grouped = Grouped.of(np.concatenate((leaving.trail, joining.trail)))
        old = (table.lists if depth else first_lists)(grouped)
        table.about_to_write(grouped.keys)  # harmless if the write fails later
        gone, coming = np.split(grouped.inverse, [len(leaving.cells)])
        closed = np.concatenate((leaving.whole, joining.whole))[grouped.first] & (old.overflows > 0)
        rest, held = without(old, gone, leaving.owners)
        cap = cap_at(table.cap, depth)
        lists, away = merged(rest, coming, joining.owners, cap=cap, closed=closed)
        table.put(grouped.keys, old, lists)
        onward = ~held & (old.overflows > 0)[gone]
        paged_in, paged_out = away & joining.whole, onward & leaving.whole
        if paged_in.any() or paged_out.any():
            put_pages(
                table, grouped.keys, old.overflows,
                joining=(coming[paged_in], joining.owners[paged_in]),
                leaving=(gone[paged_out], leaving.owners[paged_out]),
            )  # fmt: skip
        leaving.go_on(onward, depth + 1)
        count.longer += int((~away).sum()) if depth else 0
        count.nowhere.append(joining.go_on(away, depth + 1))
    signed = new.additions.documents.contents.set_sizes > 0 if new else np.zeros(0, np.bool_)
    return count.applied(joining, signed)
