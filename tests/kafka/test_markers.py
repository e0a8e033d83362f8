"""Transactions before us: their markers hold offsets that no reader gets."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer

from streamfilter import cli
from streamfilter.config.loading import load_config
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.kafka import topic_sample
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.connection import clients
from streamfilter.kafka.ports.source import KafkaSource
from streamfilter.model import Positions
from tests.kafka.story import records, texts
from tests.support.stage import Stage
from tests.support.topics import Input

SEED = 20_261_201


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


def test_a_sample_goes_back_behind_what_was_aborted(stage: Stage, capsys) -> None:
    """`peek` said that the topic holds no records, and `init` and `check` looked at none."""
    (first, *rest) = records(texts(random.Random(SEED), 41))
    with upstream(stage) as transaction:
        transaction([first])
        transaction(rest * 3, commit=False)
        configuration = stage.configuration()
        for where in ("latest", "earliest"):
            assert (
                cli.main(["peek", "-n", "2", "--from", where, "--config", str(configuration)]) == 0
            )
            assert "holds no records" not in capsys.readouterr().out
        assert topic_sample.earliest(load_config([configuration]), 1)[0].value == first.value
