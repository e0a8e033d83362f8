"""An input that is deleted and made again while no one runs, longer than our position.

Nothing but the topic's id tells it from the old one; the group remembers it.
"""

import random
import time

import pytest
from confluent_kafka.admin import AdminClient

from tests.kafka.story import record, records, texts, verdicts, wipe
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import create_topics

SEED = 20_261_129
SETTINGS = {"batch": {"documents": 10}, "kafka": {"session_timeout": "6s"}}
REFUSED = 78
FIRST, SECOND = 30, 50


def admin(stage: Stage) -> AdminClient:
    return AdminClient({"bootstrap.servers": stage.bootstrap})


def run(stage: Stage, *arguments: str) -> str:
    """Start, drain and stop; return the log."""
    return stage.run(arguments=arguments, **SETTINGS)


def refused(process: FilterProcess) -> str:
    assert process.wait_for_exit() == REFUSED, process.with_log("was not refused")
    return process.log.read_text()


@pytest.fixture
def recreated(stage: Stage) -> Stage:
    """A stage that worked, and whose input is now another topic with more records."""
    stage.produce(records(texts(random.Random(SEED), FIRST)))
    run(stage)
    client = admin(stage)  # kept until its futures are done
    for future in client.delete_topics([stage.input]).values():
        future.result(20)
    wait_until_gone(stage)
    create_topics(stage.bootstrap, {stage.input: 1})
    stage.produce(records(texts(random.Random(SEED + 1), SECOND), first=1_000))
    return stage


def wait_until_gone(stage: Stage) -> None:
    client, deadline = admin(stage), time.monotonic() + 60
    while stage.input in client.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline, "the input is still there"
        time.sleep(0.1)


def outputs(stage: Stage) -> int:
    return sum(len(found) for found in stage.outputs().values())


@pytest.mark.parametrize("lost_state", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_longer_input_of_the_same_name_is_refused_until_it_is_accepted(recreated, lost_state):
    if lost_state:
        wipe(recreated.directory / "state")
    said = refused(recreated.start(**SETTINGS))
    assert "was recreated since the group" in said
    assert "--accept-positions" in said
    assert outputs(recreated) == FIRST
    assert "as accepted" in run(recreated, "--accept-positions")
    assert outputs(recreated) == FIRST + SECOND - FIRST  # from the old position on
    recreated.produce([record(2_000, "one more, which needs no word from a person any more")])
    run(recreated)
    assert verdicts(recreated)["d2000"] == ("unique", None)
