"""A task accuses itself only of what another consumer disproves."""

import pytest

from streamfilter.engine.ports import Abortable, Retriable
from streamfilter.process.health import Cause
from streamfilter.tasks.task import LOOKS
from tests.engine.world import World


def stuck(world: World) -> bool:
    return world.health.liveness.cause is Cause.PROGRESS


@pytest.fixture
def world() -> World:
    """A service that has moved some records and from then on gets none, though there are more."""
    world = World()
    world.until(10)
    world.log.consume = lambda count, timeout: world.clock.sleep(timeout) or []  # type: ignore
    return world


def turn_for(world: World, seconds: float) -> None:
    end = world.clock.now + seconds
    while world.clock.now < end:
        world.turn()
        world.clock.sleep(1.0)  # between two turns, to take fewer of them


def test_a_consumer_that_silently_gets_nothing_is_noticed(world: World) -> None:
    turn_for(world, 280)
    assert not stuck(world)
    turn_for(world, 60)
    assert stuck(world)
    assert "another consumer reads records from the positions {'in/0': " in (
        world.health.liveness.reason
    )


def test_a_task_that_moves_again_is_live_again(world: World) -> None:
    turn_for(world, 400)
    del world.log.consume  # type: ignore[attr-defined]
    world.until(40)
    world.turn(2)
    assert not stuck(world)


@pytest.mark.slow
def test_an_input_that_is_read_to_its_end_is_no_reason(world: World) -> None:
    world.log.input = world.log.input[: world.log.offsets[0]]
    turn_for(world, 4_000)
    assert not stuck(world)


@pytest.mark.slow
def test_a_broker_that_answers_nothing_is_waited_for(world: World) -> None:
    world.log.errors["unread"].extend(Retriable("timed out") for _ in range(1_000))
    turn_for(world, 4_000)
    assert not stuck(world)
    assert world.log.calls.count("unread") > LOOKS


def test_a_pause_of_the_whole_process_is_not_held_against_it(world: World) -> None:
    turn_for(world, 150)
    world.clock.sleep(100_000)
    world.turn()
    assert not stuck(world)


@pytest.mark.slow
def test_transactions_that_fail_for_ever_are_noticed_too() -> None:
    world = World()
    world.until(10)
    world.log.errors["flush"].extend(Abortable("not delivered") for _ in range(100_000))
    turn_for(world, 400)
    assert stuck(world)


def test_an_idle_task_asks_rarely(world: World) -> None:
    world.log.input = world.log.input[: world.log.offsets[0]]
    before = world.log.calls.count("unread")
    turn_for(world, 3_000)
    assert world.log.calls.count("unread") - before <= 3_000 / (300 / LOOKS) + 1
