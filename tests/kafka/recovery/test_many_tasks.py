"""What the tasks of one process share: bounds of memory, and the loop's heartbeat."""

import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from streamfilter.config.configuration import Config
from streamfilter.engine.observer import Observer
from streamfilter.engine.parts import StepResult
from streamfilter.engine.ports import Moves
from streamfilter.kafka.connection.clients import TASK_QUEUE_KBYTES_MIN, data_properties
from streamfilter.kafka.ports.sink import INIT_SECONDS
from streamfilter.kafka.task_factory import TASK_BATCH_MIN, _bounds
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.health import Health, State
from streamfilter.tasks.service import TURN_SECONDS, Service
from streamfilter.tasks.standby import Standbys
from tests.engine.scripted import FakeClock, FakeMembership

QUEUE = "queued.max.messages.kbytes"


def test_fetch_queues_and_batches_are_shared_by_the_tasks() -> None:
    """Sixteen partitions took sixteen times the memory, outside of all bounds."""
    config = Config()
    alone = data_properties(config)[QUEUE]
    for tasks in (1, 4, 16, 1_000):
        queue = data_properties(config, share=tasks)[QUEUE]
        size = _bounds(config, tasks).size
        assert queue == max(TASK_QUEUE_KBYTES_MIN, alone // tasks)
        assert size == max(TASK_BATCH_MIN, config.batch.bytes // tasks)


class Tasks:
    """A service of tasks that do nothing, slowly."""

    def __init__(self, count: int, *, seconds: float) -> None:
        self.clock = FakeClock()
        self.health = Health(clock=self.clock.monotonic, bound_seconds=60)
        self.membership = FakeMembership(self.clock)
        self.membership.moves.append(Moves(gained=frozenset(range(count))))
        self.seconds = seconds
        self.live: list[bool] = []
        self.advanced: list[int] = []
        self.closed: list[int] = []
        observer = Observer(Metrics(self.health), self.health, self.clock)
        self.service = Service(
            self.membership,
            self._task,  # type: ignore[arg-type]
            observer,
            self.clock,
            latency=0.02,
            tasks=count,
        )

    def _task(self, number: int, index: object) -> SimpleNamespace:
        def advance(timeout: float) -> StepResult:
            self.clock.sleep(self.seconds)
            self.live.append(self.health.liveness.alive)
            self.advanced.append(number)
            return StepResult.RETRY

        return SimpleNamespace(
            label=f"group.{number}",
            partitions=(number,),
            advance=advance,
            doing=(State.STARTING, ""),
            close=lambda: self.closed.append(number),
        )


def test_tasks_that_start_slowly_one_after_another_are_no_stuck_loop() -> None:
    """Each call may wait for a coordinator, in the worst case for seconds."""
    tasks = Tasks(16, seconds=10)
    tasks.service.turn()
    assert len(tasks.live) == 16
    assert all(tasks.live)


def test_the_group_is_served_while_many_tasks_start_slowly() -> None:
    """It was polled once a turn: 31 tasks of 10 s lost their place by `max.poll.interval.ms`."""
    tasks = Tasks(32, seconds=INIT_SECONDS)
    tasks.service.turn()
    assert tasks.advanced == list(range(32))
    polled = [*tasks.membership.polled, tasks.clock.now]
    silences = [after - before for before, after in pairwise(polled)]
    assert max(silences) <= TURN_SECONDS + INIT_SECONDS


def test_quick_tasks_cost_one_poll_a_turn() -> None:
    tasks = Tasks(8, seconds=0)
    tasks.service.turn()
    assert len(tasks.membership.polled) == 1


STANDBY, FULL = (State.STANDBY, ""), (State.PAUSED_DISK, "the disk is full")
WAITS = State.STANDBY, "the changelog is empty still"


@pytest.mark.parametrize(
    ("each", "shown"),
    [
        ([STANDBY, WAITS, (State.STANDBY, "no broker answers")], WAITS),
        ([WAITS, FULL, STANDBY], FULL),
        ([FULL, WAITS], FULL),
    ],
)
def test_the_standby_with_the_worst_state_is_shown(each, shown) -> None:
    def standby(number: int) -> Any:
        state, detail = each[number]
        return SimpleNamespace(state=state, detail=detail, busy=False, advance=lambda: None)

    standbys = Standbys(range(len(each)), standby)
    assert [standbys.advance() for _ in each] == [False] * len(each)
    assert standbys.doing == shown


def test_a_task_that_goes_while_others_start_is_not_begun() -> None:
    tasks = Tasks(8, seconds=INIT_SECONDS)
    tasks.membership.moves.append(Moves(gone=frozenset({0, 5, 6})))
    tasks.service.turn()
    assert tasks.closed == [0, 5, 6]
    assert tasks.advanced == [0, 1, 2, 3, 4, 7]  # the first had had its turn before


def test_quick_turns_ask_the_group_once() -> None:
    tasks = Tasks(16, seconds=0.001)
    tasks.service.turn()
    assert len(tasks.membership.polled) == 1


@pytest.mark.slow
def test_a_start_counts_what_its_tasks_open_and_check_says_it(embedded_stage):
    stage = embedded_stage(partitions=3)
    process = stage.start(index={"scope": "partition"}, prefix=["prlimit", "--nofile=200:200"])
    assert process.wait_for_exit() == 78, process.with_log("was not refused")
    said = "may open 200 files; expected at least 264 for 3 tasks (brokers: 1)"
    assert said in process.log.read_text()
    config = stage.configuration(index={"scope": "partition"})
    check = [sys.executable, "-m", "streamfilter", "check", "--connect", "--config", str(config)]
    done = subprocess.run(
        ["prlimit", "--nofile=200:200", *check], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout
    assert said in done.stdout
    assert "ulimit -n 264" in done.stdout
    process = stage.start(index={"scope": "partition"}, prefix=["prlimit", "--nofile=200:300"])
    process.wait_for_state("running")
    assert "the limit of open files is raised from 200 to 264" in process.log.read_text()
    assert process.terminate() == 0
