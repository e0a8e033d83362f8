"""Implements `ports.Log` for one task on librdkafka. It makes no decisions of its own.

Every call has a finite timeout and raises one of the exceptions of `ports`. `deliveries.py`
collects the delivery reports of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from streamfilter.engine.machine import bounded
from streamfilter.engine.ports import (
    Abortable,
    Layout,
    LogError,
    Member,
    OutcomeUnknown,
    Outgoing,
    RecordsRefused,
    Retriable,
    StartAt,
    Watermarks,
)
from streamfilter.kafka.broker_queries import (
    UNKNOWN_INPUT,
    bounds_of,
    committed,
    compacted_among,
    fence_explained,
    is_closed_transaction,
    marked_input,
    raise_why_purged,
    remembered_input,
    start_positions,
)
from streamfilter.kafka.clients import logger
from streamfilter.kafka.consumer_renewal import Renewed
from streamfilter.kafka.deliveries import Deliveries
from streamfilter.kafka.errors import REFUSED, kafka_errors, translated
from streamfilter.kafka.reader import KafkaChangelogReader, by_us, gets_a_record, record_of
from streamfilter.kafka.trimming import Cut, FirstOffset
from streamfilter.model import Positions, Record

QUEUE_FULL_SECONDS = 0.1
OF_THE_WHOLE = REFUSED | {KafkaError._PURGE_QUEUE, KafkaError._INVALID_DIFFERENT_RECORD}
"""Delivery errors of the last record that are the reason why the whole transaction failed."""
INIT_SECONDS = 0.5
"""One wait for `init_transactions`. It continues in the background, so a short wait loses nothing.
A long wait would delay the other tasks of this process."""


@dataclass(frozen=True, slots=True)
class LogPartitions:
    """The partitions that a task's log reads and writes."""

    input_topic: str
    changelog: str
    task: int
    """The changelog's partition."""
    input_id: str = UNKNOWN_INPUT


@dataclass(frozen=True, slots=True)
class Clients:
    """Factories of the clients; producers and readers are created more than once."""

    admin: AdminClient
    data: Callable[[], Consumer]
    reader: Callable[[], Consumer]
    producer: Callable[[bool], Producer]
    """Makes a producer; True: with delivery reports for every record (a watched one)."""
    transaction_seconds: float
    layout: Callable[[], Layout]
    """Asks the brokers for the partition counts of the topics."""
    refuse_changed_changelog: Callable[[], None]
    """Ends the process if the changelog's settings were changed."""


