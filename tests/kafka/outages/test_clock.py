"""Row 32: the filter's host has a wrong clock, and it jumps. Outputs are as of an undisturbed run.

Only the filter's clock is wrong; the broker's and the records' timestamps are right.
"""

import random
from collections.abc import Callable, Mapping, Sequence

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from streamfilter.stops import ExitCode
from tests.kafka.story import bytes_of, records, texts
from tests.support.filter_process import FilterProcess
from tests.support.machine.shifted_clock import ShiftedClock
from tests.support.stage import Stage
from tests.support.topics import Input, alter_topic

SEED = 20_261_127
HOUR = 3_600
DAY = 24 * HOUR
BATCH = 10
SETTINGS = {
    "batch": {"documents": BATCH, "latency": "10s"},  # full batches: every run cuts them alike
    "kafka": {"session_timeout": "6s"},
}


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> ShiftedClock:
    return ShiftedClock(tmp_path_factory.mktemp("clock"))


def start(stage: Stage, clock: ShiftedClock, **environment: str) -> FilterProcess:
    return stage.start(environment={**clock.environment, **environment}, **SETTINGS)


def feed(stage: Stage, process: FilterProcess, chunk: Sequence[Input]) -> None:
    stage.produce(chunk)
    stage.drain(process)


def stop(process: FilterProcess) -> None:
    """End *process*, which must have been live to its end."""
    assert process.status()["live"] is True
    assert process.terminate() == 0, process.with_log("did not end well")


def undisturbed(make_stage: Callable[..., Stage], story: Sequence[Input]) -> object:
    stage = make_stage()
    process = stage.start(**SETTINGS)
    feed(stage, process, story)
    assert process.terminate() == 0
    return bytes_of(stage)


def changelog_settings(stage: Stage) -> Mapping[str, str]:
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    wanted = ConfigResource(ConfigResource.Type.TOPIC, stage.changelog)
    entries = admin.describe_configs([wanted])[wanted].result(20)
    return {name: entry.value for name, entry in entries.items()}


def test_a_wrong_clock_that_jumps_changes_nothing_and_one_that_a_broker_refuses_no_verdict(
    stage: Stage, make_stage: Callable[..., Stage], clock: ShiftedClock
) -> None:
    """Refused: exit 70 at every start, and before it good records were taken for refused ones."""
    story = records(texts(random.Random(SEED), 8 * BATCH))
    clock.shift(DAY)
    feed(stage, process := start(stage, clock), story[: 2 * BATCH])
    assert changelog_settings(stage)["message.timestamp.type"] == "LogAppendTime"
    clock.shift(-DAY)
    feed(stage, process, story[2 * BATCH : 4 * BATCH])
    stop(process)
    # As an older version made it.
    alter_topic(stage.bootstrap, stage.changelog, {"message.timestamp.type": "CreateTime"})
    feed(stage, process := start(stage, clock), story[4 * BATCH : 6 * BATCH])  # a day behind
    clock.shift(2 * HOUR)
    stage.produce(story[6 * BATCH :])
    assert process.wait_for_exit() == ExitCode.TEMPORARY, process.with_log("went on")
    said = process.log.read_text()
    assert "the changelog refuses the present time of this host: INVALID_TIMESTAMP" in said
    assert "mend this host's clock" in said
    clock.shift(0)
    stage.drain(process := start(stage, clock))
    stop(process)
    assert stage.outputs()["dead_letter"] == []
    assert bytes_of(stage) == undisturbed(make_stage, story)
