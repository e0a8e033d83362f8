"""Creates topics: the changelog for `run`, outputs for `check`, all of them for demonstrations."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as _admin
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.ports import Retriable
from streamfilter.kafka.brokers.topics import (
    BROKERS_TIME,
    CHANGELOG_SETTINGS,
    MESSAGE_BYTES,
    MESSAGE_LIMIT,
    described,
    inputs_of,
    outputs_of,
    partitions_of,
    seen,
)
from streamfilter.kafka.connection.clients import admin_client
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.connection.one_shot_calls import CALL_SECONDS, asked_once

NewTopic: Any = _admin.NewTopic  # type: ignore[attr-defined]


def create_changelog(
    config: Config, admin: AdminClient, tasks: int, *, message_bytes: int = MESSAGE_BYTES
) -> None:
    """Create the changelog with the settings it must have and the broker's replication."""
    settings = CHANGELOG_SETTINGS | BROKERS_TIME | {MESSAGE_LIMIT: str(message_bytes)}
    topic = NewTopic(config.changelog_topic, num_partitions=tasks, config=settings)
    create_topic(admin, topic)


LATE = (
    "brokers make topics slowly where they are busy, and none where a disk is full: look at their "
    "logs. It may be there by now; run this again, for what is there is not made again"
)


def create_topic(admin: AdminClient, topic: Any) -> None:
    """Create a *topic*, unless it exists by now, or raise `LogError`."""
    with kafka_errors(f"creating topic {topic.topic}"):
        future = admin.create_topics([topic], operation_timeout=CALL_SECONDS)[topic.topic]
        try:
            future.result()
        except KafkaException as error:
            # Another process of ours may be starting too.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def see_changelog(config: Config, admin: AdminClient) -> None:
    """Raise `Retriable` until brokers know the changelog and its leaders."""
    name = config.changelog_topic
    with kafka_errors(f"asking the brokers for topic {name}"):
        metadata = admin.list_topics(timeout=CALL_SECONDS).topics.get(name)
    if metadata is None or not partitions_of(name, metadata):
        raise Retriable(f"topic {name} was created, and brokers do not know of it yet")
    if without := [p for p, each in metadata.partitions.items() if each.leader < 0]:
        raise Retriable(f"topic {name} has no leader yet for its partitions {sorted(without)}")


def create_all(config: Config, partitions: int) -> list[str]:
    """Create the missing input and outputs; return their names, or raise `Stop`. For demos only."""
    admin = admin_client(config)
    name = config.input.first
    missing = name not in described(config, admin)
    with asked_once(cure=LATE):
        if missing:
            create_topic(admin, NewTopic(name, num_partitions=partitions))
    seen(config, admin, [name])
    return [name] * missing + create_outputs(config)


def create_outputs(config: Config) -> list[str]:
    """Create missing outputs with as many partitions as the input; return them, or raise `Stop`."""
    admin = admin_client(config)
    topics = described(config, admin)
    sources = inputs_of(config, topics).values()
    if not sources:
        return []
    missing = sorted(set(outputs_of(config)) - topics.keys())
    settings = {
        "message.timestamp.type": "CreateTime",
        MESSAGE_LIMIT: str(max(source.message_bytes for source in sources)),
    }
    partitions = max(source.partitions for source in sources)
    with asked_once(cure=LATE):
        for name in missing:
            create_topic(admin, NewTopic(name, num_partitions=partitions, config=settings))
    return missing
