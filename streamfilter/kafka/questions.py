"""Questions to the brokers and the clients whose first answer says too little.

Offsets are asked of the admin client, for a consumer's own answer depends on what it may read.
Why we are refused, librdkafka tells only in another place than the call that failed.

And which input our positions are of: a topic that was recreated has the old name and another id.
The id travels with the positions, as the text that Kafka keeps beside a committed offset. Beside
the offset of the changelog's partition, which every transaction commits too: with a topic the
brokers delete the group's offsets of it, so an id beside the input's own would be gone with it.
It outlives the state directory, and a group that has none yet (of an older version, or reset by
an operator) adopts the topic that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import admin as _admin
from confluent_kafka.admin import AdminClient

from streamfilter.engine.ports import (
    Denied,
    LogError,
    OutcomeUnknown,
    Retriable,
    StartAt,
    Watermarks,
)
from streamfilter.kafka.errors import kafka_errors, translated
from streamfilter.kafka.topics import is_compacted, settings_of
from streamfilter.model import Positions

T = TypeVar("T")
OffsetSpec: Any = _admin.OffsetSpec  # type: ignore[attr-defined]  # exported without types

CALL_SECONDS = 5.0  # offsets, metadata, admin: a caller repeats what is retriable
LEADERS_SECONDS = 1.0
POLICY_SECONDS = 1.0
"""Asked inside of a transaction that waits for its abort, and asked again by the next one."""
_OLD_LEADERS = frozenset(
    {
        KafkaError._NOENT,  # there was no leader when it looked
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # the broker has not heard of a new partition
    }
)
EVENTS_MAX = 10

UNKNOWN_INPUT = ""
INPUT_PREFIX = "streamfilter input "
DESCRIBE_SECONDS = 10.0
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes: brokers before 2.8


def compacted_among(admin: AdminClient, topics: Iterable[str]) -> list[str]:
    """Return which of *topics* are compacted now, as far as brokers tell it soon."""
    found = []
    for name in topics:
        with suppress(LogError):
            found += [name] if is_compacted(settings_of(admin, name, POLICY_SECONDS)) else []
    return found


def list_offsets(
    admin: AdminClient, spots: Sequence[TopicPartition], spec: Any, level: IsolationLevel
) -> Positions:
    """Return the offset that *spec* means for each of *spots*, all of one topic; -1: no such.

    A broker that stops answering shows as an offset that is none, without an error (seen: a
    changelog that "ends at -1001" was taken for truncated, and the process stopped with 78).

    Raises:
        LogError: the brokers do not answer, or refuse.
    """
    doing = f"asking for the offsets of {spots[0].topic}"
    try:
        futures = admin.list_offsets(
            dict.fromkeys(spots, spec), isolation_level=level, request_timeout=CALL_SECONDS
        )
        found = {spot.partition: future.result().offset for spot, future in futures.items()}
    except KafkaException as error:
        reason = error.args[0]
    else:
        if OFFSET_INVALID in found.values():
            raise Retriable(f"{doing}: no broker answered")
        return found
    if isinstance(reason, KafkaError) and reason.code() in _OLD_LEADERS:
        # It would ask the same way until its regular look, every five minutes (seen: a broker
        # frozen for a quarter of a minute, and no task began for minutes after).
        with suppress(KafkaException):
            admin.list_topics(timeout=LEADERS_SECONDS)
        if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            # A topic that is gone is `watching.TopicsWatch`'s to tell.
            raise Retriable(f"{doing}: {reason.str()}")
    with kafka_errors(doing):
        raise KafkaException(reason)


def bounds_of(admin: AdminClient, spot: TopicPartition) -> Watermarks:
    """Return a partition's first offset and its end, read uncommitted."""
    # Not get_watermark_offsets: under read_committed it returns the last stable offset.
    level = IsolationLevel.READ_UNCOMMITTED
    start = list_offsets(admin, [spot], OffsetSpec.earliest(), level)
    end = list_offsets(admin, [spot], OffsetSpec.latest(), level)
    return Watermarks(start[spot.partition], end[spot.partition])


def start_positions(
    admin: AdminClient, spots: Sequence[TopicPartition], start: StartAt
) -> Positions:
    """Return the offsets that *start* means: the first ones, the ends, or those of a time."""
    level = IsolationLevel.READ_COMMITTED
    if start == "earliest":
        return list_offsets(admin, spots, OffsetSpec.earliest(), level)
    ends = list_offsets(admin, spots, OffsetSpec.latest(), level)
    if not isinstance(start, datetime):
        return ends
    spec = OffsetSpec.for_timestamp(round(start.timestamp() * 1000))
    found = list_offsets(admin, spots, spec, level)
    return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}


