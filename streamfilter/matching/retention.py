"""Retention: what is still remembered when a batch is judged, and when a window begins.

Both are decided once, before the batch is judged, from what the log says of the batches before
it: a replay is told, and decides nothing. A window that holds a quarter of what is remembered is
followed by the next, so that at most five are alive, and what is stored is at most a quarter
above what is remembered, or a few batches where that is more. After a limit was raised it is up to
twice what is remembered: five small windows are alive, and none begins before the oldest of them
goes, so that the newest holds all that came since.

Time is the stream's: it moves with the records' timestamps and never back, so a backfill of three
years ages as it would have live, and a stream that rests forgets nothing. It is one time for all
partitions: one that is read ahead of the others ages what they have still to meet. Which ordinal a
time means, the batches' own marks tell: they rise in both, so the first batch after a time is found
by halving, in some twenty looks however long the memory is. Batches of a time in which nothing was
to be forgotten have no stream time in their marks. They are in the first window, which the first
limited batch ends: what they hold counts as come when that batch came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from streamfilter.index.protocol import WINDOWS_MAX, Index, Progress
from streamfilter.model import EVER, BatchMark, Record, Window

PARTS = WINDOWS_MAX - 1
"""Of what is remembered each window holds at least one."""
SOON = 0.75
"""Of a part: then the next window is made ready, ahead of the batch that begins it."""
FUTURE_MILLISECONDS_MAX = 3_600_000
"""A record's timestamp counts at most an hour ahead of the clock, or one mad producer would age
the whole index; and at most a part of the retention, or one that is an hour fast would age that of
a shorter one."""

Marks = Callable[[int], BatchMark | None]
"""By a batch's number: what the index remembers of it, if its window is alive."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a batch is judged with: how far the memory reaches back, and where its own go."""

    horizon: int = 0
    """Documents below this ordinal are forgotten, whether or not the index still holds them."""
    opens: Window | None = None
    """The window that begins with this batch; None: its documents enter the newest."""
    stream_time: int = -1
    """Of the batch."""
    soon: bool = False
    """Whether the window after this batch's is near: `Index.prepare`."""
    ages: bool = True
    """Whether the index forgets, or ever has: then the marks of its batches say when they came."""

    @property
    def marked_time(self) -> int:
        """Return the stream time as the batch's mark has it; -1: it has none."""
        return self.stream_time if self.ages else -1


EVERYTHING = Extent()
"""Nothing is forgotten."""


