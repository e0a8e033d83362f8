"""Converts messages to records, and reads one changelog partition up to a fixed end.

A record holds the bytes of its message unchanged.

The fixed end is the uncommitted one. If another producer's open transaction holds the last stable
offset below it, the reader waits. Stopping there would restore less than was committed. Markers
and aborted records occupy offsets but are never delivered. So the end is recognised by the
end-of-partition event, whose offset counts them.

Example: records at the offsets 0 and 1, a commit marker at 2, the end 3. The consumer delivers 0
and 1 and then the event with offset 3, so `position` is 3 and `done` is True.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message, TopicPartition

from streamfilter.engine.ports import Denied, Entry, OutcomeUnknown, Retriable
from streamfilter.kafka.errors import kafka_errors, translated
from streamfilter.model import Headers, Record, Source
from streamfilter.process.process_name import instance


def record_of(message: Message) -> Record:
    """Return *message* as a record; if a header's name is not UTF-8, `headers_error` says so."""
    headers, trouble = _headers(message)
    kind, timestamp = message.timestamp()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("a message without a source")
    return Record(
        source=Source(topic, partition, offset),
        key=_bytes(message.key()),
        value=_bytes(message.value()),
        headers=headers,
        timestamp=-1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        headers_error=trouble,
    )


def _headers(message: Message) -> tuple[Headers, str | None]:
    """Read the headers, only once: after an error, a second call returns a NULL name."""
    try:
        headers = message.headers()
    except (SystemError, UnicodeDecodeError):
        return (), "a header's name is not UTF-8"
    if not headers:
        return (), None
    pairs: list[tuple[str, str | bytes | None]] = list(headers)  # type: ignore[arg-type]  # never a dict here
    return tuple((name, _bytes(value)) for name, value in pairs), None


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


UNREAD_SECONDS = 5.0
BY = "streamfilter-by"
"""Header of the last record of each of a changelog's transactions: the process that wrote it."""
BY_BYTES_MAX = 256


class KafkaChangelogReader:
    """`streamfilter.engine.ports.ChangelogReader` on a consumer of its own."""

    def __init__(
        self, consumer: Consumer, topic: str, partition: int, *, start: int, end: int
    ) -> None:
        self._consumer, self._end = consumer, end
        self._what = f"reading {topic}/{partition}"
        self._position = start
        if not self.done:
            with kafka_errors(self._what):
                consumer.assign([TopicPartition(topic, partition, start)])

    @property
    def done(self) -> bool:
        """Return True if everything before the end has been read."""
        return self._position >= self._end

    @property
    def position(self) -> int:
        """Return the next offset to read."""
        return self._position

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
                self._position = offset + 1
            else:
                self._position = self._end
        return entries

    def _notice(self, error: KafkaError, offset: int | None) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._position = max(self._position, offset or 0)
            return
        trouble = translated(error, self._what)
        if isinstance(trouble, Retriable):
            return  # the consumer recovers by itself
        raise trouble if isinstance(trouble, Denied) else OutcomeUnknown(str(trouble))

    def close(self) -> None:
        """Close the consumer."""
        with kafka_errors(self._what):
            self._consumer.close()


def by_us() -> Headers:
    """Return the header that names this process as the writer of a changelog record."""
    return ((BY, instance().encode()),)


def _by(message: Message) -> str:
    """Return the process that wrote *message*. A header can be forged: only display the value."""
    headers, _ = _headers(message)
    for name, value in headers:  # most records have none
        if name == BY:
            return (value or b"")[:BY_BYTES_MAX].decode(errors="replace")
    return ""


def gets_a_record(new_consumer: Callable[[], Consumer], spots: list[TopicPartition]) -> bool:
    """Return whether a record arrives before the ends of all *spots*, within `UNREAD_SECONDS`."""
    consumer = new_consumer()
    try:
        consumer.assign(spots)
        return _gets_a_record(consumer, len(spots))
    finally:
        consumer.close()


def _gets_a_record(consumer: Consumer, partitions: int) -> bool:
    deadline = time.monotonic() + UNREAD_SECONDS
    while partitions and (left := deadline - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is None:
            continue
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            partitions -= 1  # before this end there are only markers or aborted records
    return False
