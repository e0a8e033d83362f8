"""What the tasks of one process share: bounds of memory, and the loop's heartbeat."""

from types import SimpleNamespace

from streamfilter.config.configuration import Config
from streamfilter.engine.observer import Observer
from streamfilter.engine.outgoing import Destinations
from streamfilter.engine.ports import Moves
from streamfilter.engine.service import Service
from streamfilter.engine.transactor import Step
from streamfilter.kafka.assembling import TASK_BATCH_MIN, _bounds
from streamfilter.kafka.clients import TASK_QUEUE_KBYTES_MIN, data_properties
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.health import Health, State
from tests.kafka.scripted import FakeClock, FakeMembership

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


def test_tasks_that_start_slowly_one_after_another_are_no_stuck_loop() -> None:
    """Each waits up to `kafka.transaction_timeout` for its coordinator."""
    clock = FakeClock()
    health = Health(clock=clock.monotonic, bound_seconds=60)
    live = []

    def task(number: int, index: object) -> SimpleNamespace:
        def advance(timeout: float) -> Step:
            clock.sleep(10)
            live.append(health.liveness.alive)
            return Step.RETRY

        plan = SimpleNamespace(number=number, partitions=(number,), label=f"group.{number}")
        return SimpleNamespace(
            plan=plan, advance=advance, state=State.STARTING, detail="", close=lambda: None
        )

    membership = FakeMembership(clock)
    membership.moves.append(Moves(gained=frozenset(range(16))))
    to = Destinations("unique", None, None, 16, {"unique": 16}, {"unique": 1_000_000})
    observer = Observer(Metrics(health), health, clock, to)
    service = Service(membership, task, observer, clock, latency=0.02)  # type: ignore[arg-type]
    service.turn()
    assert len(live) == 16
    assert all(live)
