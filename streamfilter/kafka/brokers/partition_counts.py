"""Counts the partitions of our topics: the largest number that any broker has reported.

Brokers learn of new partitions one after the other, and a topic never loses any. So a later but
smaller number is outdated. The tasks' starts and `topic_watch.py` report their numbers here.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.config.configuration import Config
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.ports import Denied, Layout, Retriable
from streamfilter.kafka.brokers.broker_queries import UNKNOWN_INPUT, known_id
from streamfilter.kafka.brokers.topics import Topics, layout_of
from streamfilter.kafka.connection.errors import kafka_errors, translated
from streamfilter.model import InputTopic, Positions

ASK_SECONDS = 5.0


class SecondTopic(Struct, frozen=True):
    """Offsets of a second topic, committed in the same transaction.

    Each is also the metadata of the first topic's offset, so that an operator's reset shows.
    """

    topic: str
    offsets: Callable[[Positions], Positions]  # by partition, for these positions of the first


class TaskTopics(Struct, frozen=True):
    """The topics that one task reads and writes."""

    inputs: Inputs
    changelog: str
    task: int  # the task's partition of the changelog
    input_id: str = UNKNOWN_INPUT
    beside: SecondTopic | None = None

    def spots(self, numbers: Iterable[int]) -> dict[int, TopicPartition]:
        """Return the input partitions of *numbers* that exist."""
        return {n: TopicPartition(*self.inputs.spot(n)) for n in numbers if self.inputs.exists(n)}

    def offsets(self, positions: Positions) -> list[TopicPartition]:
        """Return the *positions* of input partitions that exist."""
        spots = self.spots(positions)
        if self.beside is None:
            return [TopicPartition(s.topic, s.partition, positions[n]) for n, s in spots.items()]
        others = self.beside.offsets(positions)
        offsets = [TopicPartition(self.beside.topic, p, offset) for p, offset in others.items()]
        return offsets + [
            TopicPartition(s.topic, s.partition, positions[n], str(others.get(n, "")))
            for n, s in spots.items()
        ]


class PartitionCounts:
    """Counts the partitions of the topics of a configuration."""

    def __init__(self, config: Config, found: Topics) -> None:
        self._input, self._first = config.input, layout_of(config, found)
        self._counts = {name: topic.partitions for name, topic in found.items()}
        self._ids: dict[str, str] = {}
        self.read = set(config.input.among(found))  # the input topics that exist

    @property
    def layout(self) -> Layout:
        counts = self._counts
        outputs = {name: counts[name] for name in self._first.outputs}
        topics = [InputTopic(n, self._ids.get(n, ""), counts[n]) for n in sorted(self.read)]
        return replace(
            self._first,
            inputs=sum(each.partitions for each in topics),
            outputs=outputs,
            topics=tuple(topics) if self._input.several else (),
        )

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    def hear(self, topic: str, count: int) -> None:
        self._counts[topic] = max(count, self._counts.get(topic, 0))

    def take_up(self, topic: str, count: int) -> None:
        """Read a further input *topic* from now on."""
        self.hear(topic, count)
        self.read.add(topic)

    def drop(self, topic: str) -> None:
        """Read an input *topic* no more: it is gone, and counts anew if it returns."""
        self.read.discard(topic)
        self._counts.pop(topic, None)
        self._ids.pop(topic, None)

    def ask(self, admin: AdminClient) -> Layout:
        """Ask the brokers, and return the counts known then, or raise `LogError`."""
        topics = sorted({*self.read, *self._first.outputs})
        doing = f"asking for the partitions of {', '.join(topics)}"
        with kafka_errors(doing):
            if self._input.wildcards:
                known = admin.list_topics(timeout=ASK_SECONDS).topics
                topics = sorted({*topics, *self._input.among(known)})
            answers = admin.describe_topics(TopicCollection(topics), request_timeout=ASK_SECONDS)
        for topic, answer in answers.items():
            self._take(topic, answer, doing)
        return self.layout

    def _take(self, topic: str, answer: Future[Any], doing: str) -> None:
        try:
            found = answer.result()
        except KafkaException as error:
            reason = error.args[0]
        else:
            self.hear(topic, len(found.partitions))
            if topic in self._input.among([topic]):
                self.read.add(topic)
                self._ids[topic] = known_id(found)
            return
        gone = reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        if gone and topic in self.read and topic not in self._input.exact:
            self.drop(topic)
            return
        trouble = translated(reason, doing)
        # A broker may not know the topic yet. `TopicsWatch` reports one that is gone.
        raise trouble if isinstance(trouble, Denied) else Retriable(str(trouble))
