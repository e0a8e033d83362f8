"""Levels: who is listed under keys of one length, for all who asked.

In a flood hundreds of documents ask for the same few buckets. So a level keeps each bucket's list
once, in a pool, and says for each who asked which part of the pool is its answer: whoever only
counts need not write out a list for everyone who reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from streamfilter.similarity.columns import I64, Flags, slices


@dataclass(frozen=True, slots=True)
class Level:
    """The buckets of keys of one length."""

    depth: int
    """How many steps longer than the shortest keys (`index.longer`)."""
    cells: I64
    """(m,) who asked: row * columns + column; of a probe they rise."""
    starts: I64
    """(m,) where each one's list begins in the pool; equal keys may share a list."""
    counts: I64
    """(m,) ordinals in it."""
    pool: I64
    """The lists, each oldest first."""
    overflows: I64
    """(m,) how many documents each bucket has turned away."""

    def of_bands(self, columns: int) -> Level:
        """Return it without the cells of the last of so many *columns*, the whole text's."""
        bands = self.cells % columns < columns - 1
        if bands.all():
            return self
        cells, starts, counts = self.cells[bands], self.starts[bands], self.counts[bands]
        return Level(self.depth, cells, starts, counts, self.pool, self.overflows[bands])

    def latest(self, which: Flags) -> Level:
        """Return it with the last of each list alone, in the answers to *which* cells."""
        shorter = np.where(which, np.minimum(self.counts, 1), self.counts)
        return replace(self, starts=self.starts + self.counts - shorter, counts=shorter)

    @property
    def ordinals(self) -> I64:
        """Return (counts.sum(),): the lists one by one, as often as they were asked for."""
        return self.pool[slices(self.starts, self.counts)]

    @property
    def askers(self) -> I64:
        """Return (counts.sum(),): the cell in which each of `ordinals` was met."""
        return np.repeat(self.cells, self.counts)
