"""Transactions that fail come more rarely; those that outlive their time become smaller."""

import pytest

from streamfilter.engine.batches.pace import REST_SECONDS_MAX, SHARE_MIN, Pace
from streamfilter.engine.ports import Abortable, OutcomeUnknown, ProducerFenced
from streamfilter.tasks.service import REPLACEMENTS_MAX
from tests.engine.scripted import FakeClock
from tests.engine.world import World, assert_as_undisturbed

LINE_RECORDS = 3
"""So many input records pass in a transaction's time."""


def for_a_minute(world: World) -> tuple[int, int]:
    """Return how many transactions were begun, and how often the group was polled."""
    begun, polls, end = world.log.calls.count("begin"), 0, world.clock.now + 60
    while world.clock.now < end:
        world.turn()
        polls += 1
    return world.log.calls.count("begin") - begun, polls


@pytest.mark.parametrize("error", [Abortable("no"), Abortable("still no")])
def test_aborts_in_a_row_come_ever_more_rarely_and_the_group_is_polled_meanwhile(error):
    world = World()
    world.until(10)
    world.log.errors["send_offsets"].extend([error] * 10_000)
    begun, polls = for_a_minute(world)
    assert 60 / REST_SECONDS_MAX <= begun <= 60 / REST_SECONDS_MAX + 10  # it was 600
    assert polls > 500
    assert "transactions in a row have failed" in world.health.status.detail
    world.log.errors["send_offsets"].clear()
    assert_as_undisturbed(world)


@pytest.mark.parametrize("answer", [Abortable, ProducerFenced, OutcomeUnknown])
def test_what_does_not_pass_in_time_is_tried_again_with_less_and_nobody_is_blamed(answer):
    world = World()
    real, tried = world.log.flush, list[int]()

    def flush() -> int:
        assert world.log._open is not None
        tried.append(len(world.log._open[0]))
        if tried[-1] > LINE_RECORDS:
            world.clock.sleep(10.0)
            raise answer("too late")
        return real()

    world.log.flush = flush  # type: ignore[method-assign]
    world.until(40)
    assert tried.count(10) == 1 or tried[:3].count(10) == 1
    assert sum(count > LINE_RECORDS for count in tried) > REPLACEMENTS_MAX
    assert_as_undisturbed(world, changelog=False)


def test_a_record_that_no_transaction_delivers_is_named(caplog: pytest.LogCaptureFixture) -> None:
    world = World(batch=1)
    world.until(3)

    def flush() -> int:
        world.clock.sleep(10.0)
        raise Abortable("too late")

    real, world.log.flush = world.log.flush, flush  # type: ignore[method-assign]
    world.turn(3)
    named = "is too slow for it; raise kafka.transaction_timeout"
    (said, *_) = [each for each in caplog.messages if named in each]
    size = len(world.log.input[3].value or b"")
    assert f"in/0 at 3 has {size} bytes, and was not delivered in 10 s" in said
    world.log.flush = real  # type: ignore[method-assign]
    assert_as_undisturbed(world, changelog=False)


def test_a_fixed_batch_is_tried_again_as_it_is_and_the_cure_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(fixed=True)
    world.until(10)
    real, tried = world.log.flush, list[int]()

    def flush() -> int:
        assert world.log._open is not None
        tried.append(len(world.log._open[0]))
        if len(tried) < 4:
            world.clock.sleep(10.0)
            raise Abortable("too late")
        world.clock.sleep(9.0)
        return real()

    world.log.flush = flush  # type: ignore[method-assign]
    assert_as_undisturbed(world)
    assert set(tried[:4]) == {10}
    said = "a batch of 10 records was not delivered in 10 s, and is tried again as it is"
    assert sum(said in each for each in caplog.messages) == 3


def test_the_size_shrinks_faster_the_more_fail_in_a_row_and_grows_back_slowly() -> None:
    pace = Pace(FakeClock(), 10.0)
    sizes = []
    for _ in range(3):
        pace.failed(lambda: pace.share, 10.0)
        sizes.append(pace.share)
    assert sizes == [1 / 2, 1 / 8, 1 / 64]
    pace.committed(lambda: 1 / 64, 1.0)
    assert pace.share == 1.25 / 64
    for _ in range(20):
        pace.committed(lambda: pace.share, 1.0)
    assert pace.share == 1.0


def test_what_nearly_takes_too_long_is_made_smaller_before_it_fails() -> None:
    pace = Pace(FakeClock(), 10.0)
    pace.committed(lambda: 0.4, 6.0)
    assert pace.share == 0.2


def test_what_fails_at_once_says_nothing_of_the_size() -> None:
    pace = Pace(FakeClock(), 10.0)
    pace.failed(lambda: 1.0, 0.1)
    assert pace.share == 1.0


def test_a_slow_transaction_without_records_teaches_no_size() -> None:
    pace = Pace(FakeClock(), 10.0)
    pace.committed(None, 6.0)
    pace.failed(None, 9.5)
    assert pace.share == 1.0


def test_hours_of_failures_end_in_no_error_and_are_forgotten_in_some_fifty_transactions() -> None:
    pace = Pace(FakeClock(), 10.0)
    for _ in range(2_000):
        pace.failed(lambda: 0.001, 9.5)
    assert pace.share == SHARE_MIN
    for _ in range(50):
        pace.committed(lambda: 1.0, 0.1)
    assert pace.share == 1.0
