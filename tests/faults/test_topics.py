"""Topics that vanish, grow, shrink or are too small, while a filter works between them.

The first line of each: what the operator is told, and by which exit code.
"""

import random
import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from tests.kafka.story import records, texts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import Input, create_topics, header

SEED = 20_261_125
SETTINGS = {
    "batch": {"documents": 25},
    "kafka": {
        "session_timeout": "6s",
        "transaction_timeout": "4s",
        "common": {"topic.metadata.refresh.interval.ms": 1000},
    },
}
CONFIG = 78


def settings(stage: Stage) -> dict[str, dict[str, object]]:
    common = {"bootstrap.servers": stage.bootstrap, "topic.metadata.refresh.interval.ms": 1000}
    return {**SETTINGS, "kafka": {**SETTINGS["kafka"], "common": common}}


def working(stage: Stage, count: int = 60) -> FilterProcess:
    """Return a filter that has judged *count* documents."""
    stage.produce(records(texts(random.Random(SEED), count)))
    process = stage.start(**settings(stage))
    stage.drain(process)
    return process


def delete(stage: Stage, topic: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    admin.delete_topics([topic])[topic].result(120)
    return admin


def ended_with(process: FilterProcess, *words: str) -> None:
    """Check that it ends with 78, and says all of *words* once it is over."""
    assert process.wait_for_exit() == CONFIG, process.told("ended otherwise")
    last = "\n".join(process.log.read_text().splitlines()[-4:])
    assert all(word in last for word in words), last


def test_an_input_deleted_at_run_time_is_a_stop_that_names_it(stage: Stage) -> None:
    process = working(stage)
    delete(stage, stage.input)
    ended_with(process, stage.input)


@pytest.mark.long
def test_an_input_recreated_shorter_is_a_stop_and_nothing_is_judged(stage: Stage) -> None:
    process = working(stage)
    assert process.terminate() == 0
    before = {name: len(found) for name, found in stage.outputs().items()}
    delete(stage, stage.input)
    time.sleep(1)
    create_topics(stage.bootstrap, {stage.input: 1})
    stage.produce(records(texts(random.Random(SEED + 1), 10)))
    ended_with(stage.start(**settings(stage)), stage.input, "recreated")
    assert {name: len(found) for name, found in stage.outputs().items()} == before


def test_an_output_deleted_at_run_time_is_a_stop_that_names_it(stage: Stage) -> None:
    process = working(stage)
    delete(stage, stage.unique)
    stage.produce(records(texts(random.Random(SEED + 1), 20), first=1_000))
    ended_with(process, stage.unique)


def test_a_missing_output_is_refused_at_the_start(stage: Stage) -> None:
    delete(stage, stage.duplicates)
    ended_with(stage.start(**settings(stage)), stage.duplicates, "--apply")


def test_partitions_added_to_the_input_are_a_stop_until_they_are_accepted(stage: Stage) -> None:
    process = working(stage)
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    topics = (stage.input, stage.unique, stage.duplicates, stage.dead_letter)
    for future in admin.create_partitions([NewPartitions(t, 2) for t in topics]).values():
        future.result(120)
    ended_with(process, stage.input, "partitions")
    more = records(texts(random.Random(SEED + 2), 20), first=2_000)
    stage.produce(Input(each.value, key=each.key, partition=1) for each in more)
    ended_with(stage.start(**settings(stage)), stage.input, "--accept-positions")
    accepted = stage.start(arguments=["--accept-positions"], **settings(stage))
    stage.drain(accepted)
    assert accepted.terminate() == 0
    assert sum(map(len, stage.outputs().values())) == 80


@pytest.mark.long
def test_retention_that_passes_the_group_is_a_stop_until_it_is_accepted(stage: Stage) -> None:
    process = working(stage)
    assert process.terminate() == 0
    stage.produce(records(texts(random.Random(SEED + 3), 40), first=3_000))
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    for future in admin.delete_records([TopicPartition(stage.input, 0, 80)]).values():
        future.result(120)
    ended_with(stage.start(**settings(stage)), stage.input, "retention", "--accept-positions")
    accepted = stage.start(arguments=["--accept-positions"], **settings(stage))
    stage.drain(accepted)
    assert accepted.terminate() == 0
    assert sum(map(len, stage.outputs().values())) == 60 + 20


def test_an_output_that_takes_less_than_the_input_makes_dead_letters(stage: Stage) -> None:
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    entry = ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, stage.unique, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(120)
    stories = texts(random.Random(SEED), 9)
    stories[4] = " ".join(f"w{n}" for n in range(600))
    stage.produce(records(stories))
    process = stage.start(**settings(stage))
    stage.drain(process)
    assert process.terminate() == 0
    outputs = stage.outputs()
    (letter,) = outputs["dead_letter"]
    assert (letter.key, header(letter, "__streamfilter.error.code")) == (b"k4", "too_large")
    assert sum(map(len, outputs.values())) == 9
