"""Retention: what is still remembered when a document is judged, and when a window begins.

Both are decided once, before a batch is judged, from the records before each document. A replay
reads these decisions from the log and makes none. They depend only on the order of the records,
so no verdict depends on where batches are cut. Each document of a batch has its own horizon. A
window begins with a document, so the batch before it ends there.

The next window begins when the newest one holds a quarter of what is remembered. So at most five
windows are alive, and at most a quarter more than what is remembered is stored. A window also
holds at least `Retention.least` documents, or a day. After a limit was raised, up to twice of what
is remembered is stored. Five small windows are then alive, and no window begins before the oldest
one is dropped. Until then all new documents go to the newest window.

Time is stream time: it follows the records' timestamps and never goes back. So a backfill of three
years ages as the live stream did, and an idle stream forgets nothing. All partitions share one
clock. If one partition is ahead, documents that the others still need may already be forgotten.

Batch marks map a time to an ordinal. Both rise with the batch number, so a binary search finds the
batch in about twenty steps, and its ages give the document. Batches that were judged without a
limit have no stream time in their marks. They are in the first window, which ends at the first
document that is judged with a limit. Their documents count as arrived at that document's time.

`Retention.within` bounds the age of a match by the same clock, and forgets nothing: each document
has a *reach*, the lowest ordinal that it may match, at or above its horizon.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from msgspec import Struct, field

from streamfilter.index.ages import ages_of
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import WINDOWS_MAX, Documents, Index, Readable
from streamfilter.model import EVER, BatchMark, Record, Window
from streamfilter.similarity.columns import F64, I64

PARTS = WINDOWS_MAX - 1  # of the remembered documents: a window holds at least one
SOON = 0.75
"""Share of a part in the newest window at which the next window is prepared, ahead of the batch
that begins it."""
LEAST_MILLISECONDS = 24 * 3_600_000
"""Stream time after which a window may end with fewer documents than the retention's ``least``.
Without a bound, a few documents would stay for years. With a shorter one, the backfill of a slow
stream with a short retention would spend its time on windows."""
FUTURE_MILLISECONDS_MAX = 3_600_000
"""How far ahead of the clock a record's timestamp may count; later ones are cut to that. Otherwise
one producer with a wrong clock would age the whole index. The bound is also at most one part of
the retention: a clock that is an hour fast would otherwise age all of a shorter one."""

Marks = Callable[[int], BatchMark | None]
"""Batch number → what the index remembers of that batch; None if its window was dropped."""


NO_DOCUMENTS: I64 = np.zeros(0, np.int64)


class Extent(Struct, frozen=True):
    """How far back a batch may match, and which window its own documents enter."""

    horizon: int = 0
    """Documents below this ordinal are forgotten after the batch, even if the index holds them."""
    opens: Window | None = None  # begins with the first document; None: they enter the newest
    stream_time: int = -1  # stream time at the end of the batch; -1: unknown
    soon: bool = False  # whether the next window should be prepared (`Index.prepare`)
    ages: bool = True  # whether batch marks store arrivals: the index forgets, or ever has
    horizons: I64 | None = None
    """(n,) the horizon of each document, rising: ordinals below it are forgotten when the document
    is judged. None: ``horizon`` for all."""
    reach: I64 | None = None  # (n,) the lowest ordinal to match, rising; None: the horizon
    times: I64 = field(default_factory=NO_DOCUMENTS.copy)
    """(n,) stream time when each document arrived, rising; only with ``horizons``."""
    cut: int | None = None  # row of the document that begins a window, and ends the batch

    @property
    def marked_time(self) -> int:
        """Return the stream time that the batch's mark stores; -1: none."""
        return self.stream_time if self.ages else -1

    def since(self, documents: int) -> I64:
        """Return (n,) the lowest ordinal that each of the batch's *documents* may match."""
        return self.remembered(documents) if self.reach is None else self.reach

    def remembered(self, documents: int) -> I64:
        """Return (n,) the lowest ordinal that is remembered when each document is judged."""
        if self.horizons is not None:
            return self.horizons
        return np.full(documents, self.horizon, np.int64)


EVERYTHING = Extent()  # nothing is forgotten


def no_marks(_: int) -> None:
    """Return None: no batch has a mark."""


