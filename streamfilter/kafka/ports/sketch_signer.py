"""Implements `cluster.signing.Signer`: sends sketch ranges outside of any transaction.

It never waits. A range that cannot be sent is lost, and the judge's resume brings it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

LOST = -1


class KafkaSigner:
    """An idempotent producer for the topic of sketch ranges."""

    def __init__(self, topic: str, producer: Callable[[], Producer]) -> None:
        self._topic, self._new = topic, producer
        self._producer: Producer | None = None
        self._count = 0
        self._done: dict[int, int] = {}

    def send(self, partition: int, message: bytes) -> int:
        """Send a message, and return its number."""
        self._count += 1
        if self._producer is None:
            self._producer = self._new()
        report = partial(self._note, self._count)
        reason = None
        try:
            self._producer.produce(self._topic, message, None, partition, report)
        except BufferError:
            reason = "the local queue is full"
        except KafkaException as error:
            reason = error.args[0]
        if reason is not None:
            self._done[self._count] = LOST
        if isinstance(reason, KafkaError) and (
            reason.fatal() or reason.code() in (KafkaError._FATAL, KafkaError._STATE)
        ):
            self._drop()
        return self._count

    def _note(self, number: int, error: KafkaError | None, message: Message) -> None:
        """Note a delivery report. A callback must never raise."""
        offset = message.offset()
        self._done[number] = LOST if error is not None or offset is None else offset

    def delivered(self) -> Mapping[int, int]:
        """Return the offset of each message delivered since the last call; -1: it is lost."""
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.poll(0)
        done, self._done = self._done, {}
        return done

    def _drop(self) -> None:
        """Drop a producer that cannot go on; what it has not delivered is lost."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
                producer.close()
