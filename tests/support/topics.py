"""Topics from the outside: make them, fill them, read what a read_committed consumer sees."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from streamfilter.engine.ports import Retriable
from streamfilter.kafka.connection.errors import classify
from streamfilter.model import Headers, Record, Source

TIMEOUT_SECONDS = 180
SETTLE_SECONDS = 120
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
"""Of a topic that takes timestamps in microseconds too, which Kafka's default refuses."""


@dataclass(frozen=True, slots=True)
class Input:
    """A record to produce."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: Headers = ()
    timestamp: int = 0
    """Milliseconds since the epoch; 0 lets the client write the present time."""


def create_topics(
    bootstrap: str,
    partitions: Mapping[str, int],
    *,
    config: Mapping[str, str] | None = None,
    replication: int = -1,
) -> None:
    """Create the topics named in *partitions*, and return when the broker has them."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    wanted = [
        NewTopic(name, count, replication_factor=replication, config=dict(config or {}))
        for name, count in partitions.items()
    ]
    for future in admin.create_topics(wanted, request_timeout=TIMEOUT_SECONDS).values():
        future.result(TIMEOUT_SECONDS)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    # The answer comes from the controller: a busy broker learns of the topic some time later.
    while not all(_has_leaders(admin, name) for name in partitions):
        assert time.monotonic() < deadline, f"no leaders for all of {list(partitions)}"
        time.sleep(0.05)


def _has_leaders(admin: AdminClient, topic: str) -> bool:
    metadata = admin.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
    return metadata.error is None and all(p.leader >= 0 for p in metadata.partitions.values())


def alter_topic(bootstrap: str, topic: str, settings: Mapping[str, str]) -> None:
    """Change settings of a topic."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_SECONDS)


def produce(bootstrap: str, topic: str, records: Iterable[Input]) -> None:
    """Write *records* in their order, and return when all are acknowledged."""
    failed: list[KafkaError] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
    )
    for record in records:
        while True:
            try:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                    timestamp=record.timestamp,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
    unsent = producer.flush(TIMEOUT_SECONDS)
    assert unsent == 0, f"{unsent} records were not acknowledged"
    assert not failed, failed


_NEW_TOPIC = (KafkaError._NOENT, KafkaError.UNKNOWN_TOPIC_OR_PART)
"""What brokers say that have not heard of a topic yet."""


def end_offsets(
    bootstrap: str,
    topic: str,
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> dict[int, int]:
    """Return the end of each partition: the high watermark, or the last stable offset."""
    return _offsets(bootstrap, topic, OffsetSpec.latest(), isolation, timeout_seconds)


def start_offsets(
    bootstrap: str, topic: str, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> dict[int, int]:
    """Return where each partition begins: what was before was removed."""
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    return _offsets(bootstrap, topic, OffsetSpec.earliest(), uncommitted, timeout_seconds)


def _offsets(
    bootstrap: str, topic: str, spec: OffsetSpec, isolation: IsolationLevel, timeout: float
) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _asked(admin, topic, spec, isolation, timeout)
        except KafkaException as error:  # a topic just made, a broker just gone: no leader yet
            cause = error.args[0]
            passes = classify(cause) is Retriable or cause.code() in _NEW_TOPIC
            if not passes or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _asked(
    admin: AdminClient, topic: str, spec: OffsetSpec, isolation: IsolationLevel, timeout: float
) -> dict[int, int]:
    metadata = admin.list_topics(topic, timeout=timeout).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    asked = {TopicPartition(topic, p): spec for p in metadata.partitions}
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=timeout)
    return {
        partition.partition: future.result(timeout).offset for partition, future in answers.items()
    }


def read_committed(
    bootstrap: str, topic: str, *, settle_seconds: float = SETTLE_SECONDS
) -> list[Record]:
    """Return everything committed to *topic*, by partition and offset, to the very end.

    Fails when a transaction stays open: a reader would stop before it, and "all" would be a lie.
    """
    ends = _settled_ends(bootstrap, topic, settle_seconds)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "test-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    try:
        return _read_to_the_end(consumer, topic, set(ends))
    finally:
        consumer.close()


def _settled_ends(bootstrap: str, topic: str, settle_seconds: float) -> dict[int, int]:
    """Return the ends once they are stable: a commit returns before its markers are written."""
    deadline = time.monotonic() + settle_seconds
    while True:
        ends = end_offsets(bootstrap, topic)
        stable = end_offsets(bootstrap, topic, isolation=IsolationLevel.READ_COMMITTED)
        if stable == ends:
            return ends
        message = f"{topic}: a transaction is open (stable {stable}, end {ends})"
        assert time.monotonic() < deadline, message
        time.sleep(0.1)


def _read_to_the_end(consumer: Consumer, topic: str, partitions: set[int]) -> list[Record]:
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
    records: list[Record] = []
    unfinished = set(partitions)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while unfinished:
        assert time.monotonic() < deadline, f"{topic}: {unfinished} have not ended"
        # `consume` waits for all 1,000 or for its whole timeout: hence a short one.
        for message in consumer.consume(1_000, timeout=0.05):
            if (error := message.error()) is None:
                records.append(as_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
            else:
                raise AssertionError(error)
    return sorted(records, key=lambda record: record.source)


def as_record(message: object) -> Record:
    """Return a consumed message as the record that it holds."""
    return Record(
        source=Source(message.topic(), message.partition(), message.offset()),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        timestamp=message.timestamp()[1],
    )


def header(record: Record, name: str) -> str | None:
    """Return the last header *name* as text, or None."""
    values = [value for key, value in record.headers if key == name and value is not None]
    return values[-1].decode() if values else None
