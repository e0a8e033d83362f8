"""What decides of windows and horizons, and of what came when."""

import random
import re
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from streamfilter.index.ages import Ages
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import WINDOWS_MAX
from streamfilter.matching.blocking.retention import (
    EVERYTHING,
    FUTURE_MILLISECONDS_MAX,
    UNLIMITED,
    Extent,
    Retention,
)
from streamfilter.matching.pipeline import MatchPolicy, judge
from streamfilter.model import EVER, BatchMark, Record, Source, Span, Window
from streamfilter.similarity.columns import Widths
from tests.pipeline.test_sequential_model import SKETCHER, batch_of, run_in_batches
from tests.support.values import replace

HOUR = 3_600_000


def test_a_text_is_met_in_a_later_window_however_many_like_it_an_older_one_lists():
    """Lists that were cut to the oldest of all windows would hide it."""
    text = "a story of a fox and a dog who went to the sea and looked at the ships for a day"
    texts = [f"{text} {i}" for i in range(4)]
    index, policy = MemoryIndex(Widths(128), bucket_cap=1), MatchPolicy(threshold=0.999)

    def extents(index, size):
        progress = index.progress
        opens = Window(index.windows[-1].number + 1, progress.next_ordinal, progress.next_batch)
        return Extent(0, opens if progress.next_ordinal else None)

    run_in_batches(texts, iter(lambda: 1, None), index, policy, extents=extents)
    assert len(index.windows) == 4
    nothing = np.zeros(1, np.int64)
    judged = judge(
        batch_of(["new"], [99]), SKETCHER.sketch([texts[-1]]), index=index, policy=policy,
        locate=lambda p, o: Source("t", p, o), number=9, first_ordinal=4,
    )  # fmt: skip
    assert judged.decisions[0].match.document_id == "d3"
    assert judged.counts.candidates.tolist() > nothing.tolist()


