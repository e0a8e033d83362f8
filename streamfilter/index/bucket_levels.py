"""Levels: the buckets of keys of one length, for all cells that were looked up.

A cell is one key of one document of a batch. In a flood of near-duplicates, hundreds of cells
look up the same few buckets. So a level stores each bucket's list once, in a pool, and for each
cell which part of the pool is its list. Code that only counts does not copy the lists.

Cells 0, 4 and 5 look up two buckets: the first lists 3 and 7, the second lists 5. Cells 0 and 5
have the same key:

    pool 3 7 5 | cells 0 4 5 | starts 0 2 0 | counts 2 1 2
    ordinals 3 7 5 3 7 | askers 0 0 4 5 5
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.similarity.columns import I64, Flags, slices


class Level(Struct, frozen=True):
    """The buckets of keys of one length."""

    depth: int  # how many steps longer than the shortest keys (`index.bands.bucket_overflow`)
    cells: I64  # (m,) what was looked up: row * columns + column. They rise in a probe's answer
    starts: I64  # (m,) where each cell's list begins in the pool; equal keys may share a list
    counts: I64  # (m,) ordinals in each cell's list
    pool: I64  # the lists, each oldest first
    overflows: I64  # (m,) how many documents did not fit into each bucket

    def of_bands(self, columns: int) -> Level:
        """Return the level without the cells of the last of *columns* columns (the whole text)."""
        bands = self.cells % columns < columns - 1
        if bands.all():
            return self
        cells, starts, counts = self.cells[bands], self.starts[bands], self.counts[bands]
        return Level(self.depth, cells, starts, counts, self.pool, self.overflows[bands])

    def latest(self, which: Flags) -> Level:
        """Return the level with only the last ordinal of each list, for the cells in *which*."""
        shorter = np.where(which, np.minimum(self.counts, 1), self.counts)
        return replace(self, starts=self.starts + self.counts - shorter, counts=shorter)

    @property
    def ordinals(self) -> I64:
        """Return (counts.sum(),): each cell's list, one after the other."""
        return self.pool[slices(self.starts, self.counts)]

    @property
    def askers(self) -> I64:
        """Return (counts.sum(),): the cell of each of `ordinals`."""
        return np.repeat(self.cells, self.counts)
