"""A consumer that is made anew when it goes without an answer for too long.

librdkafka may miss to connect again after its last connection was cut, for ever, while its brokers
answer everybody else: a filter that owned a task began it, asked for the group's offsets every five
seconds and got nothing for as long as it was watched (180 s), and nobody else could take over. Who
has lost all addresses tells it (`watching.refuse_stranded`); this one told nothing. A new client
asks at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException

from streamfilter.engine.ports import Retriable
from streamfilter.kafka.clients import logger
from streamfilter.kafka.errors import kafka_errors

T = TypeVar("T")


class Renewed:
    """Holds a consumer, and replaces one that could not answer."""

    def __init__(self, new: Callable[[], Consumer], *, seconds: float) -> None:
        """Make the first one; *seconds* without an answer are too long."""
        self._new, self._seconds = new, seconds
        self.consumer = new()
        self._since: float | None = None
        """When it was first asked in vain; None: it answered last."""

    def ask(self, question: Callable[[Consumer], T]) -> T:
        """Return what *question* gets from the consumer; what is assigned to it may be lost.

        Raises:
            Retriable: there was no answer. The next question may go to a new consumer.
        """
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
            self._renew(said)
        raise Retriable(said)

    def _renew(self, said: str) -> None:
        logger.warning("asked in vain for %g s, now by a new client: %s", self._seconds, said)
        with kafka_errors("making a new consumer"):
            new = self._new()
        self.close()
        self.consumer, self._since = new, None

    def close(self) -> None:
        """Close the consumer."""
        with suppress(KafkaException):
            self.consumer.close()
