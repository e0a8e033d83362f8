"""A process that is not live says why, once, and ends if that lasts; a live one is left alone."""

import logging
import threading
from functools import partial

import pytest

from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.web.pages import Pages
from streamfilter.process.health import Cause, Health, State
from streamfilter.process.watchdog import Watchdog


class World:
    """A watchdog on a clock of ours."""

    def __init__(self, *, exit_after: float = 60) -> None:
        self.now, self.left, self.stopping = 1_000.0, 0, False
        self.codes: list[int] = []
        self.health = Health(bound_seconds=30, clock=lambda: self.now)
        self.metrics = Metrics(self.health)
        self.watchdog = Watchdog(
            self.health,
            exit_after=exit_after,
            stalled=partial(self.metrics.count, "stalls_total"),
            stopping=lambda: self.stopping,
            leave=self._leave,
            clock=lambda: self.now,
        )

    def _leave(self, code: int) -> None:
        self.left += 1
        self.codes.append(code)

    def wait(self, seconds: int, *, beating: bool = False) -> None:
        for _ in range(seconds):
            self.now += 1
            if beating:
                self.health.beat()
            self.watchdog.look()

    def livez(self) -> tuple[int, str]:
        code, _, body = Pages(self.health, self.metrics).answer("/livez")
        return code, body.decode()


@pytest.fixture
def world() -> World:
    return World()


def test_a_loop_that_turns_is_left_alone_whatever_it_waits_for(world: World) -> None:
    world.health.enter(State.STARTING, "no broker answered")
    world.wait(10_000, beating=True)
    assert (world.left, world.livez()[0]) == (0, 200)


def test_a_loop_that_does_not_turn_fails_livez_first_and_ends_later(world, caplog):
    with caplog.at_level(logging.ERROR):
        world.wait(31)
    code, body = world.livez()
    assert code == 503
    assert "the loop has not turned for 31 s" in body
    assert world.left == 0
    assert world.metrics.value("stalls_total", Cause.LOOP) == 1
    world.wait(58)
    assert world.left == 0
    world.wait(2)
    assert world.left == 1
    dumps = [each for each in caplog.messages if "all threads" in each]
    assert len(dumps) == 1
    assert "test_a_loop_that_does_not_turn_fails_livez_first_and_ends_later" in dumps[0]


def test_a_loop_that_turns_again_in_time_is_forgiven(world: World) -> None:
    world.wait(60)
    world.health.beat()
    world.wait(1_000, beating=True)
    assert (world.left, world.livez()[0]) == (0, 200)
    world.wait(31)
    assert world.metrics.value("stalls_total", Cause.LOOP) == 2


def test_a_process_that_was_stopped_for_a_minute_is_not_stuck(world, caplog):
    """A paused container said that its loop is stuck, with the stacks of all threads."""
    world.wait(5, beating=True)
    world.now += 60
    world.wait(1)
    world.wait(5, beating=True)
    assert caplog.messages == []
    assert world.metrics.value("stalls_total", Cause.LOOP) == 0
    world.now += 60
    world.wait(2)  # it does not turn after it was woken
    assert world.metrics.value("stalls_total", Cause.LOOP) == 1


def test_a_task_that_moves_nothing_is_not_live_though_its_loop_turns(world: World) -> None:
    world.health.stall("nothing was committed for 300 s")
    world.wait(5, beating=True)
    code, body = world.livez()
    assert code == 503
    assert "nothing was committed for 300 s" in body
    assert world.metrics.value("stalls_total", Cause.PROGRESS) == 1
    world.health.stall("")
    world.wait(100, beating=True)
    assert (world.left, world.livez()[0]) == (0, 200)


def test_with_0_it_complains_and_stays() -> None:
    world = World(exit_after=0)
    world.wait(10_000)
    assert (world.left, world.livez()[0]) == (0, 503)


def test_the_dump_names_every_thread_and_no_value(caplog: pytest.LogCaptureFixture) -> None:
    release, inside = threading.Event(), threading.Event()

    def hang(secret: str) -> None:
        inside.set()
        release.wait()

    thread = threading.Thread(target=hang, args=("hunter2",), name="the-stuck-one")
    thread.start()
    inside.wait()
    try:
        with caplog.at_level(logging.ERROR):
            World().wait(31)
    finally:
        release.set()
        thread.join()
    dump = next(each for each in caplog.messages if "all threads" in each)
    assert "thread the-stuck-one:" in dump
    assert "release.wait()" in dump
    assert "hunter2" not in dump


def test_who_does_not_come_to_an_end_is_ended_20_s_after_it_was_told_to(world, caplog):
    world.wait(100, beating=True)
    world.stopping = True
    world.wait(18, beating=True)
    assert world.codes == []
    with caplog.at_level(logging.CRITICAL):
        world.wait(1, beating=True)
    assert world.codes == [75]
    assert "asked to stop 18 s ago, and a call does not return" in caplog.text
    assert "test_who_does_not_come_to_an_end" in caplog.text


def test_that_holds_for_one_that_may_stay_stuck_for_ever_too() -> None:
    world = World(exit_after=0)
    world.stopping = True
    world.wait(19, beating=True)
    assert world.codes == [75]
