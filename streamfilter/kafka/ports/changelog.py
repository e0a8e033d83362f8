"""Implements `ports.Changelog` for one task: reads, trims and watches its changelog partition.

A reader ends at a fixed offset, the uncommitted end. If another producer's open transaction holds
the last stable offset below it, the reader waits. Stopping there would restore less than was
committed. Markers and aborted records occupy offsets but are never delivered. So the end is
recognised by the end-of-partition event, whose offset counts them.

Example: records at the offsets 0 and 1, a commit marker at 2, the end 3. The consumer delivers 0
and 1 and then the event with offset 3, so `position` is 3 and `done` is True.

The beginning is deleted (DeleteRecords) without a wait. A broker answers only once every replica
that is up has deleted the records too. While a replica catches up, each request times out, although
the leader has deleted them. A caller that waited for the answer would be blocked as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.engine.ports import Denied, Entry, OutcomeUnknown, Retriable, Watermarks
from streamfilter.kafka.brokers.broker_queries import CALL_SECONDS, OffsetSpec, bounds_of
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.connection.errors import kafka_errors, translated
from streamfilter.kafka.ports.source import headers_of
from streamfilter.model import Headers
from streamfilter.process.health import instance

ASK_SECONDS = 5.0
BY = "streamfilter-by"  # header of a transaction's last record: the process that wrote it
BY_BYTES_MAX = 256


class KafkaChangelog:
    """One partition of the changelog."""

    def __init__(
        self,
        topics: TaskTopics,
        admin: AdminClient,
        reader: Callable[[], Consumer],
        refuse_changed: Callable[[], None],
    ) -> None:
        self._topics, self._admin, self._reader = topics, admin, reader
        self.refuse_changed = refuse_changed
        self.end = -1  # the offset after the last known record; -1: not known yet
        self._asked: tuple[int, Future[Any]] | None = None  # the limit, and the answer to come
        self._start, self._ask_at = -1, time.monotonic() + ASK_SECONDS
        self._answer: Future[Any] | None = None

    def bounds(self) -> Watermarks:
        spot = TopicPartition(self._topics.changelog, self._topics.task)
        (bounds,) = bounds_of(self._admin, [spot])
        self.end = bounds.end
        return bounds

    def trim(self, before: int) -> bool:
        """Delete records below *before*, one request at a time; return True once confirmed."""
        where = f"{self._topics.changelog}/{self._topics.task}"
        with kafka_errors(f"deleting the records of {where} before {before}"):
            offset, answer = self._asked = self._asked or (before, self._delete(before))
            if not answer.done():
                return False
            self._asked = None
            answer.result()
        return offset >= before

    def _delete(self, before: int) -> Future[Any]:
        spot = TopicPartition(self._topics.changelog, self._topics.task, before)
        answers: dict[TopicPartition, Future[Any]] = self._admin.delete_records(
            [spot], request_timeout=CALL_SECONDS, operation_timeout=CALL_SECONDS
        )
        (answer,) = answers.values()
        return answer

    def start(self) -> int:
        """Return the first offset of the last answer, asked every `ASK_SECONDS`; -1: none yet."""
        if self._answer is None and time.monotonic() >= self._ask_at:
            self._ask_at = time.monotonic() + ASK_SECONDS
            spot = TopicPartition(self._topics.changelog, self._topics.task)
            earliest = {spot: OffsetSpec.earliest()}
            answers = self._admin.list_offsets(earliest, request_timeout=CALL_SECONDS)
            (self._answer,) = answers.values()
        if self._answer is not None and self._answer.done():
            with suppress(KafkaException):
                self._start = self._answer.result().offset
            self._answer = None
        return self._start

    def read(self, start: int, end: int) -> KafkaChangelogReader:
        with kafka_errors("opening the changelog's reader"):
            consumer = self._reader()
        topics = self._topics
        return KafkaChangelogReader(consumer, topics.changelog, topics.task, start=start, end=end)


class KafkaChangelogReader:
    """`streamfilter.engine.ports.ChangelogReader` on a consumer of its own."""

    def __init__(
        self, consumer: Consumer, topic: str, partition: int, *, start: int, end: int
    ) -> None:
        self._consumer, self._end = consumer, end
        self._what = f"reading {topic}/{partition}"
        self.position = start  # the next offset to read
        if not self.done:
            with kafka_errors(self._what):
                consumer.assign([TopicPartition(topic, partition, start)])

    @property
    def done(self) -> bool:
        """Return True if everything before the end has been read."""
        return self.position >= self._end

    def read(self, count: int, timeout: float) -> list[Entry]:
        """Return up to *count* records below the end, after at most *timeout* seconds."""
        entries: list[Entry] = []
        with kafka_errors(self._what):
            messages = self._consumer.consume(count, timeout)
        for message in messages:
            error, offset = message.error(), message.offset()
            if error is not None:
                self._notice(error, offset)
            elif offset is not None and offset < self._end:
                value = message.value()
                value = value if isinstance(value, bytes) else b""
                entries.append(Entry(offset, value, _by(message)))
                self.position = offset + 1
            else:
                self.position = self._end
        return entries

    def _notice(self, error: KafkaError, offset: int | None) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self.position = max(self.position, offset or 0)
            return
        trouble = translated(error, self._what)
        if isinstance(trouble, Retriable):
            return  # the consumer recovers by itself
        raise trouble if isinstance(trouble, Denied) else OutcomeUnknown(str(trouble))

    def close(self) -> None:
        with kafka_errors(self._what):
            self._consumer.close()


def by_us() -> Headers:
    """Return the header that names this process as the writer of a changelog record."""
    return ((BY, instance().encode()),)


def _by(message: Message) -> str:
    """Return the process that wrote *message*. A header can be forged: only display the value."""
    headers, _ = headers_of(message)
    for name, value in headers:  # most records have none
        if name == BY:
            return (value or b"")[:BY_BYTES_MAX].decode(errors="replace")
    return ""
