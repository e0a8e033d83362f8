"""Retention: what is still remembered when a document is judged, and when a window begins.

Both are decided once, before a batch is judged, from what the log says of the records before each
document: a replay is told, and decides nothing. Both follow from the order of the records alone,
so no verdict depends on where batches are cut. Each document of a batch has its own horizon. A
window begins with a document, so the batch before it ends there.

A window that holds a quarter of what is remembered is followed by the next, so that at most five
are alive, and what is stored is at most a quarter above what is remembered. A window also holds at
least `Retention.least` documents, or a day. After a limit was raised up to twice of what is
remembered is stored: five small windows are alive, and none begins before the oldest of them goes,
so that the newest holds all that came since.

Time is the stream's: it moves with the records' timestamps and never back, so a backfill of three
years ages as it would have live, and a stream that rests forgets nothing. It is one time for all
partitions: one that is read ahead of the others ages what they have still to meet. Which ordinal a
time means, the batches' own marks tell: they rise in both, so the batch is found by halving, in
some twenty looks however long the memory is, and the document among its ages. Batches of a time in
which nothing was to be forgotten have no stream time in their marks. They are in the first window,
which the first limited document ends: what they hold counts as come when that document came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from streamfilter.index.ages import ages_of
from streamfilter.index.protocol import WINDOWS_MAX, Index, Progress
from streamfilter.model import EVER, BatchMark, Record, Window
from streamfilter.similarity.columns import F64, I64

PARTS = WINDOWS_MAX - 1
"""Of what is remembered each window holds at least one."""
SOON = 0.75
"""Of a part: then the next window is made ready, ahead of the batch that begins it."""
LEAST_MILLISECONDS = 24 * 3_600_000
"""Of stream time in a window that holds fewer documents than a retention's ``least``. Without a
bound, few documents would stay for years. With a shorter one, a slow stream's backfill under a
short retention would spend its time on windows."""
FUTURE_MILLISECONDS_MAX = 3_600_000
"""A record's timestamp counts at most an hour ahead of the clock, or one mad producer would age
the whole index; and at most a part of the retention, or one that is an hour fast would age that of
a shorter one."""

Marks = Callable[[int], BatchMark | None]
"""By a batch's number: what the index remembers of it, if its window is alive."""


