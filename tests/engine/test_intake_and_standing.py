"""Batches are cut within their bounds and nothing is lost or reordered; counters add up."""

import random

import numpy as np
import pytest

from streamfilter.engine.batches.micro_batches import Intake, bytes_of
from streamfilter.engine.task_position import TaskPosition
from streamfilter.index.ages import Ages, ages_of
from streamfilter.index.progress import Progress
from streamfilter.matching.blocking.retention import (
    EVERYTHING,
    FUTURE_MILLISECONDS_MAX,
    UNLIMITED,
    Extent,
)
from streamfilter.model import Record, Source, Span
from tests.engine.scripted import FakeClock
from tests.support.cases import over


class Log:
    """Gives what is in it from its *arrival* on; with *dice* a part of it that they say."""

    ended = False

    def __init__(
        self, clock: FakeClock, *records: Record, arrival: float = 0.0,
        dice: random.Random | None = None, ends: dict[int, int] | None = None,
    ) -> None:  # fmt: skip
        self._clock, self._arrival, self._dice, self._ends = clock, arrival, dice, ends or {}
        self.records, self.asked = list(records), list[int]()

    def consume(self, count: int, timeout: float) -> list[Record]:
        self.asked.append(count)
        before = self._clock.now
        self._clock.sleep(timeout)
        if self._clock.now < self._arrival:
            return []
        if before <= self._arrival and self.records:
            self._clock.now = self._arrival  # it waits no longer
        taken = self._dice.randrange(count + 1) if self._dice else count
        given, self.records = self.records[:taken], self.records[taken:]
        return given

    def reached(self) -> dict[int, int]:
        """Its partitions end with markers."""
        coming = {each.source.partition: each.source.offset for each in reversed(self.records)}
        return self._ends | coming


def records(rng: random.Random, count: int) -> list[Record]:
    offsets = [0, 0, 0]
    made = []
    for _ in range(count):
        partition = rng.randrange(3)
        offsets[partition] += rng.randrange(1, 3)  # compaction and markers leave gaps
        value = bytes(rng.choice([0, 10, 500, 5_000]))
        made.append(Record(Source("t", partition, offsets[partition]), None, value))
    return made


@over(range(20))
def test_every_record_comes_once_in_order_and_batches_keep_their_bounds(seed: int) -> None:
    rng, clock = random.Random(seed), FakeClock()
    sent = records(rng, 200)
    log = Log(clock, *sent, dice=rng)
    intake = Intake(log, clock, documents=17, size=8_000, latency=0.05)
    came: list[Record] = []
    for _ in range(2_000):
        batch = list(intake.next(0.02).records)
        assert len(batch) <= 17
        assert len(batch) <= 1 or sum(map(bytes_of, batch)) <= 8_000
        assert batch == sorted(batch, key=lambda r: (r.source.partition, r.source.offset))
        came += batch
    for partition in range(3):
        mine = [r for r in sent if r.source.partition == partition]
        assert [r for r in came if r.source.partition == partition] == mine
    assert max(log.asked) <= 17


def test_a_single_record_beyond_the_bound_still_comes() -> None:
    clock = FakeClock()
    huge = Record(Source("t", 0, 0), None, bytes(100_000))
    log = Log(clock, huge, huge, dice=random.Random(1))
    intake = Intake(log, clock, documents=10, size=1_024, latency=0.0)
    sizes = [len(intake.next(0.01).records) for _ in range(50)]
    assert sorted(set(sizes)) == [0, 1]
    assert sum(sizes) == 2


def test_headers_weigh_in_a_batch_as_values_do() -> None:
    """A record may be nearly all headers: a megabyte of them beside a value of two bytes."""
    clock = FakeClock()
    headers = tuple((f"h{n}", bytes(1_000)) for n in range(10))
    sent = [Record(Source("t", 0, n), None, b"{}", headers) for n in range(12)]
    log = Log(clock, *sent, dice=random.Random(5))
    intake = Intake(log, clock, documents=100, size=30_000, latency=0.0)
    batches = [batch for _ in range(50) if (batch := intake.next(0.01).records)]
    assert sum(map(len, batches)) == 12
    assert max(map(len, batches)) == 2


def test_a_fuller_batch_is_waited_for_but_no_call_waits_long() -> None:
    clock = FakeClock()
    log = Log(clock, *records(random.Random(3), 5), dice=random.Random(3))
    intake = Intake(log, clock, documents=100, size=1 << 20, latency=5.0)
    begun, first = clock.now, []
    while not first:
        before = clock.now
        first = intake.next(5.0).records
        assert clock.now - before <= 0.11
    assert clock.now - begun >= 4.9
    assert len(first) == 5


