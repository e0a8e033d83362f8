"""Detects topics that are deleted, recreated or widened while the process runs.

librdkafka reports a deleted topic late or not at all. A consumer of it is silent, a transaction
into it aborts repeatedly, and new partitions are only a log line. So this module asks the brokers
every `ASK_SECONDS`. It reads an answer once it is there, and so never blocks the loop.

New partitions are counted (`partition_counts.py`), and the tasks restart with them. Those that
cannot be used now are named (`weak_partitions.py`). With an index
for each partition (`index.scope: partition`), an operator must act first, and the process ends.

`refuse_stranded` ends the process if a client has lost the addresses of all brokers.

Only topics are requested, never groups. librdkafka aborts the process (`eonce->refcnt > 0`, its
issue 4605) if the connection to a group's coordinator is cut during a request.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.ports import Clock
from streamfilter.kafka.brokers.partition_counts import PartitionCounts
from streamfilter.kafka.brokers.topics import widening
from streamfilter.kafka.brokers.weak_partitions import WeakPartitions
from streamfilter.kafka.connection.clients import logger
from streamfilter.monitoring.client_statistics import Statistics
from streamfilter.stops import ExitCode, Stop, Temporary

ASK_SECONDS = 5.0
ANSWER_SECONDS = 10.0
LIST_SECONDS = 3.0  # short: the process ends only when the list of topics has been answered
MISSING_MAX = 2
"""Consecutive answers without a topic before it counts as deleted. A broker that has just
restarted, or does not know a new topic yet, may once answer that there is none."""


class TopicsWatch:
    """Ends the process if a topic was deleted or recreated; counts the partitions."""

    def __init__(
        self,
        config: Config,
        admin: AdminClient,
        partitions: PartitionCounts,
        clock: Clock,
        weak: WeakPartitions,
    ) -> None:
        self._named, self._partitions, self._weak = config.topics, partitions, weak
        self._input, self._changelog = config.input, config.changelog_topic
        self._cluster = [*config.cluster_topics.values()]
        self._spare = config.sketches_topic if self._cluster else None
        self._lister = ThreadPoolExecutor(1, "topics") if config.input.wildcards else None
        self._listed: Future[Any] | None = None  # names of all topics: no call for it but waits
        self._admin, self._clock = admin, clock
        self._ask_at = clock.monotonic()
        self._answers: Mapping[str, Future[Any]] = {}
        self._ids: dict[str, str] = {}
        self._announced = partitions.counts  # as logged last; a task's start may add newer
        self._missing: dict[str, int] = {}

    @property
    def _roles(self) -> dict[str, str]:
        """Return the watched topics by their roles, with those that fit a pattern."""
        fitting = self._partitions.read.difference(self._input.exact)
        return {**self._named, **{f"input.topics ({each})": each for each in sorted(fitting)}}

    def expect(self, topic: str, topic_id: str) -> None:
        """Treat *topic* as recreated if its id is not *topic_id*."""
        if topic_id:
            self._ids[topic] = topic_id

    def look(self) -> None:
        """Ask the brokers if it is time, and read the answers that came, or raise `Stop`."""
        if self._answers:
            if all(answer.done() for answer in self._answers.values()):
                self._read()
                self._take_up()
        elif self._clock.monotonic() >= self._ask_at:
            self._ask_at = self._clock.monotonic() + ASK_SECONDS
            self._admin.poll(0)  # librdkafka keeps its events until the next poll
            if self._lister is not None and self._listed is None:
                ask = partial(self._admin.list_topics, timeout=LIST_SECONDS)
                self._listed = self._lister.submit(ask)
            wanted = TopicCollection(sorted(set(self._roles.values())))
            # `describe_topics` never creates a topic, even if the brokers allow it.
            self._answers = self._admin.describe_topics(wanted, request_timeout=ANSWER_SECONDS)
            self._weak.ask()

    def _take_up(self) -> None:
        """Let the tasks read new topics that fit ``input.topics``."""
        if self._listed is None or not self._listed.done():
            return
        listed, self._listed = self._listed, None
        if listed.exception() is not None:
            return  # brokers are away; the next look asks again
        found = listed.result().topics
        for topic in set(self._input.among(found)) - self._partitions.read:
            metadata = found[topic]
            if metadata.error is None and metadata.partitions:
                self._partitions.take_up(topic, len(metadata.partitions))
                logger.warning("input.topics: %s is new, and read from its beginning", topic)

    def _read(self) -> None:
        answers, self._answers = self._answers, {}
        for role, topic in self._roles.items():
            if topic not in answers:
                continue  # it was taken up after the request
            try:
                found = answers[topic].result()
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    self._count_missing(role, topic)
            else:
                self._missing.pop(topic, None)
                self._weak.hear(topic, found.partitions)
                self._compare(role, topic, found)
        self._weak.settle(self._roles.values())

    def _count_missing(self, role: str, topic: str) -> None:
        self._missing[topic] = self._missing.get(topic, 0) + 1
        if self._missing[topic] < MISSING_MAX:
            return
        if topic in self._partitions.read and topic not in self._input.exact:
            for known in (self._missing, self._ids, self._announced):
                known.pop(topic, None)
            self._partitions.drop(topic)
            logger.warning("%s: it does not exist any more; the others are read", role)
        else:
            self._refuse_spare(role, topic)
            raise _stop(
                f"{role}: topic {topic!r} does not exist any more; nothing further is judged.\n"
                f"    ways out: {_ways(role)}; what was committed stays, and a restart goes on "
                "from there"
            )

    def _refuse_spare(self, role: str, topic: str) -> None:
        """Raise `Temporary` if edges sign again all that the deleted *topic* held."""
        if topic == self._spare:
            raise Temporary(
                f"{role}: topic {topic!r} was deleted; edges sign again what it held\n"
                "    cure: start again, as a supervisor does: a start makes the topic"
            )

    def _compare(self, role: str, topic: str, found: Any) -> None:
        known = self._ids.setdefault(topic, str(found.topic_id))
        if known != str(found.topic_id):
            self._refuse_spare(role, topic)
            raise _stop(
                f"{role}: topic {topic!r} was deleted and created again while we worked with it; "
                f"nothing further is judged.\n    ways out: {_ways(role)}"
            )
        count = len(found.partitions)
        self._partitions.hear(topic, count)
        new = count - self._announced.setdefault(topic, count)  # new: a changelog created since
        if new <= 0:
            return
        self._announced[topic] = count
        if topic in self._partitions.read and self._cluster:
            raise _stop(
                f"{role}: topic {topic!r} has {count} partitions now, and edges own partitions of "
                "two topics that have fewer.\n    ways out: "
                + ", ".join(f"`{widening(each, count)}`" for each in self._cluster)
                + ", then start the judges, then the edges"
            )
        if topic in self._partitions.read and not self._partitions.layout.whole:
            raise _stop(
                f"{role}: topic {topic!r} has {count} partitions now, {new} of them new, and with "
                "index.scope partition each has an index of its own: keys that moved to another "
                "partition are not compared with what came before.\n"
                f"    ways out: `{widening(self._changelog, count)}`, give the outputs as many, "
                "and start again: the new partitions begin where input.start says"
            )
        logger.warning("%s: %s", role, self._said(topic, count, new))

    def _said(self, topic: str, count: int, new: int) -> str:
        has = f"topic {topic!r} has {count} partitions now, {new} of them new"
        if topic == self._changelog:
            return f"{has}; they stay unused: there are no further tasks"
        if topic in self._partitions.read:
            return f"{has}; they are read from their beginning"
        return f"{has}; they are used from now on, and keys may move between partitions"


def refuse_stranded(statistics: Statistics) -> None:
    """End the process if one of its clients can never reach a broker again (`Temporary`)."""
    if stranded := statistics.stranded():
        raise Temporary(
            f"{', '.join(stranded)}: librdkafka forgot the addresses of all brokers, and does "
            "not find them again; what was committed stays\n"
            "    cure: start again, as a supervisor does"
        )


def _stop(message: str) -> Stop:
    return Stop(message, exit_code=ExitCode.CONFIG)


def _ways(role: str) -> str:
    """Return the ways out if the topic of *role* is gone, or another one: an output may be new."""
    if role.startswith("output."):
        return "`streamfilter check --connect --apply` makes it if it is missing; then start again"
    return "bring the topic back with its records, or begin anew (`streamfilter reset`)"