NO_DOCUMENTS: I64 = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Extent:
    """What a batch is judged with: how far the memory reaches back, and where its own go."""

    horizon: int = 0
    """Documents below this ordinal are forgotten after the batch, even if the index holds them."""
    opens: Window | None = None
    """The window that begins with the first document; None: the documents enter the newest."""
    stream_time: int = -1
    """At the end of the batch."""
    soon: bool = False
    """Whether the window after this batch's is near: `Index.prepare`."""
    ages: bool = True
    """Whether the index forgets, or ever has: then the marks of its batches say when they came."""
    horizons: I64 | None = None
    """(n,) by document: those below this ordinal are forgotten when it is judged. Rises. None:
    ``horizon`` for all."""
    times: I64 = field(default_factory=NO_DOCUMENTS.copy)
    """(n,) by document, if it has ``horizons``: the stream time when it came. Rises."""
    cut: int | None = None
    """A window begins with this document, so it needs a batch of its own; None: with none."""

    @property
    def marked_time(self) -> int:
        """Return the stream time as the batch's mark has it; -1: it has none."""
        return self.stream_time if self.ages else -1

    def since(self, documents: int) -> I64:
        """Return (n,) the first ordinal that each of so many *documents* may meet."""
        if self.horizons is not None:
            return self.horizons
        return np.full(documents, self.horizon, np.int64)


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
    """A window holds so many at least, or `LEAST_MILLISECONDS`: to begin and to drop one costs a
    tenth of a second."""
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

    def extent_of(
        self, index: Index, records: Sequence[Record], rows: Sequence[int], now: int
    ) -> Extent:
        """Return what new *records*, the next batch of *index*, are judged with at the time *now*.

        The documents among them are in *rows*. Of a file there may be no records: nothing but
        blank lines.
        """
        progress = index.progress
        if not records:
            return self.rest(index)
        times = self.stream_times(progress.highest_timestamp, records, now)
        came, last = times[np.asarray(rows, np.intp)], int(times[-1])
        return self.extent(progress, index.windows, times=came, time=last, mark=index.mark)

    def rest(self, index: Index) -> Extent:
        """Return the same for a batch without records, in which nothing ages."""
        progress = index.progress
        time = progress.highest_timestamp
        return self._unaged(progress, index.windows, NO_DOCUMENTS, time=time)

    def stream_times(self, before: int, records: Sequence[Record], now: int) -> I64:
        """Return the stream time at each of *records*, not far ahead of *now*; it never falls.

        A record without a timestamp counts as of the present. With a record there is a time, also
        by a clock that is set to before 1970: a batch that tells none says that nothing was ever
        forgotten.
        """
        now = max(now, 0)
        part = FUTURE_MILLISECONDS_MAX if self.time is None else self.time // PARTS
        limit = now + min(FUTURE_MILLISECONDS_MAX, part)
        times: I64 = np.fromiter((each.timestamp for each in records), np.int64, len(records))
        times = np.where(times < 0, now, np.minimum(times, limit))
        return np.asarray(np.maximum(np.maximum.accumulate(times), before))

    def meets(self, ordinal: int, other: int) -> bool:
        """Return whether the count left *other* remembered when the document *ordinal* came."""
        return other < ordinal and (self.documents is None or other > ordinal - self.documents)

    def extent(
        self,
        progress: Progress,
        windows: Sequence[Window],
        *,
        times: I64 = NO_DOCUMENTS,
        time: int = -1,
        mark: Marks = no_marks,
    ) -> Extent:
        """Return what the next batch of an index with *progress* and *windows* is judged with.

        Args:
            progress: of the index.
            windows: those that are alive, the oldest first.
            times: when each of its documents came, by the stream's time, which never falls.
            time: the stream time at its end.
            mark: of the batches before it.
        """
        if not self.limited:
            return self._unaged(progress, windows, times, time=time)
        horizons = self._horizons(progress, windows, times, time, mark)
        since, horizon = horizons[:-1], int(horizons[-1])
        aging = _Aging(self, progress, since, times)
        opens, cut = None, aging.full(windows, mark)
        if cut == 0:
            newest = windows[-1].number + 1
            opens = Window(newest, progress.next_ordinal, progress.next_batch)
            windows = (*windows, opens)
            cut = aging.full(windows, mark)
        soon = aging.parts(windows, mark)[-1:] >= SOON
        return Extent(horizon, opens, time, bool(soon.any()), True, since, times, cut)

    def _unaged(
        self, progress: Progress, windows: Sequence[Window], times: I64, *, time: int
    ) -> Extent:
        """Return the extent of a batch in which nothing ages.

        An index that has forgotten goes on to say when its documents came, also while it may keep
        all: else nobody could tell when they did once it may not.
        """
        ages = self.limited or progress.horizon > 0 or tuple(windows) != (EVER,)
        since = np.full(len(times), progress.horizon, np.int64) if ages else None
        return Extent(progress.horizon, None, time, ages=ages, horizons=since, times=times)

    def _horizons(
        self, progress: Progress, windows: Sequence[Window], times: I64, time: int, mark: Marks
    ) -> I64:
        """Return the horizon of each document of a batch, and of what comes after them."""
        ordinals = progress.next_ordinal + np.arange(len(times) + 1)
        counted = ordinals - (self.documents or ordinals)
        horizons: I64 = np.maximum(counted, progress.horizon)
        if self.time is not None:
            kept = np.append(times, time) - self.time
            aged = _Dated(progress, windows, times, mark).first_after(kept)
            horizons = np.maximum(horizons, aged)
        return horizons