def test_what_came_during_a_commit_is_not_kept_waiting_again() -> None:
    clock = FakeClock()
    queue = Log(clock)
    intake = Intake(queue, clock, documents=100, size=1 << 20, latency=0.05)
    assert not intake.next(0.05).records
    queue.records = records(random.Random(4), 3)
    clock.sleep(0.2)  # the commit of a batch
    before = clock.now
    assert len(intake.next(0.05).records) == 3
    assert clock.now - before <= 0.01
    queue.records = records(random.Random(4), 1)
    before = clock.now
    while not intake.next(0.05).records:
        pass
    assert clock.now - before >= 0.03, "the log had no more a moment ago: others may join"


@pytest.mark.parametrize("latency", [0.0, 0.001])
def test_a_latency_of_nothing_takes_what_is_there_and_asks_an_idle_log_rarely(latency):
    clock = FakeClock()
    arrival = clock.now + 10.0
    log = Log(clock, *records(random.Random(6), 5), arrival=arrival)
    intake = Intake(log, clock, documents=100, size=1 << 20, latency=latency)
    while not (batch := intake.next(0.02).records):
        pass
    assert (len(batch), clock.now - arrival) == (5, pytest.approx(0.0, abs=0.002))
    assert len(log.asked) < 10.0 / 0.02 + 10


def test_a_batch_takes_the_markers_behind_it_along_but_no_record_that_waits() -> None:
    clock = FakeClock()
    large = Record(Source("t", 0, 6), None, bytes(5_000))
    log = Log(clock, at(0, 1), at(0, 5), large, at(1, 5), ends={0: 9, 1: 7, 2: 1})
    intake = Intake(log, clock, documents=9, size=600, latency=0.0)
    batches = [taken for _ in range(9) if (taken := intake.next(0.0)).records]
    offsets = [[record.source.offset for record in taken.records] for taken in batches]
    assert offsets == [[1, 5], [6], [5]]
    assert [taken.reached for taken in batches] == [
        {0: 6, 1: 5, 2: 1}, {0: 9, 1: 5, 2: 1}, {0: 9, 1: 7, 2: 1}
    ]  # fmt: skip


def at(partition: int, offset: int, timestamp: int = -1) -> Record:
    return Record(Source("t", partition, offset), None, b"", timestamp=timestamp)


def position_at(positions, known, batch: int, ordinal: int, time: int, writer=b"") -> TaskPosition:
    progress = Progress(
        positions=known, next_batch=batch, next_ordinal=ordinal, highest_timestamp=time
    )
    return TaskPosition(positions, progress, writer)


def test_a_new_batch_moves_positions_numbers_and_the_clock_and_spans_every_partition() -> None:
    position = position_at({0: 5, 1: 7}, {0: 5, 1: 7}, 3, 40, 100)
    now = 1_000_000
    mad = at(0, 9, now + 10 * FUTURE_MILLISECONDS_MAX)
    records = [at(0, 5, 90), mad]
    times = UNLIMITED.stream_times(position.progress.highest_timestamp, records, now)
    extent = Extent(stream_time=int(times[-1]), ages=False)
    after, batch = position.after(records, 2, extent, reread=False)
    assert batch is not None
    assert (batch.mark.horizon, batch.mark.stream_time) == (0, -1)
    assert after == position_at({0: 10, 1: 7}, {0: 10, 1: 7}, 4, 42, now + FUTURE_MILLISECONDS_MAX)
    assert batch.mark.spans == (Span(0, 5, 10), Span(1, 7, 7))
    assert (batch.mark.number, batch.mark.first_ordinal, batch.mark.next_ordinal) == (3, 40, 42)
    assert batch.positions == after.positions


def test_a_re_read_batch_moves_nothing_but_the_positions() -> None:
    position = position_at({0: 2, 1: 7}, {0: 9, 1: 7}, 3, 40, 100)
    after, batch = position.after([at(0, 2, 10**15)], 1, EVERYTHING, reread=True)
    assert batch is None
    assert after == position_at({0: 3, 1: 7}, {0: 9, 1: 7}, 3, 40, 100)


def test_a_batch_says_what_it_was_judged_with_and_an_idle_one_that_nothing_has_aged() -> None:
    position = position_at({0: 5}, {0: 5}, 3, 40, 100, b"w" * 16)
    after, batch = position.after([at(0, 5)], 1, Extent(17, None, 900), reread=False)
    assert batch is not None
    progress = after.progress
    assert (batch.mark.horizon, batch.mark.stream_time, progress.highest_timestamp) == (
        17,
        900,
        900,
    )
    ages = Ages(*np.array([[0], [6], [15], [890]]))
    _, batch = after.after([at(0, 6)], 1, Extent(17, None, 900), reread=False, ages=ages)
    assert batch is not None
    age = ages_of(batch.mark)
    assert age is not None
    assert (age.offsets.tolist(), age.horizons.tolist(), age.times.tolist()) == ([6], [15], [890])
    after, batch = after.passed({0: 9}, Extent(17, None, 900))
    assert batch is not None
    progress = after.progress
    assert (batch.mark.horizon, batch.mark.stream_time, progress.highest_timestamp) == (
        17,
        900,
        900,
    )
