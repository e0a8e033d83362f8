"""The next batch is taken and prepared early, and no one can tell but by the time."""

import threading
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from streamfilter.engine.batches.micro_batches import Ahead, Intake
from streamfilter.engine.clock_and_worker import Inline, ThreadWorker
from streamfilter.engine.ports import InputLost
from streamfilter.matching.batch import Prepared
from streamfilter.matching.pipeline import Batch
from streamfilter.model import Record, Source
from tests.engine.scripted import FakeClock
from tests.engine.world import World, assert_as_undisturbed

NONE = np.empty(0, np.int64)


class Given:
    """A log that has what it was given, or raises it."""

    ended = False

    def __init__(self, *given: Sequence[Record] | Exception) -> None:
        self._given = deque(given)
        self.calls = 0

    def consume(self, count: int, timeout: float) -> list[Record]:
        self.calls += 1
        found = self._given.popleft() if self._given else []
        if isinstance(found, Exception):
            raise found
        assert len(found) <= count
        return list(found)

    def reached(self) -> dict[int, int]:
        return {}


class Eager:
    """A worker that is always done at once."""

    def begin(self, call: Callable[[], object]) -> Callable[[], object]:
        result = call()
        return lambda: result


def some(start: int, count: int) -> list[Record]:
    return [Record(Source("in", 0, start + n), None, b"x") for n in range(count)]


class Counted:
    """Prepares, and remembers what."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def __call__(self, records: Sequence[Record]) -> Prepared:
        self.asked.append([record.source.offset for record in records])
        return Prepared(records, {}, (), Batch([], NONE, NONE, NONE), None)


def ahead(log: Given, prepare: Counted, worker: object = None) -> Ahead:
    intake = Intake(log, FakeClock(), documents=3, size=10_000, latency=0.0)
    return Ahead(intake, worker or Eager(), prepare)


def test_a_full_batch_is_prepared_before_it_is_asked_for_and_only_once() -> None:
    prepare = Counted()
    batches = ahead(Given(some(0, 3), some(3, 3)), prepare)
    first = batches.next(0.0).records
    assert batches.prepared(first).records == first
    batches.look()
    batches.look()
    assert prepare.asked == [[0, 1, 2], [3, 4, 5]]
    second = batches.next(0.0).records
    for _ in range(2):  # an aborted transaction asks again
        assert batches.prepared(second).records == second
    assert prepare.asked == [[0, 1, 2], [3, 4, 5]]


def test_a_batch_that_is_not_full_yet_is_left_to_fill() -> None:
    prepare = Counted()
    batches = ahead(Given(some(0, 3), some(3, 2), some(5, 1)), prepare)
    batches.next(0.0)
    batches.look()
    assert prepare.asked == []
    assert [record.source.offset for record in batches.next(0.0).records] == [3, 4, 5]


def test_the_two_parts_of_a_half_read_batch_are_not_confused() -> None:
    """A rewound group's last batch: two records are re-read, two are new."""
    prepare = Counted()
    batches = ahead(Given(some(0, 3), some(3, 3)), prepare)
    batches.next(0.0)
    batches.look()
    held = batches.next(0.0).records
    for part in (held[:1], held[1:2], held[2:]):
        assert batches.prepared(part).records == part


def test_after_a_batch_that_ended_early_the_next_one_is_full() -> None:
    prepare = Counted()
    batches = ahead(Given(some(0, 3), some(3, 3), some(6, 1)), prepare)
    first = batches.next(0.0).records
    batches.look()
    batches.put_back(first[1:])
    batches.look()
    for expected in ([1, 2, 3], [4, 5, 6]):
        assert [record.source.offset for record in batches.next(0.0).records] == expected
    assert prepare.asked == [[3, 4, 5], [1, 2, 3]]


def test_trouble_met_while_looking_waits_until_the_batch_is_committed() -> None:
    batches = ahead(Given(some(0, 3), InputLost("gone"), some(3, 3)), Counted())
    batches.next(0.0)
    batches.look()
    batches.look()
    with pytest.raises(InputLost, match="gone"):
        batches.next(0.0)
    assert [record.source.offset for record in batches.next(0.0).records] == [3, 4, 5]


class Broken(BaseException):
    """What no handler may swallow."""


@pytest.mark.parametrize("kind", [Inline, ThreadWorker])
def test_what_a_worker_raises_is_raised_where_it_is_asked_for(kind: type) -> None:
    worker = kind()

    def call() -> None:
        raise Broken

    asked = worker.begin(call)
    with pytest.raises(Broken):
        asked()


def test_the_thread_does_one_thing_after_the_other_and_ends() -> None:
    worker, done = ThreadWorker(), list[tuple[int, threading.Thread]]()

    def work(number: int) -> int:
        done.append((number, threading.current_thread()))
        return number

    asked = [worker.begin(lambda n=n: work(n)) for n in range(50)]
    assert [each() for each in asked] == list(range(50))
    worker.close()
    assert [number for number, _ in done] == list(range(50))
    (thread,) = {thread for _, thread in done}
    assert thread is not threading.current_thread()
    assert not thread.is_alive()  # others of its name may be: of other tests in this process


@pytest.mark.parametrize("worker", [Inline, Eager, ThreadWorker])
def test_the_outcome_is_the_same_whatever_prepares(worker: type) -> None:
    world = World(worker=worker())
    assert_as_undisturbed(world)
