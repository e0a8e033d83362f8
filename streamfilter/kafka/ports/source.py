"""Implements `ports.RecordSource` for one task, and converts messages to records.

A record holds the bytes of its message unchanged.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from streamfilter.engine.ports import InputLost, Retriable, StartAt
from streamfilter.kafka.brokers.broker_queries import (
    committed,
    remembered_input,
    start_positions,
)
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.connection.clients import logger
from streamfilter.kafka.connection.errors import kafka_errors, translated
from streamfilter.model import Headers, Positions, Record, Source

T = TypeVar("T")


class Renewed:
    """Holds a consumer, and replaces one that has gone without an answer for too long.

    After its last connection was cut, a librdkafka client may never connect again, although the
    brokers answer other clients. A process in this state keeps its task and asks for the group's
    offsets in vain, so no other process can take over. A client that has lost all broker addresses
    reports that (`topic_watch.refuse_stranded`). This client reports nothing, but a new one
    connects at once.
    """

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
        with suppress(KafkaException):
            self.consumer.close()


UNREAD_SECONDS = 5.0


class KafkaSource:
    """The input partitions of one task."""

    ended = False

    def __init__(
        self,
        topics: TaskTopics,
        admin: AdminClient,
        *,
        data: Callable[[], Consumer],
        reader: Callable[[], Consumer],
        seconds: float,
        spare: bool = False,
    ) -> None:
        """Make a consumer by *data*, anew after *seconds* without answer.

        *spare*: records that are lost, or their topic, come again; that is no reason to stop.
        """
        self._topics, self._admin, self._reader, self._spare = topics, admin, reader, spare
        self._data = Renewed(data, seconds=seconds)
        self._reached: Positions = {}
        self._texts: dict[int, str] = {}

    def committed(self, partitions: Sequence[int]) -> Positions:
        """Return the group's stable offsets (step 2); `noted` knows their texts."""
        spots = self._topics.spots(partitions)
        doing = f"reading the group's offsets of {self._topics.inputs.topic}"
        found = self._data.ask(lambda consumer: committed(consumer, spots, doing))
        self._texts = {number: each.metadata or "" for number, each in found.items()}
        return {number: each.offset for number, each in found.items()}

    def noted(self, partitions: Sequence[int]) -> Positions:
        """Return the offsets of a second topic, noted with those that `committed` has returned."""
        known = {p: self._texts.get(p, "") for p in partitions}
        return {p: int(text) for p, text in known.items() if text.isdecimal() and len(text) < 20}

    def ids(self) -> tuple[str, str]:
        topics = self._topics
        remembered = self._data.ask(
            lambda consumer: remembered_input(consumer, topics.changelog, topics.task)
        )
        return remembered, topics.input_id

    def start_positions(self, partitions: Sequence[int], start: StartAt) -> Positions:
        return start_positions(self._admin, self._topics.spots(partitions), start)

    def assign(self, positions: Positions) -> None:
        topics = self._topics
        with kafka_errors(f"assigning {topics.inputs.topic}"):
            self._data.consumer.assign(topics.offsets(positions))
        self._reached = {number: positions[number] for number in topics.spots(positions)}

    def consume(self, count: int, timeout: float) -> list[Record]:
        with kafka_errors(f"consuming {self._topics.inputs.topic}"):
            messages = self._data.consumer.consume(count, timeout)
        records: list[Record] = []
        inputs = self._topics.inputs
        for message in messages:
            if message.error() is None or self._sound(message):
                record = record_of(message)
                if inputs.several:
                    number = inputs.number(record.source.topic, record.source.partition)
                    record = dataclasses.replace(
                        record, source=dataclasses.replace(record.source, numbered=number)
                    )
                records.append(record)
                self._reached[record.source.number] = record.source.offset + 1
        return records

    def reached(self) -> Positions:
        return dict(self._reached)

    def _sound(self, message: Message) -> bool:
        """Return True for a record; raise an error event unless it is retriable."""
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            self._note_end(message)
            return False
        where = f"{message.topic()}/{message.partition()} at {message.offset()}"
        trouble = translated(error, f"consuming {where}")
        if not isinstance(trouble, (Retriable, InputLost) if self._spare else Retriable):
            raise trouble
        logger.warning("%s", trouble)
        return False

    def _note_end(self, message: Message) -> None:
        """Note the offset of a partition's end, which counts transaction markers too.

        `Consumer.position` is not used. Shortly after `assign` it can still return the previous
        assignment's position. An error event moves it past a record that was not returned.
        """
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            return
        number = self._topics.inputs.number(topic, partition)
        if number in self._reached:
            self._reached[number] = max(self._reached[number], offset)

    def unread(self, positions: Positions) -> bool:
        topics = self._topics
        ends = start_positions(self._admin, topics.spots(positions), "latest")
        behind = topics.offsets({n: o for n, o in positions.items() if ends.get(n, 0) > o})
        with kafka_errors(f"looking for records of {topics.inputs.topic}"):
            return bool(behind) and gets_a_record(self._reader, behind)

    def ends(self) -> Positions:
        """Return the end offset of each partition, as of the last fetch."""
        found: Positions = {}
        with suppress(KafkaException):
            for number, spot in self._topics.spots(self._reached).items():
                _, high = self._data.consumer.get_watermark_offsets(spot, cached=True)
                if high >= 0:
                    found[number] = high
        return found

    def close(self) -> None:
        self._data.close()


def record_of(message: Message) -> Record:
    """Return *message* as a record; if a header's name is not UTF-8, `headers_error` says so."""
    headers, trouble = headers_of(message)
    kind, timestamp = message.timestamp()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("a message without a source")
    source, key, value = Source(topic, partition, offset), message.key(), message.value()
    time = -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
    # Positional: keyword arguments take a fifth longer.
    return Record(source, _bytes(key), _bytes(value), headers, time, trouble)


def headers_of(message: Message) -> tuple[Headers, str | None]:
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
