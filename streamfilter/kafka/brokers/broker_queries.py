"""Asks brokers and clients for offsets, error reasons and the input's topic id.

Offsets come from the admin client, because a consumer's answer depends on its isolation level.
librdkafka reports the reason of a refusal in a different call than the one that failed.

A topic that was deleted and created again has the old name and a new topic id. The group remembers
the id, as the metadata text of a committed offset. Each transaction commits it with the offset of
the changelog's partition. It is not kept with the input's offsets: brokers delete a topic's
offsets together with the topic. The id outlives the state directory. A group without one (from an
older version, or reset by an operator) adopts the topic that exists.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from streamfilter.kafka.brokers.topics import is_compacted, settings_of
from streamfilter.kafka.connection.errors import kafka_errors, translated
from streamfilter.model import Positions

T = TypeVar("T")
OffsetSpec: Any = _admin.OffsetSpec  # type: ignore[attr-defined]  # exported without types

CALL_SECONDS = 5.0  # offsets, metadata, admin: a caller repeats the call after `Retriable`
LEADERS_SECONDS = 1.0
POLICY_SECONDS = 1.0  # a transaction waits for its abort meanwhile; the next one asks again
_OLD_LEADERS = frozenset(
    {
        KafkaError._NOENT,  # there was no leader at its last look
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # the broker does not know a new partition yet
    }
)
EVENTS_MAX = 10
NAMES_MAX = 5

UNKNOWN_INPUT = ""
INPUT_PREFIX = "streamfilter input "
DESCRIBE_SECONDS = 10.0
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes: brokers before 2.8


def compacted_among(admin: AdminClient, topics: Iterable[str]) -> list[str]:
    """Return which of *topics* are compacted now; without an answer in time, not that topic."""
    found = []
    for name in topics:
        with suppress(LogError):
            found += [name] if is_compacted(settings_of(admin, name, POLICY_SECONDS)) else []
    return found


def list_offsets(
    admin: AdminClient, spots: Mapping[int, TopicPartition], spec: Any, level: IsolationLevel
) -> Positions:
    """Return the offset that *spec* means for each of *spots*, by their numbers; -1: none.

    If a broker stops answering, librdkafka returns the invalid offset -1001 without an error. Used
    as a changelog's end, it would make the changelog look truncated. So it raises `Retriable`.
    Raises `LogError`: the brokers do not answer, or refuse.
    """
    doing = f"asking for the offsets of {names_of(spots)}"
    wanted = dict.fromkeys(spots.values(), spec)
    try:
        futures = admin.list_offsets(wanted, isolation_level=level, request_timeout=CALL_SECONDS)
        offsets = {spot: future.result().offset for spot, future in futures.items()}
        found = {number: offsets[spot] for number, spot in spots.items()}
    except KafkaException as error:
        reason = error.args[0]
    else:
        if OFFSET_INVALID in found.values():
            raise Retriable(f"{doing}: no broker answered")
        return found
    if isinstance(reason, KafkaError) and reason.code() in _OLD_LEADERS:
        # Refresh the leaders now. The client would otherwise ask the old leader until its regular
        # metadata refresh, every five minutes, and no task could start.
        with suppress(KafkaException):
            admin.list_topics(timeout=LEADERS_SECONDS)
        if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            # `topic_watch.TopicsWatch` reports a topic that was deleted.
            raise Retriable(f"{doing}: {reason.str()}")
    with kafka_errors(doing):
        raise KafkaException(reason)


def names_of(spots: Mapping[int, TopicPartition]) -> str:
    """Return the topics of *spots* for messages: the first few, and how many more."""
    names = sorted({spot.topic for spot in spots.values()})
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def bounds_of(admin: AdminClient, spots: Sequence[TopicPartition]) -> list[Watermarks]:
    """Return the first offset and the end of each of *spots*, read uncommitted."""
    # Not get_watermark_offsets: under read_committed it returns the last stable offset.
    level, numbered = IsolationLevel.READ_UNCOMMITTED, dict(enumerate(spots))
    starts = list_offsets(admin, numbered, OffsetSpec.earliest(), level)
    ends = list_offsets(admin, numbered, OffsetSpec.latest(), level)
    return [Watermarks(starts[n], ends[n]) for n in numbered]


def topic_bounds(admin: AdminClient, topic: str, partitions: int) -> list[Watermarks]:
    return bounds_of(admin, [TopicPartition(topic, number) for number in range(partitions)])


def start_positions(
    admin: AdminClient, spots: Mapping[int, TopicPartition], start: StartAt
) -> Positions:
    """Return the offsets that *start* means: the first ones, the ends, or those at a time."""
    level = IsolationLevel.READ_COMMITTED
    if start == "earliest":
        return list_offsets(admin, spots, OffsetSpec.earliest(), level)
    ends = list_offsets(admin, spots, OffsetSpec.latest(), level)
    if not isinstance(start, datetime):
        return ends
    spec = OffsetSpec.for_timestamp(round(start.timestamp() * 1000))
    found = list_offsets(admin, spots, spec, level)
    return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}


def committed(
    consumer: Consumer, wanted: Mapping[int, TopicPartition], doing: str
) -> dict[int, TopicPartition]:
    """Return the group's stable offsets with their texts, where it has one, or raise `LogError`."""
    found = {each: each for each in committed_spots(consumer, [*wanted.values()], doing)}
    return {n: found[spot] for n, spot in wanted.items() if found[spot].offset >= 0}


