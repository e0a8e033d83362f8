"""The open run: the buckets that the latest writes have changed, in memory."""

from __future__ import annotations

from msgspec import Struct, field

from streamfilter.index.bands.bloom_filter import BloomFilter, FilterPool
from streamfilter.index.bands.sorted_run import SortedRun, newest

OPEN_BITS = 32  # of the filter, for each key


class OpenRun(Struct):
    """Small runs by their size, each size's oldest first; and the rows that hold the same."""

    filter: BloomFilter
    fan: int  # runs of a size that become one
    names: list[bytes] = field(default_factory=list)  # of the rows in the database
    _levels: list[list[SortedRun]] = field(default_factory=list)

    @classmethod
    def of_keys(cls, keys: int, fan: int, pool: FilterPool) -> OpenRun:
        """Return an empty run, which is full with so many *keys*; *pool* makes its filter."""
        return cls(pool.of_keys(keys, bits=OPEN_BITS), fan)

    def __len__(self) -> int:
        return sum(len(run) for runs in self._levels for run in runs)

    @property
    def runs(self) -> list[SortedRun]:
        """Return its runs, the newest first."""
        return [run for runs in self._levels for run in reversed(runs)]

    def whole(self) -> SortedRun:
        return newest(self.runs[::-1])

    def add(self, name: bytes, run: SortedRun) -> None:
        """Add what one write has changed, which row *name* holds; merge *fan* runs of a size."""
        self.names.append(name)
        level, runs = 0, [run]
        while level < len(self._levels) and len(self._levels[level]) == self.fan - 1:
            runs = [newest([*self._levels[level], *runs])]
            self._levels[level] = []
            level += 1
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level] += runs
