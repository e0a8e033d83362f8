"""How much an index of this process holds; the figures of several indexes are summed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class IndexTotals:
    """How many documents an index holds, and its position."""

    documents: int
    windows: int
    horizon: int
    """Judged documents that are too old and were dropped."""
    changelog_offset: int

    @classmethod
    def together(cls, all_: Iterable[IndexTotals]) -> IndexTotals:
        """Return the sum of all; zeros if there is none."""
        columns = zip((0, 0, 0, 0), *map(astuple, all_), strict=True)
        return cls(*map(sum, columns))
