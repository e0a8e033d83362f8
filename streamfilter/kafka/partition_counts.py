"""Counts the partitions of our topics: the largest number that any broker has reported.

Brokers learn of new partitions one after the other, and a topic never loses any. So a later but
smaller number is outdated. The tasks' starts and `topic_watch.py` report their numbers here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.ports import Denied, Layout, Retriable
from streamfilter.kafka.broker_queries import UNKNOWN_INPUT
from streamfilter.kafka.errors import kafka_errors, translated
from streamfilter.kafka.topics import Topics, layout_of

ASK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TaskTopics:
    """The topics that one task reads and writes."""

    input: str
    changelog: str
    task: int
    """The task's partition of the changelog."""
    input_id: str = UNKNOWN_INPUT


class PartitionCounts:
    """Counts the partitions of the topics of a configuration."""

    def __init__(self, config: Config, found: Topics) -> None:
        """Begin with what was *found* at the start of the process."""
        self._source, self._first = config.input.topic, layout_of(config, found)
        self._counts = {name: topic.partitions for name, topic in found.items()}

    @property
    def layout(self) -> Layout:
        """Return the partition counts known so far."""
        counts = self._counts
        outputs = {name: counts[name] for name in self._first.outputs}
        return replace(self._first, inputs=counts[self._source], outputs=outputs)

    @property
    def counts(self) -> dict[str, int]:
        """Return the known partition count of each topic."""
        return dict(self._counts)

    def hear(self, topic: str, count: int) -> None:
        """Note that a broker reports *count* partitions of *topic*."""
        self._counts[topic] = max(count, self._counts.get(topic, 0))

    def ask(self, admin: AdminClient) -> Layout:
        """Ask the brokers, and return the counts known then.

        Raises:
            LogError: they do not answer, or refuse.
        """
        topics = [self._source, *self._first.outputs]
        doing = f"asking for the partitions of {', '.join(topics)}"
        with kafka_errors(doing):
            answers = admin.describe_topics(TopicCollection(topics), request_timeout=ASK_SECONDS)
        for topic, answer in answers.items():
            try:
                self.hear(topic, len(answer.result().partitions))
            except KafkaException as error:
                trouble = translated(error.args[0], doing)
                # A broker may not know the topic yet. `TopicsWatch` reports one that is gone.
                raise trouble if isinstance(trouble, Denied) else Retriable(str(trouble)) from error
        return self.layout
