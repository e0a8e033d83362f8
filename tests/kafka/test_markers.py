"""Transactions before us: their markers hold offsets that no reader gets, and retention does not
ask for readers. What was judged may go at any time, and no one stops for it.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.config.loading import load_config
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.connection import clients
from streamfilter.kafka.ports.source import KafkaSource
from streamfilter.model import Positions
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import Input, end_offsets

SEED = 20_261_201
SETTINGS = {"kafka": {"session_timeout": "6s", "consumer": {"group.instance.id": "one"}}}
RECORDS = 12


@contextmanager
def upstream(stage: Stage) -> Iterator[Callable[..., None]]:
    """Give what writes a transaction to the input, and commits or aborts it."""
    settings = {"bootstrap.servers": stage.bootstrap, "transactional.id": f"{stage.group}.up"}
    producer = Producer(settings)
    producer.init_transactions(60)

    def transaction(wanted: list[Input], *, commit: bool = True) -> None:
        producer.begin_transaction()
        for each in wanted:
            producer.produce(
                stage.input, value=each.value, key=each.key, partition=each.partition,
                timestamp=each.timestamp,
            )  # fmt: skip
        if commit:
            producer.commit_transaction(60)
        else:
            producer.flush(60)
            producer.abort_transaction(60)

    yield transaction


@contextmanager
def holding(stage: Stage) -> Iterator[None]:
    """Keep a transaction with a record open."""
    settings = {"bootstrap.servers": stage.bootstrap, "transactional.id": f"{stage.group}.open"}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(stage.input, b"held")
    producer.flush(60)
    yield
    producer.abort_transaction(60)


def remove_all(stage: Stage) -> None:
    """Let retention remove everything from the input."""
    ends = end_offsets(stage.bootstrap, stage.input)
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    spots = [TopicPartition(stage.input, p, end) for p, end in ends.items()]
    for future in admin.delete_records(spots).values():
        future.result(60)


def told_markers(stage: Stage, process: FilterProcess) -> None:
    """Wait until the positions are at the very end of the input, which is a marker.

    A commit is answered before its markers are written: until the last stable offset is the high
    watermark, one may still come, and `remove_all` would remove it before anybody is behind it.
    """
    deadline = time.monotonic() + 60
    while _stable(stage) != end_offsets(stage.bootstrap, stage.input):
        assert time.monotonic() < deadline, "a marker was never written"
        time.sleep(0.05)
    stage.drain(process, timeout_seconds=60)


def _stable(stage: Stage) -> dict[int, int]:
    return end_offsets(stage.bootstrap, stage.input, isolation=IsolationLevel.READ_COMMITTED)


def test_retention_that_removed_what_was_judged_has_not_passed_us(stage):
    """The input ends with the marker of an aborted transaction, behind a committed one."""
    stories = records(texts(random.Random(SEED), 4 * RECORDS))
    with upstream(stage) as transaction:
        transaction(stories[:RECORDS])
        transaction(stories[RECORDS : 2 * RECORDS], commit=False)
        process = stage.start(**SETTINGS)
        told_markers(stage, process)
        remove_all(stage)
        process.kill()
        process = stage.start(**SETTINGS)
        process.wait_for_state("running")
        transaction(stories[2 * RECORDS :])
        told_markers(stage, process)
    assert process.terminate() == 0, process.with_log("did not end well")
    judged = [*range(RECORDS), *range(2 * RECORDS, 4 * RECORDS)]
    assert set(verdicts(stage)) == {f"d{n}" for n in judged}


def test_a_source_tells_how_far_it_came_and_nothing_of_an_assignment_before(stage: Stage) -> None:
    """`Consumer.position` does: the records between were then neither judged nor read again."""
    config = load_config([stage.configuration()])
    client: Consumer = clients.consumer(config, clients.data_properties(config))
    source = KafkaSource(
        TaskTopics(Inputs(stage.input), stage.changelog, 0),
        clients.admin_client(config),
        data=lambda: client,
        reader=lambda: client,
        seconds=10.0,
    )
    with upstream(stage) as transaction:
        transaction(records(texts(random.Random(SEED + 2), 3)))
        transaction(records(["an aborted one"]), commit=False)
    source.assign({0: 0})
    taken = 0
    while source.reached() != {0: 6}:
        taken += len(source.consume(10, 0.1))
    assert taken == 3
    assert (source.reached(), source.ends()) == ({0: 6}, {0: 6})
    source.assign({0: 1})
    seen: list[Positions] = [source.reached()]
    found = 0
    while found < 2:
        found += len(source.consume(1, 0.1))
        seen.append(source.reached())
    assert (seen[0], seen[-1]) == ({0: 1}, {0: 3})
    with holding(stage):
        assert source.start_positions([0], "latest") == {0: 6}
        deadline = time.monotonic() + 60
        while source.ends() == {0: 6}:  # the client learns of the end with its next fetch
            assert time.monotonic() < deadline, "an open transaction holds back what is there"
            source.consume(1, 0.1)
    source.close()
