"""Reads the records of a topic between offsets; it joins no group and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime

from confluent_kafka import IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.config.problems import did_you_mean
from streamfilter.kafka.brokers.broker_queries import OffsetSpec, list_offsets, start_positions
from streamfilter.kafka.connection.clients import admin_client, consumer, reader_properties
from streamfilter.kafka.connection.errors import kafka_errors, translated
from streamfilter.kafka.connection.one_shot_calls import CALL_SECONDS, asked_once, awaited, listed
from streamfilter.kafka.ports.source import record_of
from streamfilter.model import Record, Source
from streamfilter.process.signals import INTERRUPTION
from streamfilter.stops import ConfigError, Problem, Temporary

READ_RECORDS = 5_000
POLL_SECONDS = 0.2
SILENCE_SECONDS = 30.0  # without a record or an end for so long, the broker is down
BLOCK_FIRST, BLOCK_MAX = 1_000, 64_000  # offsets of a partition that are read at a time, backwards

Bounds = Mapping[int, tuple[int, int]]
"""The first offset of each partition, and the offset after the last."""
Advanced = Callable[[int], None]
"""Called with the number of offsets that were passed since its last call."""
Shown = Callable[[str, int], AbstractContextManager[Advanced]]
"""Shows the progress of so many offsets under a label."""


def no_progress(_: int) -> None:
    """Show nothing."""


class TopicReader:
    """One topic, open to be read: what is committed, or all."""

    def __init__(self, config: Config, topic: str, *, committed: bool = True) -> None:
        self.topic = topic
        level = "read_committed" if committed else "read_uncommitted"
        own = {"auto.offset.reset": "earliest", "isolation.level": level}
        self._client = consumer(config, reader_properties(config) | own)
        self._held: dict[int, tuple[int, int]] = {}  # what `at` may find, by partition

    def partitions(self) -> list[int]:
        """Return the topic's partitions. Raises `Temporary`: it is not there."""
        with kafka_errors(f"asking for the partitions of {self.topic}"):
            topics = self._client.list_topics(self.topic, timeout=SILENCE_SECONDS).topics
        found = topics[self.topic]
        if found.error is not None:
            raise Temporary(f"topic {self.topic}: {found.error.str()}")
        return sorted(found.partitions)

    def bounds(self, admin: AdminClient, since: datetime | None = None, *, stable: bool) -> Bounds:
        """Return the bounds of the records from *since* on.

        If *stable*, the end is that of the transactions that have ended. Otherwise a reader waits
        for those that are open now.
        """
        spots = {number: TopicPartition(self.topic, number) for number in self.partitions()}
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        starts = start_positions(admin, spots, since or "earliest")
        ends = list_offsets(admin, spots, OffsetSpec.latest(), level)
        return {number: (starts[number], ends[number]) for number in spots}

    def records(
        self, bounds: Bounds, advanced: Advanced = no_progress, *, patience: float | None = None
    ) -> Iterator[Record]:
        """Yield the records in *bounds*; *advanced* gets the offsets that were passed.

        With *patience* they are a sample: it ends after so many seconds without a record, and the
        first record behind a gap at the end counts too, since compaction may leave no other.
        Raises `Stop`: a broker or an open transaction holds them back, or a stop was requested.
        """
        at = {number: start for number, (start, end) in bounds.items() if start < end}
        self._client.assign([TopicPartition(self.topic, p, start) for p, start in at.items()])
        silent = 0  # polls in a row; no clock, for the caller may work between two records
        while at:
            INTERRUPTION.obey()
            # `consume` waits for so many messages, or for the whole time.
            most = min(READ_RECORDS, sum(bounds[n][1] - start for n, start in at.items()))
            with kafka_errors(f"reading {self.topic}"):
                messages = self._client.consume(most, POLL_SECONDS)
            silent = 0 if messages else silent + 1
            if patience is not None and silent * POLL_SECONDS > patience:
                return
            if silent * POLL_SECONDS > SILENCE_SECONDS:
                raise Temporary(
                    f"topic {self.topic}: no record and no end for {SILENCE_SECONDS:.0f} s\n"
                    "    cure: see whether its brokers work, and whether a producer left a "
                    "transaction open (kafka-transactions.sh find-hanging)"
                )
            for message in messages:
                number, offset = message.partition(), message.offset()
                if number not in at or offset is None or not _sound(message, self.topic):
                    continue
                end, record = bounds[number][1], message.error() is None
                if record and (offset < end or patience is not None):
                    yield record_of(message)
                reached = min(offset + record, end)
                advanced(max(0, reached - at[number]))
                at[number] = max(at[number], reached)
                if at[number] >= end:
                    del at[number]
                    self._client.incremental_unassign([TopicPartition(self.topic, number)])

    def newest_first(
        self, bounds: Bounds, advanced: Advanced = no_progress
    ) -> Iterator[Iterator[Record]]:
        """Yield the records in *bounds* in blocks, from the end to the beginning.

        Each block must be read to its end before the next one.
        """
        low, size = {number: end for number, (_, end) in bounds.items()}, BLOCK_FIRST
        while any(low[number] > start for number, (start, _) in bounds.items()):
            block = {n: (max(start, low[n] - size), low[n]) for n, (start, _) in bounds.items()}
            yield self.records(block, advanced)
            low, size = {n: start for n, (start, _) in block.items()}, min(2 * size, BLOCK_MAX)

    def at(self, partition: int, offset: int) -> Record | None:
        if partition not in self._held:
            if partition not in self.partitions():
                return None
            self._held[partition] = self._watermarks(partition)
        start, end = self._held[partition]
        if not start <= offset < end:
            return None
        return next(self.records({partition: (offset, offset + 1)}), None)

    def begins(self, partition: int) -> int:
        """Return the first offset that is not deleted now."""
        return self._watermarks(partition)[0]

    def _watermarks(self, partition: int) -> tuple[int, int]:
        with kafka_errors(f"asking for the offsets of {self.topic}"):
            spot = TopicPartition(self.topic, partition)
            return self._client.get_watermark_offsets(spot, CALL_SECONDS)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class TopicReaders:
    """A reader of each topic that was asked for."""

    def __init__(self, config: Config) -> None:
        self._config, self._stack = config, ExitStack()
        self._readers: dict[str, TopicReader] = {}

    def of(self, topic: str) -> TopicReader:
        """Return the reader of *topic*: the same one each time."""
        if topic not in self._readers:
            self._readers[topic] = self._stack.enter_context(TopicReader(self._config, topic))
        return self._readers[topic]

    def at(self, source: Source) -> Record | None:
        return self.of(source.topic).at(source.partition, source.offset)

    def __enter__(self) -> TopicReaders:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()


@contextmanager
def opened(
    config: Config, topic: str, since: datetime | None, *, key: str = "output"
) -> Iterator[tuple[TopicReader, Bounds]]:
    """Yield a reader of *topic* and the bounds of what is committed, or raise `Stop`."""
    admin = admin_client(config)
    known = awaited(config, lambda seconds: listed(config, admin, seconds=seconds))
    if topic not in known:
        raise ConfigError([no_topic(key, topic, known)])
    with asked_once(), TopicReader(config, topic) as reader:
        yield reader, reader.bounds(admin, since, stable=True)


def no_topic(key: str, topic: str, known: Iterable[str]) -> Problem:
    """Return the problem that the brokers show no such topic, with similar names as the cure."""
    names = sorted(name for name in known if not name.startswith("__"))
    cure = did_you_mean(topic, names, what="topics there")
    return Problem(key, f"the brokers show no topic {topic!r}", cure)


def _sound(message: Message, topic: str) -> bool:
    """Return True for a record and for a partition's end; raise an error that stays."""
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return True
    if not error.retriable():
        raise translated(error, f"reading {topic}")
    return False
