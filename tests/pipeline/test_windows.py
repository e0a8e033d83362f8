"""Verdicts of an index that forgets, held to the sequential model; and what decides of windows."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

from streamfilter.index.memory import MemoryIndex
from streamfilter.index.protocol import WINDOWS_MAX, Progress
from streamfilter.matching.pipeline import MatchPolicy, judge
from streamfilter.matching.retention import (
    EVERYTHING,
    FUTURE_MILLISECONDS_MAX,
    Extent,
    Retention,
)
from streamfilter.model import BatchMark, Record, Source, Window
from tests.pipeline.ageing import Ageing
from tests.pipeline.test_sequential_model import (
    SKETCHER,
    batch_of,
    plain,
    run_in_batches,
    stream,
)

STORIES = int(os.environ.get("STORIES", "40"))
"""For more of them: ``STORIES=5000 pytest tests/pipeline/test_windows.py``."""


class Story(Ageing):
    """Batches, windows and horizons, judged by the model as they are decided."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.expected = []
        self.forgotten = 0

    def extent(self, index, size: int) -> Extent:
        """Decide by chance what the next batch is judged with, and let the model judge it."""
        extent, first = self.aged(index, 0.4), index.progress.next_ordinal
        for row in range(first, first + size):
            self.expected.append(self.model.judge(f"d{row}", self.sketches, row))
        self.forgotten = extent.horizon
        return extent

    def run(self, index) -> list:
        sizes = iter(lambda: self.rng.choice((1, 3, 10, 30)), None)
        return run_in_batches(self.texts, sizes, index, self.policy, extents=self.extent)


HOUR = 3_600_000


@pytest.mark.slow
def test_verdicts_with_windows_equal_the_sequential_model_whatever_the_batches():
    windows, kinds, forgotten = set(), set(), 0
    for seed in range(STORIES):
        story = Story(seed)
        decisions = story.run(MemoryIndex(slots=128, bucket_cap=story.cap))
        for i, (want, got) in enumerate(zip(story.expected, decisions, strict=True)):
            assert plain(got) == (want.verdict, want.matches, want.truncated), (seed, i)
        windows.add(story.windows)
        kinds |= {want.verdict for want in story.expected}
        forgotten += story.forgotten
    assert windows == set(range(1, WINDOWS_MAX + 1))
    assert kinds == {"unique", "near_duplicate", "exact_duplicate"}
    assert forgotten


@pytest.mark.parametrize("seed", range(6))
def test_a_document_read_again_meets_what_was_remembered_when_it_was_judged(seed):
    """As long as its windows are alive: the horizon has moved on, and has no say."""
    rng, index = random.Random(seed), MemoryIndex(slots=128)
    texts, policy = stream(rng, 240), MatchPolicy(short_text="exact_only")

    def extents(index, size):
        progress = index.progress
        return Extent(
            max(progress.horizon, min(progress.next_ordinal - 4, 119)),
            Window(1, 120, progress.next_batch) if progress.next_ordinal == 120 else None,
        )

    first = run_in_batches(texts, iter(lambda: 20, None), index, policy, extents=extents)
    assert index.progress.horizon == 119
    assert len(index.windows) == 2
    batch = batch_of([f"d{i}" for i in range(240)], range(240))
    again = judge(
        batch, SKETCHER.sketch(texts), index=index, policy=policy,
        locate=lambda p, o: Source("t", p, o), number=-1, first_ordinal=240,
        as_of=index.marks_covering(batch.partitions, batch.offsets),
    )  # fmt: skip
    assert [plain(each) for each in again.decisions] == [plain(each) for each in first]
    everything = run_in_batches(texts, iter(lambda: 20, None), MemoryIndex(slots=128), policy)
    assert [plain(each) for each in everything] != [plain(each) for each in first]


def test_a_text_is_met_in_a_later_window_however_many_like_it_an_older_one_lists():
    """Lists that were cut to the oldest of all windows would hide it."""
    text = "a story of a fox and a dog who went to the sea and looked at the ships for a day"
    texts = [f"{text} {i}" for i in range(4)]
    index, policy = MemoryIndex(slots=128, bucket_cap=1), MatchPolicy(threshold=0.999)

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


@pytest.mark.parametrize("seed", range(20))
def test_so_many_documents_are_remembered_in_at_most_five_windows(seed):
    rng = random.Random(seed)
    retention = Retention(documents=rng.choice((1, 3, 4, 10, 64, 1_000)))
    windows, progress = (Window(),), Progress()
    for number in range(300):
        if rng.random() < 0.02:
            retention = Retention(documents=rng.choice((1, 3, 10, 64, 1_000)))
        extent = retention.extent(progress, windows)
        assert extent.horizon >= progress.next_ordinal - retention.documents
        assert extent.horizon >= progress.horizon
        if extent.opens is not None:
            windows += (extent.opens,)
            assert extent.opens == Window(windows[-2].number + 1, progress.next_ordinal, number)
        while len(windows) > 1 and windows[1].first_ordinal <= extent.horizon:
            windows = windows[1:]
        assert len(windows) <= WINDOWS_MAX
        progress = Progress(
            next_batch=number + 1,
            next_ordinal=progress.next_ordinal + rng.choice((0, 1, 5, 40)),
            horizon=extent.horizon,
        )


