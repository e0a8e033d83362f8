"""Writes and reads topics on a local broker: `Feed` fills one topic, `Tail` reads some.

By default `Feed` fills partition 0 only, and `Tail` reads no other. So the records keep their
order, and the n-th record, counted from 0, has offset n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from streamfilter.kafka.ports.source import record_of
from streamfilter.model import Record

FLUSH_TIMEOUT_SECONDS = 30
FULL_SECONDS = 0.1
TAKEN_AT_ONCE = 1_000
FEEDING = {"enable.idempotence": "true", "linger.ms": "5"}
PARTITION_UA = -1  # librdkafka's "unassigned"


def _taken(send: Callable[[], None]) -> bool:
    """Return whether the client's queue had room for what *send* produces."""
    try:
        send()
    except BufferError:
        return False
    return True


class TrafficError(RuntimeError):
    """The local broker did not accept or return the expected records."""


class Feed:
    """Fills partition 0 of one topic, in order; or all of its partitions, by key."""

    def __init__(self, producer: str | Producer, topic: str, *, partition: int | None = 0) -> None:
        """Prepare to fill *topic* with a *producer* (properties `FEEDING`), or a new one."""
        self._topic = topic
        self._partition = PARTITION_UA if partition is None else partition
        self._failed: list[KafkaError] = []
        if isinstance(producer, str):
            producer = Producer({"bootstrap.servers": producer, **FEEDING})
        self._producer = producer

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes,
        partition: int | None = None,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        """Queue one record, for that *partition* if one is given; it is sent in the background."""
        send = partial(
            self._producer.produce,
            self._topic,
            value=value,
            key=key,
            partition=self._partition if partition is None else partition,
            headers=dict(headers or {}),
            on_delivery=self._delivered,
        )
        while not _taken(send):  # queued records are sent, or fail after a while
            self._producer.poll(FULL_SECONDS)
            self._check(0)
        self._producer.poll(0)
        self._check(0)

    def partitions(self) -> int:
        """Return the topic's number of partitions, without creating it, or raise `TrafficError`."""
        try:
            topics = self._producer.list_topics(timeout=FLUSH_TIMEOUT_SECONDS).topics
        except KafkaException as error:
            raise TrafficError(
                f"topic {self._topic} was not filled: {error.args[0].str()}"
            ) from error
        if self._topic not in topics:
            raise TrafficError(
                f"there is no topic {self._topic}; input.topic (or input.topics) names it"
            )
        return len(topics[self._topic].partitions)

    def flush(self) -> None:
        """Return when the broker has all records, or raise `TrafficError`."""
        self._check(self._producer.flush(FLUSH_TIMEOUT_SECONDS))

    def _delivered(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    def _check(self, waiting: int) -> None:
        if self._failed or waiting:
            why = self._failed[0].str() if self._failed else f"{waiting} records are still waiting"
            raise TrafficError(f"topic {self._topic} was not filled: {why}")


class Tail:
    """Reads some *partitions* of topics from their beginning, as a read_committed consumer."""

    def __init__(
        self, bootstrap: str, topics: Sequence[str], partitions: Iterable[int] = (0,)
    ) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "streamfilter-tail",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
            }
        )
        spots = [TopicPartition(topic, p, 0) for p in partitions for topic in topics]
        self._consumer.assign(spots)

    def take(self, timeout_seconds: float) -> list[Record]:
        """Return the records that came in time; raise `TrafficError` if some are gone."""
        messages = self._consumer.consume(TAKEN_AT_ONCE, timeout_seconds)
        for error in filter(None, (message.error() for message in messages)):
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise TrafficError(f"the broker dropped what was not read yet: {error.str()}")
        return [record_of(message) for message in messages if message.error() is None]

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