@dataclass(frozen=True, slots=True)
class _Dated:
    """When documents came: those of an index, and after them those of its next batch."""

    progress: Progress
    windows: Sequence[Window]
    times: I64
    """Of the batch's own documents."""
    mark: Marks

    def first_after(self, times: I64) -> I64:
        """Return for each of the rising *times* the first ordinal that came after it; 0: any did.

        What came before the first dated document counts as come with it.
        """
        dated = [window for window in self.windows if window.number]
        first, begin = self.progress.next_ordinal, self.progress.next_batch
        if dated:
            first, begin = dated[0].first_ordinal, dated[0].first_batch
        found = np.empty(len(times), np.int64)
        done = 0
        while done < len(times):
            # Most times are of one batch, or of the next: all that one batch answers, at once.
            batches, time = self.progress.next_batch, int(times[done])
            begin = _first_batch(begin, batches, self.mark, partial(_ended_after, time))
            known = self.mark(begin) if begin < batches else None
            end, ordinals = self._within(known, times[done:])
            found[done : done + end] = ordinals
            done += end
        return np.where(found == first, 0, found)

    def _within(self, known: BatchMark | None, times: I64) -> tuple[int, I64]:
        """Return how many of *times* one batch answers, and how: None is the batch to come."""
        if known is None:
            before = np.searchsorted(self.times, times, "right")
            return len(times), np.asarray(self.progress.next_ordinal + before, np.int64)
        end = int(np.searchsorted(times, known.stream_time, "left"))
        ages = ages_of(known)
        if ages is None:  # its documents count as come at its end
            return end, np.full(end, known.first_ordinal, np.int64)
        before = np.searchsorted(ages.times, times[:end], "right")
        return end, np.asarray(known.first_ordinal + before, np.int64)


@dataclass(frozen=True, slots=True)
class _Aging:
    """A batch's documents, of which one may begin a window."""

    retention: Retention
    progress: Progress
    horizons: I64
    times: I64

    def full(self, windows: Sequence[Window], mark: Marks) -> int | None:
        """Return the first document that begins the window after *windows*; None: none does."""
        firsts = [window.first_ordinal for window in windows[1:]]
        alive = len(windows) - np.searchsorted(firsts, self.horizons, "right")
        found = np.flatnonzero((self.parts(windows, mark) >= 1.0) & (alive < WINDOWS_MAX))
        return int(found[0]) if len(found) else None

    def parts(self, windows: Sequence[Window], mark: Marks) -> F64:
        """Return what the newest window holds when each comes, in parts of what is remembered."""
        kept, newest = self.retention, windows[-1]
        if not len(self.times) or (kept.time is not None and not newest.number):
            return np.ones(len(self.times))
        held = self.progress.next_ordinal - newest.first_ordinal + np.arange(len(self.times))
        passed = self.times - self._began(newest, mark)
        least = np.maximum(held / kept.least, passed / LEAST_MILLISECONDS)
        by_count = held * PARTS / kept.documents if kept.documents else np.zeros(len(held))
        by_time = passed * PARTS / kept.time if kept.time else np.zeros(len(held))
        return np.asarray(np.minimum(least, np.maximum(by_count, by_time)))

    def _began(self, newest: Window, mark: Marks) -> I64 | int:
        """Return when the first document of a window came; unknown: with each that is asked for."""
        begin, end = newest.first_batch, self.progress.next_batch
        begin = _first_batch(begin, end, mark, lambda m: m.next_ordinal > newest.first_ordinal)
        if begin == end:
            return int(self.times[0])  # it begins with this batch
        if (first := mark(begin)) is None or first.stream_time < 0:
            return self.times
        ages = ages_of(first)
        return first.stream_time if ages is None else int(ages.times[0])


def _ended_after(time: int, mark: BatchMark) -> bool:
    return mark.stream_time > time


def _first_batch(low: int, high: int, mark: Marks, holds: Callable[[BatchMark], bool]) -> int:
    """Return the first batch from *low* on whose mark *holds*, as those of all later ones do.

    *high* if there is none before it.
    """
    if low < high and ((first := mark(low)) is None or holds(first)):
        return low  # as nearly always
    while low < high:
        middle = (low + high) // 2
        found = mark(middle)
        if found is not None and holds(found):
            high = middle
        else:
            low = middle + 1
    return low


UNLIMITED = Retention()