def no_marks(_: int) -> None:
    """Remember no batch."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much is remembered."""

    documents: int | None = None
    """The last so many that were judged (of which the index holds the unique); None: all."""
    least: int = 1
    """A window holds at least so many: to begin and to drop one costs a tenth of a second."""
    batches: int = 1
    """And at least so many batches: in a backfill with a short retention each may be more than a
    part of it. Not documents: where few come, they would stay for years."""
    time: int | None = None
    """Milliseconds of stream time: what came with later batches is remembered. None: for ever."""

    def __post_init__(self) -> None:
        if self.documents is not None and self.documents < 1:
            raise ValueError(f"{self.documents} documents are no memory; use 1 or more, or None")
        if self.time is not None and self.time < 1:
            raise ValueError(f"{self.time} ms are no memory; use 1 or more, or None")

    @property
    def limited(self) -> bool:
        """Return whether anything is ever forgotten."""
        return self.documents is not None or self.time is not None

    def extent_of(self, index: Index, records: Sequence[Record], now: int) -> Extent:
        """Return what new *records*, the next batch of *index*, are judged with at the time *now*.

        Of a file there may be none: nothing but blank lines.
        """
        progress = index.progress
        if not records:
            return self.rest(index)
        time = self.stream_time(progress.highest_timestamp, records, now)
        return self.extent(progress, index.windows, time=time, mark=index.mark)

    def rest(self, index: Index) -> Extent:
        """Return the same for a batch without records, in which nothing ages."""
        progress = index.progress
        return self._unaged(progress, index.windows, time=progress.highest_timestamp)

    def stream_time(self, before: int, records: Iterable[Record], now: int) -> int:
        """Return the stream time of a batch of *records*, not far ahead of *now*; it never falls.

        A record without a timestamp counts as of the present. With a record there is a time, also
        by a clock that is set to before 1970: a batch that tells none says that nothing was ever
        forgotten.
        """
        now = max(now, 0)
        part = FUTURE_MILLISECONDS_MAX if self.time is None else self.time // PARTS
        limit = now + min(FUTURE_MILLISECONDS_MAX, part)
        times = (min(each.timestamp, limit) if each.timestamp >= 0 else now for each in records)
        return max([before, *times])

    def meets(self, ordinal: int, other: int) -> bool:
        """Return whether the count left *other* remembered when the document *ordinal* came."""
        return other < ordinal and (self.documents is None or other > ordinal - self.documents)

    def extent(
        self,
        progress: Progress,
        windows: Sequence[Window],
        *,
        coming: int = 0,
        time: int = -1,
        mark: Marks = no_marks,
    ) -> Extent:
        """Return what the next batch of an index with *progress* and *windows* is judged with.

        Args:
            progress: of the index.
            windows: those that are alive, the oldest first.
            coming: how many documents of the batch count as remembered while it is judged.
            time: the stream time of the batch.
            mark: of the batches before it.
        """
        if not self.limited:
            return self._unaged(progress, windows, time=time)
        horizon = max(
            progress.horizon,
            progress.next_ordinal + coming - self.documents if self.documents else 0,
            self._first_after(progress, windows, time, mark),
        )
        held = self._held(progress, windows[-1], time, mark)
        alive = 1 + sum(following.first_ordinal > horizon for _, following in pairwise(windows))
        if held < 1.0 or alive >= WINDOWS_MAX:
            return Extent(horizon, None, time, held >= SOON)
        number = windows[-1].number + 1
        begins = Window(number, progress.next_ordinal, progress.next_batch)
        return Extent(horizon, begins, time)

    def _unaged(self, progress: Progress, windows: Sequence[Window], *, time: int) -> Extent:
        """Return the extent of a batch in which nothing ages.

        An index that has forgotten goes on to say when its batches came, also while it may keep
        all: else nobody could tell when they did once it may not.
        """
        ages = self.limited or progress.horizon > 0 or tuple(windows) != (EVER,)
        return Extent(progress.horizon, None, time, ages=ages)

    def _first_after(
        self, progress: Progress, windows: Sequence[Window], time: int, mark: Marks
    ) -> int:
        """Return the first ordinal of the first batch that is not too old; 0 if none is."""
        timed = [window for window in windows if window.number]
        if self.time is None or not timed:
            return 0
        low = begin = timed[0].first_batch
        high = progress.next_batch
        while low < high:
            middle = (low + high) // 2
            found = mark(middle)
            if found is not None and found.stream_time > time - self.time:
                high = middle
            else:
                low = middle + 1
        if low == begin:
            return 0
        first = mark(low) if low < progress.next_batch else None
        return progress.next_ordinal if first is None else first.first_ordinal

    def _held(self, progress: Progress, newest: Window, time: int, mark: Marks) -> float:
        """Return what the newest window holds, in parts of what is remembered."""
        if self.time is not None and not newest.number:
            return 1.0
        held = progress.next_ordinal - newest.first_ordinal
        least = min(held / self.least, (progress.next_batch - newest.first_batch) / self.batches)
        by_count = held * PARTS / self.documents if self.documents else 0.0
        began = mark(newest.first_batch) if self.time is not None else None
        if self.time is None or began is None:
            return min(least, by_count)
        return min(least, max(by_count, (time - began.stream_time) * PARTS / self.time))


UNLIMITED = Retention()
