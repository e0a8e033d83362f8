"""The latest records of a topic, to look at: no group is joined, nothing is committed or made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from streamfilter.config.configuration import Config
from streamfilter.kafka import clients
from streamfilter.kafka.asking import CALL_SECONDS, asked_once, listed
from streamfilter.kafka.errors import kafka_errors

READ_SECONDS = 10.0


def names(config: Config) -> list[str]:
    """Return the topics that the brokers show us, without their internal ones.

    Raises:
        Stop: no broker answers, or they refuse us.
    """
    admin = clients.admin_client(config)
    with asked_once():
        return sorted(name for name in listed(config, admin) if not name.startswith("__"))


def latest(config: Config, count: int) -> list[bytes | None]:
    """Return the values of the input's last *count* records, from all its partitions.

    Raises:
        Stop: the brokers refuse us, or do not answer.
    """
    topic = config.input.topic
    with asked_once():
        partitions = listed(config, clients.admin_client(config))[topic].partitions
        with kafka_errors(f"reading {topic}"):
            consumer = clients.consumer(clients.data_properties(config))
            try:
                return list(_read(consumer, topic, sorted(partitions), count))
            finally:
                consumer.close()


def _read(consumer: Any, topic: str, partitions: list[int], count: int) -> Iterator[bytes | None]:
    share = -(-count // len(partitions))
    open_ = {number: _ends(consumer, topic, number, share) for number in partitions}
    open_ = {number: ends for number, ends in open_.items() if ends[0] < ends[1]}
    consumer.assign([TopicPartition(topic, number, start) for number, (start, _) in open_.items()])
    deadline = time.monotonic() + READ_SECONDS
    while open_ and (left := deadline - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is None:
            return
        error, number = message.error(), message.partition()
        if error is None and number in open_:
            yield message.value()
            done = message.offset() + 1 >= open_[number][1]
        else:
            done = error is not None and error.code() == KafkaError._PARTITION_EOF
        if done:
            open_.pop(number, None)


def _ends(consumer: Consumer, topic: str, partition: int, count: int) -> tuple[int, int]:
    """Return where the last *count* records begin, and where they end."""
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), CALL_SECONDS)
    return max(low, high - count), high