class Retention(Struct, frozen=True):
    """How much is remembered."""

    documents: int | None = None
    """How many of the last judged documents are remembered; None: all. Duplicates count too,
    although the index holds only the unique ones."""
    least: int = 1
    """Fewest documents of a window that is younger than `LEAST_MILLISECONDS`. To begin and drop a
    window takes a tenth of a second."""
    time: int | None = None  # milliseconds of stream time to remember; None: for ever
    within: int | None = None  # milliseconds that a match may be older; None: any

    def __post_init__(self) -> None:
        if self.documents is not None and self.documents < 1:
            raise ValueError(f"{self.documents} documents are no memory; use 1 or more, or None")
        if self.time is not None and self.time < 1:
            raise ValueError(f"{self.time} ms are no memory; use 1 or more, or None")

    @property
    def timed(self) -> bool:
        """Return whether a verdict depends on when documents arrived."""
        return self.time is not None or self.within is not None

    @property
    def limited(self) -> bool:
        """Return whether anything is ever forgotten."""
        return self.documents is not None or self.time is not None

    def extent_of(
        self, index: Index, records: Sequence[Record], rows: Sequence[int], now: int
    ) -> Extent:
        """Return the extent of new *records*, the next batch of *index*, at the time *now*.

        *rows* are the places of the documents among them. A file of blank lines has no records.
        """
        progress = index.progress
        if not records:
            return self.rest(index)
        times = self.stream_times(progress.highest_timestamp, records, now)
        came, last = times[np.asarray(rows, np.intp)], int(times[-1])
        return self.extent(progress, index.windows, times=came, time=last, mark=index.mark)

    def rest(self, index: Index) -> Extent:
        """Return the extent of a batch without records, in which nothing ages."""
        progress = index.progress
        time = progress.highest_timestamp
        return self._unaged(progress, index.windows, NO_DOCUMENTS, time=time)

    def stream_times(self, before: int, records: Sequence[Record], now: int) -> I64:
        """Return the stream time at each of *records*: it never falls, nor runs far ahead of *now*.

        A record without a timestamp gets the time *now*. The time is never negative, even if the
        clock is set to before 1970: a mark without a time means that nothing was ever forgotten.
        """
        now = max(now, 0)
        parts = [each // PARTS for each in (self.time, self.within) if each is not None]
        limit = now + min([FUTURE_MILLISECONDS_MAX, *parts])
        times: I64 = np.fromiter((each.timestamp for each in records), np.int64, len(records))
        times = np.where(times < 0, now, np.minimum(times, limit))
        return np.asarray(np.maximum(np.maximum.accumulate(times), before))

    def meets(self, ordinal: int, other: int) -> bool:
        """Return whether *other* was still among the counted documents when *ordinal* arrived."""
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
        """Return the extent of the next batch of an index with *progress* and the living *windows*.

        *times* are the stream times when the batch's documents arrived, *time* that at its end.
        *mark* returns the marks of earlier batches.
        """
        if not (self.limited or self.timed):
            return self._unaged(progress, windows, times, time=time)
        horizons = self._horizons(progress, windows, times, time, mark)
        since, horizon, reach = horizons[:-1], int(horizons[-1]), None
        if self.within is not None:
            dated = _Dated(progress, windows, times, mark)
            reach = np.maximum(since, dated.first_after(times - self.within - 1))
        aging = _Aging(self, progress, since, times)
        opens, cut = None, aging.full(windows, mark)
        if cut == 0:
            newest = windows[-1].number + 1
            opens = Window(newest, progress.next_ordinal, progress.next_batch)
            windows = (*windows, opens)
            cut = aging.full(windows, mark)
        soon = aging.parts(windows, mark)[-1:] >= SOON
        return Extent(horizon, opens, time, bool(soon.any()), True, since, reach, times, cut)

    def reach_at(self, index: Readable, time: int) -> int:
        """Return the lowest ordinal of *index* that a document arriving at *time* may match."""
        progress, since = index.progress, index.progress.horizon
        if self.within is None:
            return since
        dated = _Dated(progress, index.windows, NO_DOCUMENTS, index.mark)
        return max(since, int(dated.first_after(np.array([time - self.within - 1]))[0]))

    def _unaged(
        self, progress: Progress, windows: Sequence[Window], times: I64, *, time: int
    ) -> Extent:
        """Return the extent of a batch in which nothing ages.

        An index that has ever forgotten goes on storing when its documents arrived, even while
        there is no limit. A limit that is set again later needs those times.
        """
        ages = self.limited or self.timed or progress.horizon > 0 or tuple(windows) != (EVER,)
        since = np.full(len(times), progress.horizon, np.int64) if ages else None
        return Extent(progress.horizon, None, time, ages=ages, horizons=since, times=times)

    def _horizons(
        self, progress: Progress, windows: Sequence[Window], times: I64, time: int, mark: Marks
    ) -> I64:
        """Return the horizon of each document of a batch, and the one after the batch."""
        ordinals = progress.next_ordinal + np.arange(len(times) + 1)
        counted = ordinals - (self.documents or ordinals)
        horizons: I64 = np.maximum(counted, progress.horizon)
        if self.time is not None:
            kept = np.append(times, time) - self.time
            aged = _Dated(progress, windows, times, mark).first_after(kept)
            horizons = np.maximum(horizons, aged)
        return horizons


class _Dated(Struct, frozen=True):
    """Arrival times of an index's documents, followed by those of its next batch."""

    progress: Progress
    windows: Sequence[Window]
    times: I64  # stream times of the batch's own documents, rising
    mark: Marks

    def first_after(self, times: I64) -> I64:
        """Return for each of the rising *times* the first ordinal that arrived after it; 0: all.

        Documents before the first one with a known time count as arrived with it. Without marks,
        for a batch that begins with ordinal 0: documents arrived at (10, 20, 20), and the *times*
        (10, 20) give the ordinals (1, 3).
        """
        dated = [window for window in self.windows if window.number]
        first, begin = self.progress.next_ordinal, self.progress.next_batch
        if dated:
            first, begin = dated[0].first_ordinal, dated[0].first_batch
        found = np.empty(len(times), np.int64)
        done = 0
        while done < len(times):
            # Most times fall into one batch or two, so all times of a batch are answered together.
            batches, time = self.progress.next_batch, int(times[done])
            begin = _first_batch(begin, batches, self.mark, partial(_ended_after, time))
            known = self.mark(begin) if begin < batches else None
            end, ordinals = self._within(known, times[done:])
            found[done : done + end] = ordinals
            done += end
        return np.where(found == first, 0, found)

    def _within(self, known: BatchMark | None, times: I64) -> tuple[int, I64]:
        """Return how many of *times* one batch answers, and the ordinals; None: the next batch."""
        if known is None:
            before = np.searchsorted(self.times, times, "right")
            return len(times), np.asarray(self.progress.next_ordinal + before, np.int64)
        end = int(np.searchsorted(times, known.stream_time, "left"))
        ages = ages_of(known)
        if ages is None:  # its documents count as arrived at its end
            return end, np.full(end, known.first_ordinal, np.int64)
        before = np.searchsorted(ages.times, times[:end], "right")
        return end, np.asarray(known.first_ordinal + before, np.int64)


class _Aging(Struct, frozen=True):
    """Finds the document of a batch that begins a new window, if there is one."""

    retention: Retention
    progress: Progress
    horizons: I64
    times: I64

    def full(self, windows: Sequence[Window], mark: Marks) -> int | None:
        """Return the row of the document that begins the window after *windows*, or None."""
        firsts = [window.first_ordinal for window in windows[1:]]
        alive = len(windows) - np.searchsorted(firsts, self.horizons, "right")
        found = np.flatnonzero((self.parts(windows, mark) >= 1.0) & (alive < WINDOWS_MAX))
        return int(found[0]) if len(found) else None

    def parts(self, windows: Sequence[Window], mark: Marks) -> F64:
        """Return how full the newest window is when each document arrives; 1.0 is one part."""
        kept, newest = self.retention, windows[-1]
        if not len(self.times) or (kept.timed and not newest.number):
            return np.ones(len(self.times))
        held = self.progress.next_ordinal - newest.first_ordinal + np.arange(len(self.times))
        passed = self.times - self._began(newest, mark)
        least = np.maximum(held / kept.least, passed / LEAST_MILLISECONDS)
        by_count = held * PARTS / kept.documents if kept.documents else np.zeros(len(held))
        by_time = passed * PARTS / kept.time if kept.time else np.zeros(len(held))
        return np.asarray(np.minimum(least, np.maximum(by_count, by_time)))

    def _began(self, newest: Window, mark: Marks) -> I64 | int:
        """Return when the window's first document arrived; unknown: the batch's own times."""
        begin, end = newest.first_batch, self.progress.next_batch
        begin = _first_batch(begin, end, mark, lambda m: m.next_ordinal > newest.first_ordinal)
        if begin == end:
            return int(self.times[0])  # it begins with this batch
        if (first := mark(begin)) is None or first.stream_time < 0:
            return self.times
        ages = ages_of(first)
        return first.stream_time if ages is None else int(ages.times[0])


def came_at(index: Readable, document: Documents) -> int:
    """Return the stream time when a stored *document* arrived; 0: its index does not know."""
    mark = index.mark(int(document.batches[0]))
    if mark is None or (ages := ages_of(mark)) is None:
        return 0
    return int(ages.times[int(document.ordinals[0]) - mark.first_ordinal])


def _ended_after(time: int, mark: BatchMark) -> bool:
    return mark.stream_time > time


def _first_batch(low: int, high: int, mark: Marks, holds: Callable[[BatchMark], bool]) -> int:
    """Return the first batch from *low* on from which *holds* is true; *high* if there is none."""
    if low < high and ((first := mark(low)) is None or holds(first)):
        return low  # nearly always
    while low < high:
        middle = (low + high) // 2
        found = mark(middle)
        if found is not None and holds(found):
            high = middle
        else:
            low = middle + 1
    return low


UNLIMITED = Retention()
