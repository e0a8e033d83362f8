"""Levels: who is listed under keys of one length, for all who asked.

In a flood hundreds of documents ask for the same few buckets. So a level keeps each bucket's list
once, in a pool, and says for each who asked which part of the pool is its answer: whoever only
counts need not write out a list for everyone who reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamfilter.similarity.columns import I64, slices


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

    @property
    def ordinals(self) -> I64:
        """Return (counts.sum(),): the lists one by one, as often as they were asked for."""
        return self.pool[slices(self.starts, self.counts)]

    @property
    def askers(self) -> I64:
        """Return (counts.sum(),): the cell in which each of `ordinals` was met."""
        return np.repeat(self.cells, self.counts)
