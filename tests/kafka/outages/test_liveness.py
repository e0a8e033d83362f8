"""Who hangs is found out, says where, and ends; who waits for a broker is left alone."""

import random
import time
from collections.abc import Iterator

import pytest

from deploy.local.real import RealKafka
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import START_TIMEOUT_SECONDS, FilterProcess
from tests.support.machine.faulty import FaultyProcess
from tests.support.stage import Stage

SEED = 20_261_130
SHORT = {
    "kafka": {"transaction_timeout": "2s", "session_timeout": "2s"},
    "http": {"stalled_after": "5s", "stuck_after": "5s", "exit_after": "10s"},
}


def test_a_hang_that_silences_every_thread_of_ours_still_ends_the_process(stage: Stage) -> None:
    process = FaultyProcess(stage, **SHORT)
    assert process.wait_for_exit() == 1
    assert "membership.py" in process.log.read_text()


SETTINGS = {
    "kafka": {"transaction_timeout": "2s"},
    "http": {"stalled_after": "12s", "stuck_after": "5s", "exit_after": "1s"},
    "batch": {"documents": 20},
}


@pytest.fixture
def own(kafka: RealKafka) -> Iterator[RealKafka]:
    """A broker that only this test pauses."""
    with RealKafka() as own:
        yield own


def owner_of(pair: list[FilterProcess]) -> FilterProcess:
    """Return who has the task; what both say if no one gets it."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not (owners := [p for p in pair if p.status().get("state") == "running"]):
        assert time.monotonic() < deadline, [p.told(f"no owner: {p.status()}") for p in pair]
        time.sleep(0.05)
    return owners[0]


def test_a_broker_that_answers_nothing_is_waited_for_and_nobody_is_killed(tmp_path, own, forge):
    stage = Stage(own.bootstrap, tmp_path, launch=forge.launch)
    try:
        pair = [stage.start(state=name, **SETTINGS) for name in ("one", "another")]
        stage.produce(records(texts(random.Random(SEED + 1), 1_500)))
        pair[0].wait_for(
            lambda _: any(sum(p.status().get("positions", {}).values()) for p in pair),
            what="some progress",
        )
        own.nodes[0].pause()
        seen = []
        until = time.monotonic() + 16
        while time.monotonic() < until:
            seen += [process.status().get("live") for process in pair]
            time.sleep(0.5)
        own.nodes[0].resume()
        codes = [process.child.exit_code for process in pair]
        assert (set(seen) - {None}, codes) == ({True}, [None, None]), [
            p.told("was not live while no broker was") for p in pair
        ]
        try:
            stage.drain(owner_of(pair))
        except AssertionError:
            if not any(process.stranded() for process in pair):
                raise
            # As a supervisor does: one of them may have been the only one that had the task.
            pair.append(stage.start(state="third", **SETTINGS))
            stage.drain(owner_of(pair))
        assert all(process.stranded() or process.terminate() == 0 for process in pair)
        assert len(verdicts(stage)) == 1_500
    finally:
        stage.close()
