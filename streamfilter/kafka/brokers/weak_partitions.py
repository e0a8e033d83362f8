"""Finds partitions that cannot be used now: without a leader, or with too few replicas in sync.

Clients wait for such a partition and do not report it. A consumer is silent, and the records of a
producer time out, as over a slow connection. `topic_watch.TopicsWatch` asks for all topics anyway,
so it passes the answers on. Only `min.insync.replicas` is asked for here.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streamfilter.kafka.brokers.topics import ConfigResource
from streamfilter.stops import counted

MIN_IN_SYNC = "min.insync.replicas"
AGAIN = "all partitions can be used again"
LOOKS = 2  # answers in a row with the same weakness: an election takes less time


class WeakPartitions:
    """The partitions of the watched topics that cannot be used, as the brokers reported last."""

    def __init__(
        self, admin: AdminClient, written: Iterable[str], say: Callable[[str], None]
    ) -> None:
        """Prepare for topics, some of them *written*; *say* is called when the findings change."""
        self._admin, self._written, self._say = admin, sorted(set(written)), say
        self._needed: dict[str, int] = {}  # replicas in sync that a write needs, by topic
        self._answers: Mapping[Any, Future[Any]] = {}
        self._found: dict[str, tuple[str, int]] = {}
        """By topic: why it cannot be used, and in how many answers in a row."""
        self._said = ""

    def ask(self) -> None:
        """Ask the brokers for the settings, and never wait for an answer."""
        if all(answer.done() for answer in self._answers.values()):
            self._hear_settings()
            wanted = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in self._written]
            self._answers = self._admin.describe_configs(wanted)

    def _hear_settings(self) -> None:
        for resource, answer in self._answers.items():
            with suppress(KafkaException, ValueError):  # no right to see them, or not there
                entry = answer.result().get(MIN_IN_SYNC)
                self._needed[resource.name] = int(entry.value) if entry else 1

    def hear(self, topic: str, partitions: Sequence[Any]) -> None:
        """Take note of the *partitions* of a *topic*, as the brokers describe them."""
        needed = self._needed.get(topic, 0) if topic in self._written else 0
        weak = [why for each in partitions if (why := _weakness(topic, each, needed))]
        _, looks = self._found.pop(topic, ("", 0))
        if weak:
            more = f" (and {counted(len(weak) - 1, 'more partition')})" if len(weak) > 1 else ""
            self._found[topic] = weak[0] + more, looks + 1

    def settle(self, topics: Collection[str]) -> None:
        """Say what has changed, now that all of the *topics* were heard of."""
        self._found = {topic: found for topic, found in self._found.items() if topic in topics}
        if (now := str(self)) != self._said:
            self._said = now
            self._say(now or AGAIN)

    def __str__(self) -> str:
        """Return which partitions cannot be used and why; empty if all can be."""
        return "; ".join(why for _, (why, looks) in sorted(self._found.items()) if looks >= LOOKS)


def _weakness(topic: str, partition: Any, needed: int) -> str:
    where = f"{topic}/{partition.id}"
    if partition.leader is None:
        return f"{where} has no leader: start the brokers that hold its replicas"
    # Brokers never need more replicas than there are (Kafka 4.0; older ones need what is set).
    if (count := len(partition.isr)) < min(needed, len(partition.replicas)):
        return (
            f"{where} has {counted(count, 'replica')} in sync, and {MIN_IN_SYNC} is {needed}, so "
            "brokers refuse what is written: start those that are down, or lower that setting"
        )
    return ""
