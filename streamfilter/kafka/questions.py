"""Questions to the brokers and the clients whose first answer says too little.

Offsets are asked of the admin client, for a consumer's own answer depends on what it may read.
Why we are refused, librdkafka tells only in another place than the call that failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka import admin as _admin
from confluent_kafka.admin import AdminClient

from streamfilter.kafka.errors import kafka_errors, translated
from streamfilter.kafka.ports import Denied, Retriable
from streamfilter.model import Positions

OffsetSpec: Any = _admin.OffsetSpec  # type: ignore[attr-defined]  # exported without types

CALL_SECONDS = 5.0  # offsets, metadata, admin: a caller repeats what is retriable
EVENTS_MAX = 10


def list_offsets(
    admin: AdminClient, spots: Sequence[TopicPartition], spec: Any, level: IsolationLevel
) -> Positions:
    """Return the offset that *spec* means for each of *spots*, all of one topic; -1: no such.

    A broker that stops answering shows as an offset that is none, without an error (seen: a
    changelog that "ends at -1001" was taken for truncated, and the process stopped with 78).

    Raises:
        LogError: the brokers do not answer, or refuse.
    """
    with kafka_errors(f"asking for the offsets of {spots[0].topic}"):
        futures = admin.list_offsets(
            dict.fromkeys(spots, spec), isolation_level=level, request_timeout=CALL_SECONDS
        )
        found = {spot.partition: future.result().offset for spot, future in futures.items()}
    if OFFSET_INVALID in found.values():
        raise Retriable(f"asking for the offsets of {spots[0].topic}: no broker answered")
    return found


def committed(consumer: Consumer, wanted: Sequence[TopicPartition], doing: str) -> Positions:
    """Return the stable offsets of the consumer's group; partitions without one are left out.

    Raises:
        LogError: among them `Denied`, which the call itself shows as a timeout.
    """
    with kafka_errors(doing):
        try:
            found = consumer.committed(list(wanted), timeout=CALL_SECONDS)
        except KafkaException:
            _raise_denied(consumer, doing)
            raise
    for each in found:
        if each.error is not None:
            raise translated(each.error, doing)
    return {each.partition: each.offset for each in found if each.offset >= 0}


def _raise_denied(consumer: Consumer, doing: str) -> None:
    """Raise what a consumer that was refused its group's coordinator has to say."""
    errors = (message.error() for message in consumer.consume(EVENTS_MAX, 0.0))
    for trouble in (translated(error, doing) for error in errors if error is not None):
        if isinstance(trouble, Denied):
            raise trouble


def raise_why_purged(producer: Producer, doing: str) -> None:
    """Raise why the open transaction had failed before its records were purged from the queue.

    A transactional call that is not allowed now tells it, and changes nothing. Without it a
    missing right would look like a loss, and be tried again and again.
    """
    with kafka_errors(doing):
        producer.begin_transaction()