def test_what_is_stored_is_at_most_a_quarter_and_a_batch_above_what_is_remembered():
    retention, windows, progress = Retention(documents=1_000), (Window(),), Progress()
    for number in range(500):
        extent = retention.extent(progress, windows)
        windows += (extent.opens,) if extent.opens else ()
        while len(windows) > 1 and windows[1].first_ordinal <= extent.horizon:
            windows = windows[1:]
        stored = progress.next_ordinal - windows[0].first_ordinal
        assert stored <= 1_000 + 250 + 30
        progress = Progress(next_batch=number + 1, next_ordinal=30 * (number + 1),
                            horizon=extent.horizon)  # fmt: skip
    assert windows[0].number > 40


@pytest.mark.parametrize(
    "memory", [{"documents": 10}, {"time": HOUR // 2}, {"documents": 1, "least": 90}]
)
def test_a_window_holds_some_batches_however_little_is_remembered(memory):
    """Else each batch of a backfill would begin one, which costs as much as a batch."""
    retention, aging, opened = Retention(**memory, batches=4), Aging(), []
    for number in range(14):
        extent = aging.come(retention, number * HOUR, 30)
        opened += [number] if extent.opens else []
        assert extent.soon == (number % 4 == 3), "the next one is made ready ahead"
    assert opened == ([0, 4, 8, 12] if retention.time else [4, 8, 12])
    assert aging.progress.horizon == aging.progress.next_ordinal - (retention.documents or 0) - 30


@pytest.mark.parametrize(("small", "large"), [(1_000, 10_000), (1_000, 100_000), (4_000, 10_000)])
def test_after_a_limit_is_raised_twice_of_what_is_remembered_may_be_stored_and_then_not(
    small, large
):
    """README says so: five small windows are alive, and the newest swells until one goes."""
    windows, progress, most = (Window(),), Progress(), []
    for limit, ordinals in ((small, 10 * small), (large, 3 * large), (large, 3 * large)):
        retention, shares = Retention(documents=limit), [0.0]
        for _ in range(ordinals // 100):
            extent = retention.extent(progress, windows)
            windows += (extent.opens,) if extent.opens else ()
            while len(windows) > 1 and windows[1].first_ordinal <= extent.horizon:
                windows = windows[1:]
            shares.append((progress.next_ordinal - windows[0].first_ordinal) / limit)
            progress = Progress(next_batch=progress.next_batch + 1,
                                next_ordinal=progress.next_ordinal + 100,
                                horizon=extent.horizon)  # fmt: skip
        most.append(max(shares))
    assert max(most[0], most[2]) <= 1.25 + 100 / small
    assert 1.4 < most[1] < 2


class Aging:
    """Batches that come at times; what a retention makes of them, held to plain lists."""

    def __init__(self, *, since: int = 0) -> None:
        self.windows, self.progress = (Window(),), Progress()
        self.marks: list[BatchMark] = []
        self.since = since
        """The first batches were judged while nothing was forgotten, so many."""
        self.times: list[tuple[int, int]] = []
        self.looks = 0

    def mark(self, number: int) -> BatchMark | None:
        self.looks += 1
        alive = number >= self.windows[0].first_batch
        return self.marks[number] if alive and number < len(self.marks) else None

    def come(self, retention: Retention, time: int, documents: int) -> Extent:
        progress, number = self.progress, len(self.marks)
        extent = EVERYTHING
        if number >= self.since:
            extent = retention.extent(progress, self.windows, time=time, mark=self.mark)
        self.windows += (extent.opens,) if extent.opens else ()
        while len(self.windows) > 1 and self.windows[1].first_ordinal <= extent.horizon:
            self.windows = self.windows[1:]
        following = progress.next_ordinal + documents
        self.marks.append(
            BatchMark(number, progress.next_ordinal, following, (), extent.horizon,
                      extent.marked_time)
        )  # fmt: skip
        self.times.append((time, progress.next_ordinal))
        self.progress = Progress(next_batch=number + 1, next_ordinal=following,
                                 horizon=extent.horizon)  # fmt: skip
        return extent


@pytest.mark.parametrize("seed", range(12))
def test_what_came_in_the_time_that_is_kept_is_remembered_in_at_most_five_windows(seed):
    rng, aging = random.Random(seed), Aging(since=random.Random(seed).choice((0, 7)))
    kept, time, most = rng.choice((1_000, HOUR)), 0, 0
    retention = Retention(time=kept)
    for number in range(400):
        time += rng.choice((0, 1, kept // 50, kept // 7, 2 * kept if rng.random() < 0.02 else 0))
        extent = aging.come(retention, time, rng.choice((0, 1, 5)))
        young = [first for came, first in aging.times[aging.since : -1] if came > time - kept]
        known = [first for _, first in aging.times[aging.since :]]
        wanted = min(young, default=known[-1]) if known else 0
        untimed = aging.windows[0].number == 0
        assert extent.horizon == (0 if untimed else wanted), number
        most = max(most, len(aging.windows))
    assert most in (4, 5)
    assert aging.windows[0].number > 10
    assert aging.looks < 400 * 12, "twenty looks would do for a million batches"


def test_what_was_judged_before_there_was_a_retention_counts_as_come_when_it_was_set():
    aging, retention = Aging(since=5), Retention(time=1_000)
    for number in range(5):
        aging.come(retention, number, 10)
    assert aging.come(retention, 50_000, 10).opens == Window(1, 50, 5)
    for time, horizon in ((50_001, 0), (50_999, 0), (51_000, 60), (51_998, 70), (51_999, 80)):
        assert aging.come(retention, time, 10).horizon == horizon, time
    assert aging.windows[0].number > 0


def test_a_retention_that_is_made_longer_or_endless_brings_nothing_back():
    aging = Aging()
    for time in range(0, 5_000, 100):
        aging.come(Retention(time=1_000), time, 2)
    horizon, windows = aging.progress.horizon, aging.windows
    longer = (Retention(), Retention(), Retention(time=HOUR), Retention(documents=10**9))
    for time, retention in zip((5_000, 9_000, 9_100, 9_200), longer, strict=True):
        extent = aging.come(retention, time, 2)
        assert (extent.horizon, extent.stream_time) == (horizon, time)
    assert aging.windows[: len(windows)] == windows
    assert aging.come(Retention(time=150), 9_300, 2).horizon == aging.progress.next_ordinal - 4
    assert aging.come(Retention(documents=3), 9_300, 2).horizon == aging.progress.next_ordinal - 5


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
    assert Retention().stream_time(1_000, records, 50_000) == time


def test_a_clock_of_before_1970_gives_a_time_all_the_same():
    """The simulator's seed 328: the horizon was not told, and a restore remembered too much."""
    for stamp in (-1, 0, 500, FUTURE_MILLISECONDS_MAX + 1):
        record = Record(Source("t", 0, 0), None, b"", (), stamp)
        assert 0 <= Retention().stream_time(-1, [record], -86_400_000) <= FUTURE_MILLISECONDS_MAX


def test_clocks_and_records_of_1970_and_2500_forget_no_more_than_an_hour_too_much():
    """And while all partitions but one rest, the one that does not says what time it is."""
    now, aging, retention = 1_700_000_000_000, Aging(), Retention(time=24 * HOUR)
    time, horizons = -1, []
    for number, stamp in enumerate(
        (now, 0, 16_725_225_600_000, -1, now + 20 * HOUR, now + 30 * HOUR)
    ):
        record = Record(Source("t", number % 2, number), None, b"", (), stamp)
        time = retention.stream_time(time, [record], max(now, stamp if number > 3 else 0))
        horizons.append(aging.come(retention, time, 1).horizon)
    assert horizons == [0, 0, 0, 0, 0, 4]


@pytest.mark.parametrize("kept", [1_000, HOUR // 2, HOUR])
def test_a_clock_that_is_fast_ages_a_short_retention_by_no_more_than_a_quarter_of_it(kept):
    began, aging, retention, time = 1_700_000_000_000, Aging(), Retention(time=kept), -1
    horizons = []
    for number, (now, stamp) in enumerate(
        ((0, 0), (1, HOUR - 1), (kept // 2, kept // 2), (kept, kept), (kept + 1, kept + 1))
    ):
        record = Record(Source("t", 0, number), None, b"", (), began + stamp)
        time = retention.stream_time(time, [record], began + now)
        horizons.append(aging.come(retention, time, 1).horizon)
    assert horizons == [0, 0, 0, 1, 1], "the fast one's own time is a quarter ahead"


@pytest.mark.parametrize("documents", [0, -1])
def test_to_remember_nothing_is_refused(documents):
    with pytest.raises(ValueError, match=f"{documents} documents are no memory; use 1 or more"):
        Retention(documents=documents)


def test_the_model_itself_is_no_part_of_what_it_judges():
    source = Path("tests/support/model.py").read_text()
    assert "streamfilter.matching" not in source
    assert "streamfilter.index" not in source
