"""Which input our positions are of: a topic that was recreated has the old name and another id.

The id travels with the positions, as the text that Kafka keeps beside a committed offset. Beside
the offset of the changelog's partition, which every transaction commits too: with a topic the
brokers delete the group's offsets of it, so an id beside the input's own would be gone with it.
It outlives the state directory, and a group that has none yet (of an older version, or reset by
an operator) adopts the topic that is there.
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.engine.ports import Retriable
from streamfilter.kafka.errors import kafka_errors, translated
from streamfilter.kafka.questions import committed_texts

UNKNOWN = ""
PREFIX = "streamfilter input "
CALL_SECONDS = 10.0
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes: brokers before 2.8


def ask_for_id(admin: AdminClient, topic: str) -> str:
    """Return the id of *topic*; `UNKNOWN` where brokers do not tell.

    Raises:
        Retriable: they do not answer.
    """
    doing = f"asking for the id of topic {topic}"
    try:
        with kafka_errors(doing):
            answers = admin.describe_topics(TopicCollection([topic]), request_timeout=CALL_SECONDS)
        found = str(answers[topic].result().topic_id)
    except KafkaException as error:
        trouble = translated(error.args[0], doing)
        if isinstance(trouble, Retriable):
            raise trouble from error
        return UNKNOWN
    return UNKNOWN if found == _NO_ID else found


def marked(topic: str, partition: int, offset: int, input_id: str) -> list[TopicPartition]:
    """Return what a transaction commits for the changelog; nothing while the id is unknown."""
    if not input_id or offset < 0:
        return []
    return [TopicPartition(topic, partition, offset, PREFIX + input_id)]


def remembered(consumer: Consumer, topic: str, partition: int) -> str:
    """Return the id that the group committed last, or `UNKNOWN`."""
    doing = f"reading the group's offset of {topic}"
    (text,) = committed_texts(consumer, [TopicPartition(topic, partition)], doing)
    return text.removeprefix(PREFIX) if text.startswith(PREFIX) else UNKNOWN