class KafkaLog:
    """`streamfilter.engine.ports.Log` on real clients."""

    def __init__(self, place: LogPartitions, clients: Clients) -> None:
        self._place, self._clients = place, clients
        self.layout, self._seconds = clients.layout, clients.transaction_seconds
        self.refuse_changed_changelog = clients.refuse_changed_changelog
        self._data = Renewed(clients.data, seconds=clients.transaction_seconds)
        self._reached: Positions = {}
        self._producer: Producer | None = None
        self._initialised = False
        self._waited = 0.0
        """Seconds that this producer has spent in `init_transactions`."""
        self._in_transaction = self._watched = False
        self._deliveries = Deliveries(watched=False)
        self._changelog_next = -1
        self._cut = Cut(clients.admin, place.changelog, place.task)
        self.changelog_start = FirstOffset(clients.admin, place.changelog, place.task).known

    def open_producer(self, *, watched: bool = False) -> None:
        """Replace the producer and fence every other with our transactional id (step 1).

        A call after `Retriable` waits for the same producer. A new one would start over with each
        short wait and never finish. The epoch that the broker assigned may be outdated by then.
        That is harmless: the later producer has fenced this one.
        """
        doing = "initialising transactions"
        with kafka_errors(doing):
            if self._initialised or self._waited >= self._seconds or watched != self._watched:
                self._close_producer()
            if self._producer is None:
                self._producer, self._watched = self._clients.producer(watched), watched
        try:
            with kafka_errors(doing):
                self._producer.poll(0)  # runs its callbacks: errors of brokers, statistics
                self._waited += INIT_SECONDS
                self._producer.init_transactions(min(INIT_SECONDS, self._seconds))
        except LogError as error:
            if not isinstance(error, Retriable):
                self._waited = self._seconds  # the next call creates a new producer
            raise
        self._initialised = True

    @property
    def _open(self) -> Producer:
        if self._producer is None or not self._initialised:
            raise OutcomeUnknown("there is no producer: init_transactions did not succeed")
        return self._producer

    def committed(self, partitions: Sequence[int]) -> Positions:
        """Return the group's stable offsets (step 2)."""
        wanted = [TopicPartition(self._place.input_topic, p) for p in partitions]
        doing = f"reading the group's offsets of {self._place.input_topic}"
        return self._data.ask(lambda consumer: committed(consumer, wanted, doing))

    def input_ids(self) -> tuple[str, str]:
        """Return two topic ids of the input: the group's committed one, the actual one (step 2)."""
        place = self._place
        remembered = self._data.ask(
            lambda consumer: remembered_input(consumer, place.changelog, place.task)
        )
        return remembered, place.input_id

    def changelog_bounds(self) -> Watermarks:
        """Return the changelog's first offset and its end, read uncommitted (step 3)."""
        spot = TopicPartition(self._place.changelog, self._place.task)
        bounds = bounds_of(self._clients.admin, spot)
        self._changelog_next = bounds.end
        return bounds

    def trim_changelog(self, before: int) -> bool:
        """Delete changelog records below offset *before*; return True once that is confirmed."""
        return self._cut.reached(before)

    def start_positions(self, partitions: Sequence[int], start: StartAt) -> Positions:
        """Return where a fresh task begins (step 4)."""
        spots = [TopicPartition(self._place.input_topic, p) for p in partitions]
        return start_positions(self._clients.admin, spots, start)

    def read_changelog(self, start: int, end: int) -> KafkaChangelogReader:
        """Return a private reader of the changelog (step 5)."""
        with kafka_errors("opening the changelog's reader"):
            consumer = self._clients.reader()
        return KafkaChangelogReader(
            consumer, self._place.changelog, self._place.task, start=start, end=end
        )

    def assign(self, positions: Positions) -> None:
        """Make `consume` begin at *positions* (step 6)."""
        topic = self._place.input_topic
        with kafka_errors(f"assigning {topic}"):
            self._data.consumer.assign([TopicPartition(topic, p, o) for p, o in positions.items()])
        self._reached = dict(positions)

    def consume(self, count: int, timeout: float) -> list[Record]:
        """Return up to *count* records (step 7)."""
        with kafka_errors(f"consuming {self._place.input_topic}"):
            messages = self._data.consumer.consume(count, timeout)
        records: list[Record] = []
        for message in messages:
            if self._sound(message):
                record = record_of(message)
                records.append(record)
                self._reached[record.source.partition] = record.source.offset + 1
        return records

    def reached(self) -> Positions:
        """Return, by partition, the next offset that `consume` will return."""
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
        if not isinstance(trouble, Retriable):
            raise trouble
        logger.warning("%s", trouble)
        return False

    def _note_end(self, message: Message) -> None:
        """Note the offset of a partition's end, which counts transaction markers too.

        `Consumer.position` is not used. Shortly after `assign` it can still return the previous
        assignment's position. An error event moves it past a record that was not returned.
        """
        partition, offset = message.partition(), message.offset()
        if partition in self._reached and offset is not None:
            self._reached[partition] = max(self._reached[partition], offset)

    def begin(self) -> None:
        """Open a transaction (step 10)."""
        self._deliveries = Deliveries(watched=self._watched)
        with kafka_errors("beginning a transaction"):
            self._open.begin_transaction()
        self._in_transaction = True

    def produce(self, records: Sequence[Outgoing]) -> None:
        """Add output records to the transaction."""
        for out in records:
            self._produce(out)

    def produce_changelog(self, values: Sequence[bytes]) -> None:
        """Add changelog records to the transaction."""
        topic, task = self._place.changelog, self._place.task
        for number, value in enumerate(values, 1):
            last = number == len(values)
            self._produce(Outgoing(topic, task, None, value, by_us() if last else ()), last=last)

    def _produce(self, out: Outgoing, *, last: bool = False) -> None:
        producer, topic = self._open, out.topic
        report = self._deliveries.report(last=last)
        timestamp = max(out.timestamp, 0)  # 0: the client uses the current time
        headers: list[tuple[str, str | bytes | None]] = [*out.headers]
        # Positional, in the order of the client's stub: keyword arguments take twice as long. The
        # report is its `callback`. If that is passed, even as None, `on_delivery` is ignored.
        message = topic, out.value, out.key, out.partition, report, None, timestamp, headers or None
        try:
            producer.produce(*message)
            return
        except (BufferError, KafkaException, SystemError) as error:
            met = type(error), error.args  # the error would keep frames: `ports.without_frames`
        # Only after an error: a context manager for each record costs as much as producing it.
        self._explained(f"producing to {topic}", lambda: self._produce_slowly(message, *met))

    def _produce_slowly(
        self, message: tuple[Any, ...], kind: type[Exception], why: tuple[Any, ...]
    ) -> None:
        """Produce a message again, once the full queue has room; raise any other error *why*."""
        if kind is not BufferError:
            raise kind(*why)
        producer, topic = self._open, message[0]
        for _ in range(round(self._seconds / QUEUE_FULL_SECONDS)):
            producer.poll(QUEUE_FULL_SECONDS)
            with suppress(BufferError):
                producer.produce(*message)
                return
        raise Abortable(f"producing to {topic}: the local queue stayed full")

    def _explained(self, doing: str, call: Callable[[], None]) -> None:
        """Do as `fence_explained`; if the transaction had already failed, raise the reason.

        A broker may refuse records while we still produce. The client then rejects further records
        with "Erroneous state". That text names neither the reason nor that an abort is enough.
        """
        try:
            fence_explained(self._open, doing, call)
            return
        except RecordsRefused as error:  # the client itself found it too large
            raise RecordsRefused(str(error), self._deliveries.blame_last(str(error))) from error
        except OutcomeUnknown as error:
            if not is_closed_transaction(error):
                raise
            said = str(error)
        self.flush()  # the queue is purged: this only runs the reports, and raises their blame
        raise_why_purged(self._open, doing)
        raise OutcomeUnknown(said)

    def flush(self) -> int:
        """Wait until all is delivered (the end of step 10)."""
        producer, doing = self._open, "delivering a transaction's records"
        waiting = fence_explained(producer, doing, lambda: producer.flush(self._seconds))
        if waiting:
            raise Abortable(f"{waiting} records were not delivered in {self._seconds:g} s")
        self._look_for_blame()
        if not self._deliveries.asked:
            return -1
        error, offset = self._deliveries.last
        if error is not None and error.code() in OF_THE_WHOLE:
            raise_why_purged(self._open, f"producing to an output or {self._place.changelog}")
        if error is not None:
            # Always Abortable, whatever the error's class: a lost record costs its transaction.
            # If the producer is fenced, the abort reports it.
            raise Abortable(f"delivering to {self._place.changelog}: {error.str()}")
        if offset is None:
            # Either no report came, or the reply was lost and the broker took the retry for a
            # duplicate. The record is stored at an unknown offset, and the index needs the offset.
            raise Abortable(f"{self._place.changelog} has our records, and did not tell where")
        self._changelog_next = offset + 1
        return offset

    def _look_for_blame(self) -> None:
        if not self._deliveries.refused:
            return
        doing = "delivering a transaction's records"
        try:
            raise_why_purged(self._open, doing)
        except RecordsRefused as error:
            cause = error.__cause__
            why = cause.args[0] if isinstance(cause, KafkaException) else None
            raise RecordsRefused(str(error), self._deliveries.blame(why)) from error
        raise Abortable(f"{doing}: some were refused")

    def send_offsets(self, positions: Positions, member: Member) -> None:
        """Add the next offsets to the transaction (step 11)."""
        place, topic = self._place, self._place.input_topic
        offsets = [TopicPartition(topic, p, o) for p, o in positions.items()]
        offsets += marked_input(place.changelog, place.task, self._changelog_next, place.input_id)
        producer, doing = self._open, f"sending the offsets of {topic}"

        def send() -> None:
            producer.send_offsets_to_transaction(offsets, member.token, self._seconds)

        with kafka_errors(doing):
            bounded(send, seconds=self._seconds, doing=doing)

    def commit(self) -> None:
        """Commit the transaction (step 12)."""
        with kafka_errors("committing a transaction"):
            self._open.commit_transaction(self._seconds)
        self._in_transaction = False

    def abort(self) -> None:
        """Abort the transaction."""
        with kafka_errors("aborting a transaction"):
            self._open.abort_transaction(self._seconds)
        self._in_transaction = False

    def unread(self, positions: Positions) -> bool:
        """Return whether a new consumer receives a record at or after *positions*."""
        topic = self._place.input_topic
        spots = [TopicPartition(topic, p) for p in positions]
        ends = start_positions(self._clients.admin, spots, "latest")
        behind = [TopicPartition(topic, p, o) for p, o in positions.items() if ends[p] > o]
        with kafka_errors(f"looking for records of {topic}"):
            return bool(behind) and gets_a_record(self._clients.reader, behind)

    def compacted(self, topics: Iterable[str]) -> list[str]:
        """Return which of *topics* are compacted now; none if the brokers do not answer."""
        return compacted_among(self._clients.admin, topics)

    def ends(self) -> Positions:
        """Return the end offset of each partition, as of the last fetch."""
        found: Positions = {}
        with suppress(KafkaException):
            if self._producer is not None:
                self._producer.poll(0)  # an idle producer too has callbacks to run
            for partition in self._reached:
                spot = TopicPartition(self._place.input_topic, partition)
                _, high = self._data.consumer.get_watermark_offsets(spot, cached=True)
                if high >= 0:
                    found[partition] = high
        return found

    def close(self) -> None:
        """Close every client of this task."""
        self._close_producer()
        self._data.close()

    def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        self._initialised, self._waited = False, 0.0
        if producer is None:
            return
        with suppress(KafkaException):
            # Queued records belong to a transaction that will never be committed. `close` would
            # abort an open transaction, and hang while no broker answers. So the producer is only
            # dropped. The next `init_transactions` aborts the open transaction.
            producer.purge()
            if not self._in_transaction:
                producer.close()
        self._in_transaction = False
