"""Retention: what is still remembered when a batch is judged, and when a window begins.

Both are decided once, before the batch is judged, from what the log says of the batches before
it: a replay is told, and decides nothing. A window that holds a quarter of what is remembered is
followed by the next, so that at most five are alive, and what is stored is never more than a
quarter above what is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from streamfilter.index.protocol import WINDOWS_MAX, Progress
from streamfilter.model import Window

PARTS = WINDOWS_MAX - 1
"""Of what is remembered each window holds at least one."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a batch is judged with: how far the memory reaches back, and where its own go."""

    horizon: int = 0
    """Documents below this ordinal are forgotten, whether or not the index still holds them."""
    opens: Window | None = None
    """The window that begins with this batch; None: its documents enter the newest."""


EVERYTHING = Extent()
"""Nothing is forgotten."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much is remembered."""

    documents: int | None = None
    """The last so many that were judged (of which the index holds the unique); None: all."""
    least: int = 1
    """A window holds at least so many: to begin and to drop one costs a tenth of a second."""

    def __post_init__(self) -> None:
        if self.documents is not None and self.documents < 1:
            raise ValueError(f"{self.documents} documents are no memory; use 1 or more, or None")

    def meets(self, ordinal: int, other: int) -> bool:
        """Return whether *other* was remembered when the document *ordinal* came."""
        return other < ordinal and (self.documents is None or other > ordinal - self.documents)

    def extent(self, progress: Progress, windows: Sequence[Window], *, coming: int = 0) -> Extent:
        """Return what the next batch of an index with *progress* and *windows* is judged with.

        Args:
            progress: of the index.
            windows: those that are alive, the oldest first.
            coming: how many documents of the batch count as remembered while it is judged.
        """
        horizon = progress.horizon
        if self.documents is None:
            return Extent(horizon)
        horizon = max(horizon, progress.next_ordinal + coming - self.documents)
        newest = windows[-1]
        held = progress.next_ordinal - newest.first_ordinal
        alive = 1 + sum(following.first_ordinal > horizon for _, following in pairwise(windows))
        if held * PARTS < self.documents or held < self.least or alive >= WINDOWS_MAX:
            return Extent(horizon)
        begins = Window(newest.number + 1, progress.next_ordinal, progress.next_batch)
        return Extent(horizon, begins)


UNLIMITED = Retention()
