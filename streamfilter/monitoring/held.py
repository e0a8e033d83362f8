"""What an index of this process holds, as it is shown: the same of all together is their sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """How much is remembered, and how far it has come."""

    documents: int
    windows: int
    horizon: int
    """Documents that were judged and are too old to be remembered."""
    changelog_offset: int

    @classmethod
    def together(cls, all_: Iterable[Held]) -> Held:
        """Return what they hold together; zeros if there is none."""
        columns = zip((0, 0, 0, 0), *map(astuple, all_), strict=True)
        return cls(*map(sum, columns))
