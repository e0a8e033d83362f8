"""The positions keep abreast of a log whose end is markers, and the lag counts what was taken."""

import pytest

from streamfilter.engine.ports import Abortable
from streamfilter.engine.transactor import IDLE_COMMIT_SECONDS, PASS_SECONDS
from tests.engine.world import GAINED, World


def rest(world: World, seconds: float) -> None:
    end = world.clock.now + seconds
    while world.clock.now < end:
        world.turn()
        world.clock.sleep(1.0)


def lag(world: World) -> int:
    world.clock.sleep(2.0)  # it is looked at once a second
    world.turn()
    return sum(world.health.status.lag.values())


@pytest.mark.slow
def test_an_input_that_rests_is_passed_to_its_end_and_the_changelog_says_so() -> None:
    world = World()
    world.until(40)
    world.log.markers = 2
    told = len(world.log.changelog)
    rest(world, PASS_SECONDS + 3)
    assert world.log.offsets == {0: 42}
    assert world.store.index.progress.positions == {0: 42}
    assert len(world.log.changelog) == told + 1
    world.log.calls.clear()
    rest(world, 100)
    assert "begin" not in world.log.calls, "once is enough"
    rest(world, IDLE_COMMIT_SECONDS)
    assert len(world.log.changelog) == told + 1


def test_markers_that_were_judged_behind_once_are_passed_again_after_a_rewind() -> None:
    world = World()
    world.until(40)
    world.log.markers = 2
    rest(world, PASS_SECONDS + 3)
    told = len(world.log.changelog)
    world.log.offsets = {0: 30}
    world.membership.moves.append(GAINED)
    world.until(40)
    rest(world, PASS_SECONDS + 3)
    assert world.log.offsets == {0: 42}
    assert len(world.log.changelog) == told


def test_an_aborted_move_past_markers_is_tried_again() -> None:
    world = World()
    world.until(40)
    world.log.markers = 1
    world.log.errors["send_offsets"].append(Abortable("rebalanced"))
    rest(world, PASS_SECONDS + 3)
    assert world.log.offsets == {0: 41}
    assert world.store.index.progress.positions == {0: 41}


def test_what_was_taken_and_is_not_committed_counts_as_lag() -> None:
    """It was 0 with 6,548 records under way, and the alert on a standstill was silent."""
    world = World(batch=40)
    world.until(0)
    world.log.errors["send_offsets"].extend(Abortable("not now") for _ in range(50))
    world.turn(5)
    assert lag(world) == 40
    world.log.errors.clear()
    world.until(40)
    assert lag(world) == 0


def test_markers_are_no_lag() -> None:
    world = World()
    world.until(40)
    world.log.markers = 1
    world.turn()
    assert lag(world) == 0