class Aging:
    """Documents that come at times, in batches; what a retention makes of them, by plain lists."""

    def __init__(self, *, since: int = 0) -> None:
        self.windows, self.progress = (Window(),), Progress()
        self.marks: list[BatchMark] = []
        self.since = since
        """The first documents were judged while nothing was forgotten, so many."""
        self.came: list[int] = []
        """When each document came; -1: nothing was forgotten."""
        self.horizons: list[int] = []
        self.looks = 0

    def mark(self, number: int) -> BatchMark | None:
        self.looks += 1
        alive = number >= self.windows[0].first_batch
        return self.marks[number] if alive and number < len(self.marks) else None

    def come(self, retention: Retention, time: int, documents: int) -> list[Extent]:
        """Let documents come at once, in one batch or, where windows begin, in several."""
        return self.all_come(retention, [time] * documents, time)

    def all_come(self, retention: Retention, times: list[int], end: int) -> list[Extent]:
        extents, left = [], times
        while left or not extents:
            some = left
            while True:
                last = end if len(some) == len(left) else some[-1]
                extent = EVERYTHING
                if self.progress.next_ordinal >= self.since:
                    extent = retention.extent(
                        self.progress, self.windows, times=np.array(some, np.int64), time=last,
                        mark=self.mark,
                    )  # fmt: skip
                if extent.cut is None:
                    break
                some = some[: extent.cut]
            self._write(extent, some)
            extents.append(extent)
            left = left[len(some) :]
        return extents

    def _write(self, extent: Extent, times: list[int]) -> None:
        first, number = self.progress.next_ordinal, len(self.marks)
        if extent.opens is not None:
            assert extent.opens == Window(self.windows[-1].number + 1, first, number)
            self.windows += (extent.opens,)
        since = extent.since(len(times)).tolist()
        assert (since, extent.horizon) >= ([self.progress.horizon] * len(times), 0)
        self.horizons += since
        while len(self.windows) > 1 and self.windows[1].first_ordinal <= extent.horizon:
            self.windows = self.windows[1:]
        assert len(self.windows) <= WINDOWS_MAX
        self.came += times if extent.marked_time >= 0 else [-1] * len(times)
        spans, after = (Span(0, first, first + len(times)),), first + len(times)
        mark = BatchMark(number, first, after, spans, extent.horizon, extent.marked_time)
        if extent.horizons is not None and times:
            zeros = np.zeros(len(times), np.int64)
            ages = Ages(zeros, np.arange(first, after), extent.horizons, extent.times)
            mark = replace(mark, ages=ages.encoded(spans))
        self.marks.append(mark)
        self.progress = Progress(next_batch=number + 1, next_ordinal=after,
                                 horizon=extent.horizon)  # fmt: skip

    @property
    def stored(self) -> int:
        return self.progress.next_ordinal - self.windows[0].first_ordinal


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_so_many_documents_are_remembered_in_at_most_five_windows(seed):
    rng, aging = random.Random(seed), Aging()
    sizes = (1, 3, 4, 10, 64, 1_000)
    retention = Retention(documents=rng.choice(sizes))
    for _ in range(300):
        if rng.random() < 0.02:
            retention = Retention(documents=rng.choice(sizes))
        known = len(aging.horizons)
        aging.come(retention, -1, rng.choice((0, 1, 5, 40)))
        for ordinal, horizon in enumerate(aging.horizons[known:], start=known):
            before = aging.horizons[ordinal - 1] if ordinal else 0
            assert horizon == max(before, ordinal - retention.documents, aging.horizons[known])
        assert aging.progress.horizon >= aging.progress.next_ordinal - retention.documents


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "most"), [(1, 100), (30, 1_000), (400, 1_000)])
def test_what_is_stored_is_at_most_a_quarter_above_what_is_remembered(batch, most):
    retention, aging = Retention(documents=most), Aging()
    for _ in range(15 * most // batch):
        aging.come(retention, -1, batch)
        assert aging.stored <= most + most // 4
    assert aging.windows[0].number > 40


@pytest.mark.parametrize("memory", [{"documents": 10}, {"time": HOUR // 2}])
def test_a_window_holds_some_documents_or_a_day_however_little_is_remembered(memory):
    """Else each few documents of a backfill would begin one, which costs as much as thousands."""
    retention, aging = Retention(**memory, least=120), Aging()
    for hour in range(14):
        aging.come(retention, hour * HOUR, 30)
    firsts = [
        each.opens.first_ordinal for each in aging.come(retention, 14 * HOUR, 300) if each.opens
    ]
    assert firsts == ([480, 600] if "time" in memory else [480, 600, 720])[: len(firsts)]
    slow = Aging()
    opened = [
        hour for hour in range(100) if any(e.opens for e in slow.come(retention, hour * HOUR, 1))
    ]
    assert opened == ([0, 24, 48, 72, 96] if "time" in memory else [24, 48, 72, 96])


def test_the_window_to_come_is_made_ready_ahead():
    retention, aging = Retention(documents=1_000), Aging()
    soon = [aging.come(retention, -1, 25)[-1].soon for _ in range(10)]
    assert soon == [number >= 7 for number in range(10)]


@pytest.mark.slow
@pytest.mark.parametrize(("small", "large"), [(1_000, 10_000), (1_000, 100_000), (4_000, 10_000)])
def test_after_a_limit_is_raised_twice_of_what_is_remembered_may_be_stored_and_then_not(
    small, large
):
    """README says so: five small windows are alive, and the newest swells until one goes."""
    aging, most = Aging(), []
    for limit, ordinals in ((small, 10 * small), (large, 3 * large), (large, 3 * large)):
        retention, shares = Retention(documents=limit), [0.0]
        for _ in range(ordinals // 100):
            aging.come(retention, -1, 100)
            shares.append(aging.stored / limit)
        most.append(max(shares))
    assert max(most[0], most[2]) <= 1.25 + 100 / small
    assert 1.4 < most[1] < 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_came_in_the_time_that_is_kept_is_remembered_in_at_most_five_windows(seed):
    rng = random.Random(seed)
    aging = Aging(since=rng.choice((0, 20)))
    kept, time, most = rng.choice((1_000, HOUR)), 0, 0
    retention, batches = Retention(time=kept), 400
    for _ in range(batches):
        times = []
        for _ in range(rng.choice((0, 1, 5, 40))):
            time += rng.choice(
                (0, 1, kept // 50, kept // 7, 2 * kept if rng.random() < 0.02 else 0)
            )
            times.append(time)
        known = len(aging.came)
        aging.all_come(retention, times, time)
        dated = aging.came.index(next((t for t in aging.came if t >= 0), -1)) if times else 0
        for ordinal in range(known, len(aging.came)):
            came = aging.came[ordinal]
            if came >= 0:
                young = bisect_right(aging.came, came - kept, dated, ordinal + 1)  # times rise
                assert aging.horizons[ordinal] == (0 if young == dated else young), ordinal
        most = max(most, len(aging.windows))
    assert most in (4, 5)
    assert aging.windows[0].number > 10
    assert aging.looks < batches * 80, "twenty looks would do for a million batches"


@pytest.mark.slow
def test_no_horizon_depends_on_where_batches_are_cut():
    """Nor does a window's beginning. Some records are no documents, and only move the time."""
    rng, outcomes = random.Random(31), []
    times = list(accumulate(rng.choice((0, 1, 30, 500)) for _ in range(600)))
    retention = Retention(documents=150, time=9_000, least=20)
    for size in (1, 7, 600, 0):
        aging, done = Aging(), 0
        while done < len(times):
            some = times[done : done + (size or rng.randrange(1, 50))]
            opened = [each.opens for each in aging.all_come(retention, some, some[-1])]
            done += len(some)
        firsts = [mark.first_ordinal for mark in aging.marks]
        outcomes.append((aging.horizons, aging.windows[0].first_ordinal, aging.progress.horizon))
        assert len(firsts) >= len(times) / (size or 50)
        assert opened
    assert outcomes == outcomes[:1] * 4
    assert len(set(outcomes[0][0])) > 100


def test_what_was_judged_before_there_was_a_retention_counts_as_come_when_it_was_set():
    aging, retention = Aging(since=50), Retention(time=1_000)
    for number in range(5):
        aging.come(retention, number, 10)
    assert aging.come(retention, 50_000, 10)[0].opens == Window(1, 50, 5)
    for time, horizon in ((50_001, 0), (50_999, 0), (51_000, 60), (51_998, 70), (51_999, 80)):
        known = len(aging.horizons)
        aging.come(retention, time, 10)
        assert aging.horizons[known:] == [horizon] * 10, time
    assert aging.windows[0].number > 0


def test_a_retention_that_is_made_longer_or_endless_brings_nothing_back():
    aging = Aging()
    for time in range(0, 5_000, 100):
        aging.come(Retention(time=1_000), time, 2)
    horizon, windows = aging.progress.horizon, aging.windows
    longer = (Retention(), Retention(), Retention(time=HOUR), Retention(documents=10**9))
    for time, retention in zip((5_000, 9_000, 9_100, 9_200), longer, strict=True):
        (extent,) = aging.come(retention, time, 2)
        assert (extent.horizon, extent.stream_time) == (horizon, time)
    assert aging.windows[: len(windows)] == windows
    aging.come(Retention(time=150), 9_300, 2)
    assert aging.horizons[-2:] == [aging.progress.next_ordinal - 4] * 2
    aging.come(Retention(documents=3), 9_300, 2)
    assert aging.horizons[-2:] == [aging.progress.next_ordinal - 5, aging.progress.next_ordinal - 4]


@pytest.mark.parametrize(
    ("timestamps", "time"),
    [
        ([1_100, 1_050], 1_100),
        ([900], 1_000),
        ([0], 1_000),  # of 1970
        ([-1], 50_000),  # none: the present
        ([16_725_225_600_000], 50_000 + HOUR),  # of 2500
        ([], 1_000),
    ],
)
def test_stream_time_follows_the_records_and_never_falls_nor_runs_ahead(timestamps, time):
    records = [Record(Source("t", 0, n), None, b"", (), each) for n, each in enumerate(timestamps)]
    times = Retention().stream_times(1_000, records, 50_000)
    assert max(times.tolist(), default=1_000) == time
    assert (np.diff(times, prepend=1_000) >= 0).all()


def test_a_clock_of_before_1970_gives_a_time_all_the_same():
    """The simulator's seed 328: the horizon was not reported, and a restore remembered too much."""
    for stamp in (-1, 0, 500, FUTURE_MILLISECONDS_MAX + 1):
        record = Record(Source("t", 0, 0), None, b"", (), stamp)
        (time,) = Retention().stream_times(-1, [record], -86_400_000).tolist()
        assert 0 <= time <= FUTURE_MILLISECONDS_MAX


def test_clocks_and_records_of_1970_and_2500_forget_no_more_than_an_hour_too_much():
    """And while all partitions but one rest, the one that does not says what time it is."""
    now, aging, retention = 1_700_000_000_000, Aging(), Retention(time=24 * HOUR)
    time = -1
    for number, stamp in enumerate(
        (now, 0, 16_725_225_600_000, -1, now + 20 * HOUR, now + 30 * HOUR)
    ):
        record = Record(Source("t", number % 2, number), None, b"", (), stamp)
        clock = max(now, stamp if number > 3 else 0)
        (time,) = retention.stream_times(time, [record], clock).tolist()
        aging.come(retention, time, 1)
    assert aging.horizons == [0, 0, 0, 0, 0, 4]


@pytest.mark.parametrize("kept", [1_000, HOUR // 2, HOUR])
def test_a_clock_that_is_fast_ages_a_short_retention_by_no_more_than_a_quarter_of_it(kept):
    began, aging, retention, time = 1_700_000_000_000, Aging(), Retention(time=kept), -1
    for number, (now, stamp) in enumerate(
        ((0, 0), (1, HOUR - 1), (kept // 2, kept // 2), (kept, kept), (kept + 1, kept + 1))
    ):
        record = Record(Source("t", 0, number), None, b"", (), began + stamp)
        (time,) = retention.stream_times(time, [record], began + now).tolist()
        aging.come(retention, time, 1)
    assert aging.horizons == [0, 0, 0, 1, 1], "the fast one's own time is a quarter ahead"


def test_an_index_stores_when_documents_came_once_it_forgets_and_never_before():
    """Without a limit no byte of its marks may change."""
    limits = Retention(documents=9), Retention(time=9), Retention(within=9)
    assert [each.rest(MemoryIndex(Widths(128))).ages for each in (UNLIMITED, *limits)] == [
        False, True, True, True
    ]  # fmt: skip
    later = EVER, Window(1, 4, 1)
    for horizon, windows, ages in ((0, (EVER,), False), (1, (EVER,), True), (0, later, True)):
        extent = UNLIMITED.extent(Progress(horizon=horizon), windows, time=5)
        assert (extent.ages, extent.marked_time) == (ages, 5 if ages else -1)


def test_a_window_begins_with_its_first_document_and_not_with_an_empty_batch_before():
    marks = [BatchMark(0, 0, 0, (), stream_time=0),
             BatchMark(1, 0, 5, (Span(0, 0, 5),), stream_time=23 * HOUR)]  # fmt: skip
    progress, retention = Progress(next_batch=2, next_ordinal=5), Retention(documents=8, least=9)
    for hour, opens in ((25, None), (47, Window(1, 5, 2))):
        times = np.array([hour * HOUR])
        extent = retention.extent(progress, (EVER,), times=times, mark=marks.__getitem__)
        assert extent.opens == opens


@pytest.mark.parametrize("documents", [0, -1])
def test_to_remember_nothing_is_refused(documents):
    with pytest.raises(ValueError, match=f"{documents} documents are no memory; use 1 or more"):
        Retention(documents=documents)


def test_the_law_is_no_part_of_what_it_judges():
    matching = Path("streamfilter/matching")
    for name in ("law", "law_of_signatures"):
        source = (matching / f"{name}.py").read_text()
        rooms = set(re.findall(r"^from streamfilter\.(\S+) import", source, re.M))
        assert rooms <= {
            "matching.law_of_signatures", "similarity.minhash", "similarity.scheme"
        }  # fmt: skip
        assert "numpy" not in source
