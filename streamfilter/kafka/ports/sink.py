"""Implements `ports.Sink` for one task on librdkafka. It makes no decisions of its own.

Every call has a finite timeout and raises one of the exceptions of `ports`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from streamfilter.engine.clock_and_worker import bounded
from streamfilter.engine.ports import (
    Abortable,
    Blame,
    InputLost,
    LogError,
    Member,
    OutcomeUnknown,
    Outgoing,
    RecordsRefused,
    Retriable,
)
from streamfilter.kafka.brokers.broker_queries import (
    compacted_among,
    fence_explained,
    is_closed_transaction,
    marked_input,
    raise_why_purged,
)
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.connection.errors import REFUSED, kafka_errors
from streamfilter.kafka.ports.changelog import KafkaChangelog, by_us
from streamfilter.model import Positions

Report = Callable[[KafkaError | None, Message], None]


class Deliveries:
    """The delivery reports of one transaction. Its callbacks only take notes and never raise.

    Most transactions request only the report of the last changelog record, whose offset is the
    largest. A callback for each record would cost as much as producing it. A *watched* transaction
    has one on every record: a broker has refused some of them, and the reports say which.

    A broker refuses whole batches. If two or more records of a batch are bad, their reports say
    INVALID_RECORD. The other reports say that another record is to blame (KIP-467). If only one is
    bad, all records of the batch get the batch's error code. So a watched producer has one batch in
    flight at a time: two batches are never blamed together.

    Example: a broker refuses a batch of the transaction's records 4, 5 and 6.

    | their reports                                       | `numbers` | `each`                    |
    |-----------------------------------------------------|-----------|---------------------------|
    | INVALID_RECORD, INVALID_RECORD, another is to blame | 4, 5      | True: both were refused   |
    | the batch's code, three times                       | 4, 5, 6   | False: at least one was   |
    """

    def __init__(self, *, watched: bool) -> None:
        self._watched = watched
        self._count = 0
        self._refused: list[int] = []
        self._spared = False  # whether reports distinguish the blamed from their neighbours
        self._code = KafkaError.NO_ERROR
        self.asked = False  # whether the last changelog record was given to the client
        self.last: tuple[KafkaError | None, int | None] = (None, None)
        """Its delivery error, if any, and its offset if the broker reported one."""

    def report(self, *, last: bool = False) -> Report | None:
        """Return the callback for the next record to produce; None: no report is needed."""
        number, self._count = self._count, self._count + 1
        self.asked |= last
        if not self._watched:
            return self._note_last if last else None
        return partial(self._note, number, last)

    def _note_last(self, error: KafkaError | None, message: Message) -> None:
        self.last = (error, message.offset())

    def _note(self, number: int, last: bool, error: KafkaError | None, message: Message) -> None:
        if last:
            self._note_last(error, message)
        if error is None:
            return
        if error.code() == KafkaError._INVALID_DIFFERENT_RECORD:
            self._spared = True
        elif error.code() in REFUSED:
            self._refused.append(number)
            self._code = error.code()

    def blame_last(self, reason: str) -> Blame:
        """Return the blame for the record of the latest `report` call."""
        return Blame((self._count - 1,), True, reason)

    @property
    def refused(self) -> bool:
        """Return whether a report says that a broker refused a record."""
        return bool(self._refused)

    def blame(self, why: KafkaError | None) -> Blame | None:
        """Return the records to blame; None if *why* the transaction failed is not known."""
        if why is None:
            return None
        named = self._spared or self._code != why.code()
        each = named or len(self._refused) == 1
        reason, for_time = f"{why.name()}: {why.str()}", why.code() == KafkaError.INVALID_TIMESTAMP
        return Blame(tuple(self._refused), each, reason, for_time)


QUEUE_FULL_SECONDS = 0.1
OF_THE_WHOLE = REFUSED | {KafkaError._PURGE_QUEUE, KafkaError._INVALID_DIFFERENT_RECORD}
"""Delivery errors of the last record that are the reason why the whole transaction failed."""
INIT_SECONDS = 0.5
"""One wait for `init_transactions`. It continues in the background, so a short wait loses nothing.
A long wait would delay the other tasks of this process."""


class KafkaSink:
    """The transactional producer of one task."""

    def __init__(
        self,
        topics: TaskTopics,
        admin: AdminClient,
        changelog: KafkaChangelog,
        producer: Callable[[bool], Producer],
        *,
        seconds: float,
    ) -> None:
        """Begin without a producer; *producer* makes one; True: with a report for every record."""
        self._topics, self._admin, self._changelog = topics, admin, changelog
        self._new, self._seconds = producer, seconds
        self._producer: Producer | None = None
        self._initialised = False
        self._waited = 0.0  # seconds that this producer has spent in `init_transactions`
        self._in_transaction = self._watched = False
        self._deliveries = Deliveries(watched=False)

    def open(self, *, watched: bool = False) -> None:
        """Replace the producer and fence every other with our transactional id (step 1).

        A call after `Retriable` waits for the same producer: a new one would start over each time.
        The epoch may be outdated by then, which is harmless: the later producer has fenced this
        one.
        """
        doing = "initialising transactions"
        with kafka_errors(doing):
            if self._initialised or self._waited >= self._seconds or watched != self._watched:
                self.close()
            if self._producer is None:
                self._producer, self._watched = self._new(watched), watched
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

    def begin(self) -> None:
        self._deliveries = Deliveries(watched=self._watched)
        with kafka_errors("beginning a transaction"):
            self._open.begin_transaction()
        self._in_transaction = True

    def produce(self, records: Sequence[Outgoing]) -> None:
        self._produce(
            (
                out.topic, out.value, out.key, out.partition, None, None, max(out.timestamp, 0),
                [*out.headers] or None,
            )
            for out in records
        )  # fmt: skip

    def produce_changelog(self, values: Sequence[bytes]) -> None:
        topic, task = self._topics.changelog, self._topics.task
        self._produce((topic, value, None, task, None, None, 0, None) for value in values[:-1])
        self._produce(
            ((topic, value, None, task, None, None, 0, [*by_us()]) for value in values[-1:]),
            last=True,
        )

    def _produce(self, messages: Iterable[tuple[Any, ...]], *, last: bool = False) -> None:
        """Give *messages* to the client; with *last*, it is a transaction's last changelog record.

        They are the positional arguments of `Producer.produce`, in the order of the client's stub:
        keyword arguments take twice as long. The fifth is its `callback`, the report. If that is
        passed, even as None, `on_delivery` is ignored. A timestamp of 0 is the current time.
        """
        produce, deliveries = self._open.produce, self._deliveries
        for message in messages:
            if (report := deliveries.report(last=last)) is not None:
                message = (*message[:4], report, *message[5:])
            try:
                produce(*message)
                continue
            except (BufferError, KafkaException, SystemError) as error:
                met = type(error), error.args  # the error would keep frames: `ports.without_frames`
            # Only after an error: a context manager for each record costs as much as producing it.
            again = partial(self._produce_slowly, message, *met)
            self._explained(f"producing to {message[0]}", again)

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
        except InputLost as error:  # an output was made anew with fewer partitions: `TopicsWatch`
            raise Abortable(str(error)) from error  # will end the process, and says what to do
        except OutcomeUnknown as error:
            if not is_closed_transaction(error):
                raise
            said = str(error)
        self.flush()  # the queue is purged: this only runs the reports, and raises their blame
        raise_why_purged(self._open, doing)
        raise OutcomeUnknown(said)

    def flush(self) -> int:
        producer, doing = self._open, "delivering a transaction's records"
        waiting = fence_explained(producer, doing, lambda: producer.flush(self._seconds))
        if waiting:
            raise Abortable(f"{waiting} records were not delivered in {self._seconds:g} s")
        self._look_for_blame()
        if not self._deliveries.asked:
            return -1
        error, offset = self._deliveries.last
        if error is not None and error.code() in OF_THE_WHOLE:
            raise_why_purged(self._open, f"producing to an output or {self._topics.changelog}")
        if error is not None:
            # Always Abortable, whatever the error's class: a lost record costs its transaction.
            # If the producer is fenced, the abort reports it.
            raise Abortable(f"delivering to {self._topics.changelog}: {error.str()}")
        if offset is None:
            # Either no report came, or the reply was lost and the broker took the retry for a
            # duplicate. The record is stored at an unknown offset, and the index needs the offset.
            raise Abortable(f"{self._topics.changelog} has our records, and did not tell where")
        self._changelog.end = offset + 1
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
        topics, topic = self._topics, self._topics.inputs.topic
        offsets = topics.offsets(positions)
        offsets += marked_input(topics.changelog, topics.task, self._changelog.end, topics.input_id)
        producer, doing = self._open, f"sending the offsets of {topic}"

        def send() -> None:
            producer.send_offsets_to_transaction(offsets, member.token, self._seconds)

        with kafka_errors(doing):
            bounded(send, seconds=self._seconds, doing=doing)

    def commit(self) -> None:
        with kafka_errors("committing a transaction"):
            self._open.commit_transaction(self._seconds)
        self._in_transaction = False

    def abort(self) -> None:
        with kafka_errors("aborting a transaction"):
            self._open.abort_transaction(self._seconds)
        self._in_transaction = False

    def compacted(self, topics: Iterable[str]) -> list[str]:
        return compacted_among(self._admin, topics)

    def serve(self) -> None:
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.poll(0)

    def close(self) -> None:
        """Drop the producer, and close it unless it has a transaction, or is not ready for one."""
        producer, self._producer = self._producer, None
        ready, self._initialised, self._waited = self._initialised, False, 0.0
        if producer is None:
            return
        with suppress(KafkaException):
            # Queued records belong to a transaction that will never be committed. `close` would
            # abort an open transaction, and hang while no broker answers. So the producer is only
            # dropped. The next `init_transactions` aborts the open transaction.
            # One that still waits for its coordinator would only warn that it cannot abort.
            producer.purge()
            if ready and not self._in_transaction:
                producer.close()
        self._in_transaction = False
