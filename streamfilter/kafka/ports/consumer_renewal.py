"""Replaces a consumer that has gone without an answer for too long.

After its last connection was cut, a librdkafka client may never connect again, although the
brokers answer other clients. A process in this state keeps its task and asks for the group's
offsets in vain, so no other process can take over. A client that has lost all broker addresses
reports that (`topic_watch.refuse_stranded`). This client reports nothing, but a new one connects at
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException

from streamfilter.engine.ports import Retriable
from streamfilter.kafka.connection.clients import logger
from streamfilter.kafka.connection.errors import kafka_errors

T = TypeVar("T")


class Renewed:
    """Holds a consumer, and replaces one that could not answer."""

    def __init__(self, new: Callable[[], Consumer], *, seconds: float) -> None:
        """Create the first consumer; it is replaced after *seconds* without an answer."""
        self._new, self._seconds = new, seconds
        self.consumer = new()
        self._since: float | None = None  # of the first call without an answer, if the last was

    def ask(self, question: Callable[[Consumer], T]) -> T:
        """Return what *question* gets; after `Retriable` the next may ask a new consumer."""
        begun = time.monotonic()
        try:
            answer = question(self.consumer)
        except Retriable as error:
            said = str(error)
        else:
            self._since = None
            return answer
        self._since = begun if self._since is None else self._since
        if time.monotonic() - self._since >= self._seconds:
            logger.warning("asked in vain for %g s, now by a new client: %s", self._seconds, said)
            with kafka_errors("making a new consumer"):
                new = self._new()
            self.close()
            self.consumer, self._since = new, None
        raise Retriable(said)

    def close(self) -> None:
        """Close the consumer."""
        with suppress(KafkaException):
            self.consumer.close()