def committed(consumer: Consumer, wanted: Sequence[TopicPartition], doing: str) -> Positions:
    """Return the stable offsets of the consumer's group; partitions without one are left out.

    Raises:
        LogError: among them `Denied`, which the call itself shows as a timeout.
    """
    found = _committed(consumer, wanted, doing)
    return {each.partition: each.offset for each in found if each.offset >= 0}


def committed_texts(consumer: Consumer, wanted: Sequence[TopicPartition], doing: str) -> list[str]:
    """Return what was committed beside each of these offsets; without one the empty string.

    Raises:
        LogError: as `committed`.
    """
    return [each.metadata or "" for each in _committed(consumer, wanted, doing)]


def _committed(
    consumer: Consumer, wanted: Sequence[TopicPartition], doing: str
) -> list[TopicPartition]:
    try:
        found = consumer.committed(list(wanted), timeout=CALL_SECONDS)
    except KafkaException as error:
        reason = error.args[0]
    else:
        for each in found:
            if each.error is not None:
                raise translated(each.error, doing)
        return found
    with kafka_errors(doing):
        _raise_denied(consumer, doing)
        raise KafkaException(reason)


def _raise_denied(consumer: Consumer, doing: str) -> None:
    """Raise what a consumer that was refused its group's coordinator has to say."""
    errors = (message.error() for message in consumer.consume(EVENTS_MAX, 0.0))
    for trouble in (translated(error, doing) for error in errors if error is not None):
        if isinstance(trouble, Denied):
            raise trouble


def fence_explained(producer: Producer, doing: str, call: Callable[[], T]) -> T:
    """Return what *call* returns. Where callbacks ran, find the fence that one of them hid.

    The binding raises a fatal error inside of its own callback, and goes on to ours, which then
    ends as SystemError without the reason (seen: a process that was fenced four times in a row
    said "bug"). The producer still knows it.
    """
    try:
        with kafka_errors(doing):
            return call()
    except OutcomeUnknown as error:
        if not isinstance(error.__cause__, SystemError):
            raise
        said = str(error)
    raise_why_purged(producer, doing)
    raise OutcomeUnknown(said)


def is_closed_transaction(error: OutcomeUnknown) -> bool:
    """Return True if *error* is a producer's word that its transaction takes no more records."""
    cause = error.__cause__
    reason = cause.args[0] if isinstance(cause, KafkaException) else None
    return isinstance(reason, KafkaError) and reason.code() == KafkaError._STATE


def raise_why_purged(producer: Producer, doing: str) -> None:
    """Raise why the open transaction had failed before its records were purged from the queue.

    A transactional call that is not allowed now tells it, and changes nothing. Without it a
    missing right would look like a loss, and be tried again and again.
    """
    with kafka_errors(doing):
        producer.begin_transaction()


def ask_for_id(admin: AdminClient, topic: str) -> str:
    """Return the id of *topic*; `UNKNOWN_INPUT` where brokers do not tell.

    Raises:
        Retriable: they do not answer.
    """
    doing = f"asking for the id of topic {topic}"
    try:
        with kafka_errors(doing):
            answers = admin.describe_topics(
                TopicCollection([topic]), request_timeout=DESCRIBE_SECONDS
            )
        found = str(answers[topic].result().topic_id)
    except KafkaException as error:
        trouble = translated(error.args[0], doing)
        if isinstance(trouble, Retriable):
            raise trouble from error
        return UNKNOWN_INPUT
    return UNKNOWN_INPUT if found == _NO_ID else found


def marked_input(topic: str, partition: int, offset: int, input_id: str) -> list[TopicPartition]:
    """Return what a transaction commits for the changelog; nothing while the id is unknown."""
    if not input_id or offset < 0:
        return []
    return [TopicPartition(topic, partition, offset, INPUT_PREFIX + input_id)]


def remembered_input(consumer: Consumer, topic: str, partition: int) -> str:
    """Return the id that the group committed last, or `UNKNOWN_INPUT`."""
    doing = f"reading the group's offset of {topic}"
    (text,) = committed_texts(consumer, [TopicPartition(topic, partition)], doing)
    return text.removeprefix(INPUT_PREFIX) if text.startswith(INPUT_PREFIX) else UNKNOWN_INPUT