def committed_spots(
    consumer: Consumer, wanted: Sequence[TopicPartition], doing: str
) -> list[TopicPartition]:
    """Return *wanted* with what the consumer's group committed, or raise `LogError`."""
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
    """Raise `Denied` if the consumer's error events say that it may not use its group."""
    errors = (message.error() for message in consumer.consume(EVENTS_MAX, 0.0))
    for trouble in (translated(error, doing) for error in errors if error is not None):
        if isinstance(trouble, Denied):
            raise trouble


def fence_explained(producer: Producer, doing: str, call: Callable[[], T]) -> T:
    """Return what *call* returns; if a callback hid the reason of an error, find the reason.

    The binding raises a fatal error, such as a fence, inside its own callback, and then runs ours.
    That ends as SystemError without the reason. The producer still knows the reason.
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
    """Return True if *error* says that the producer's transaction accepts no more records."""
    cause = error.__cause__
    reason = cause.args[0] if isinstance(cause, KafkaException) else None
    return isinstance(reason, KafkaError) and reason.code() == KafkaError._STATE


def raise_why_purged(producer: Producer, doing: str) -> None:
    """Raise the reason why the open transaction failed before its queued records were purged.

    A transactional call that is not allowed in this state returns the reason and changes nothing.
    Without the reason, a missing right would look like lost records and be retried forever.
    """
    with kafka_errors(doing):
        producer.begin_transaction()


def ask_for_id(admin: AdminClient, topic: str) -> str:
    """Return the id of *topic*; `UNKNOWN_INPUT` if it is not reported. Raise `Retriable`."""
    doing = f"asking for the id of topic {topic}"
    try:
        with kafka_errors(doing):
            answers = admin.describe_topics(
                TopicCollection([topic]), request_timeout=DESCRIBE_SECONDS
            )
        return known_id(answers[topic].result())
    except KafkaException as error:
        trouble = translated(error.args[0], doing)
        if isinstance(trouble, Retriable):
            raise trouble from error
        return UNKNOWN_INPUT


def known_id(described: Any) -> str:
    """Return the topic id in a topic's description, or `UNKNOWN_INPUT`."""
    found = str(described.topic_id)
    return UNKNOWN_INPUT if found == _NO_ID else found


def marked_input(topic: str, partition: int, offset: int, input_id: str) -> list[TopicPartition]:
    """Return the changelog offset, with the input's id, to commit; none if the id is unknown."""
    if not input_id or offset < 0:
        return []
    return [TopicPartition(topic, partition, offset, INPUT_PREFIX + input_id)]


def remembered_input(consumer: Consumer, topic: str, partition: int) -> str:
    """Return the input's topic id that the group committed last, or `UNKNOWN_INPUT`."""
    doing = f"reading the group's offset of {topic}"
    (found,) = committed_spots(consumer, [TopicPartition(topic, partition)], doing)
    text = found.metadata or ""
    return text.removeprefix(INPUT_PREFIX) if text.startswith(INPUT_PREFIX) else UNKNOWN_INPUT
