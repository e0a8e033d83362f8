"""Reads the first or last records of a topic as a sample; it joins no group and changes nothing."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from confluent_kafka import Consumer, KafkaError, TopicPartition

from streamfilter.config.configuration import Config
from streamfilter.config.problems import did_you_mean
from streamfilter.engine.batches.breaker import Breaker
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.connection.one_shot_calls import CALL_SECONDS, asked_once, awaited, listed
from streamfilter.kafka.ports.source import record_of
from streamfilter.model import Record
from streamfilter.process.signals import INTERRUPTION
from streamfilter.stops import ConfigError, Problem, Temporary

READ_SECONDS = 10.0
TOPICS_MAX = 20  # a sample of several topics is read from so many of them
POLL_SECONDS = 0.5  # longest wait between two looks at whether a stop was requested


def would_pause(config: Config, records: int, broken: int) -> bool:
    """Return whether *broken* of *records* at the start would trip the dead-letter breaker."""
    breaker = Breaker(config.limits.dead_letter_share)
    breaker.add(records, broken)
    return breaker.tripped


def names(config: Config) -> list[str]:
    """Return the topics that the brokers show us, without internal ones, or raise `Stop`."""
    admin = clients.admin_client(config)
    known = awaited(config, lambda seconds: listed(config, admin, seconds=seconds))
    return sorted(name for name in known if not name.startswith("__"))


def written_by_commands(config: Config) -> str:
    """Return the topic for `forget` and `demo --feed`: the first exactly named, else that fits."""
    if config.input.exact:
        return config.input.first
    fitting = config.input.among(names(config))
    if not fitting:
        raise Temporary(f"no topic fits {config.input.name}")
    return fitting[0]


def latest(config: Config, count: int) -> list[Record]:
    """Return the input's last *count* records, or a few more, or raise `Stop`."""
    return _sample(config, count, earliest=False)


def earliest(config: Config, count: int) -> list[Record]:
    """Return the first *count* records that the input still holds, or more, or raise `Stop`."""
    return _sample(config, count, earliest=True)


def latest_of_many(config: Config, count: int) -> Iterator[Record]:
    """Yield the input's last *count* records, or fewer, one by one: none is kept.

    It ends early if no record comes for `READ_SECONDS`. Raises `Stop`: as `latest`, or a stop was
    requested.
    """
    return islice(_records(config, count, earliest=False, renewed=True), count)


def first_of(config: Config, topic: str) -> list[Record]:
    """Return the first record of each partition of *topic*, committed or not, or raise `Stop`."""
    return _sample(config, 1, earliest=True, topic=topic, **{"isolation.level": "read_uncommitted"})


def _sample(
    config: Config, count: int, *, earliest: bool, topic: str = "", **properties: str
) -> list[Record]:
    return list(_records(config, count, earliest=earliest, topic=topic, properties=properties))


def _records(
    config: Config,
    count: int,
    *,
    earliest: bool,
    topic: str = "",
    renewed: bool = False,
    properties: Mapping[str, str] | None = None,
) -> Iterator[Record]:
    admin = clients.admin_client(config)
    known = awaited(config, lambda seconds: listed(config, admin, seconds=seconds))
    read = [topic] if topic else config.input.among(known)[:TOPICS_MAX]
    for each in (topic,) if topic else config.input.exact:
        if each not in known:
            raise ConfigError([no_topic("input.topic", each, known)])
    with asked_once(), kafka_errors(f"reading {topic or config.input.name}"):
        consumer = clients.consumer(
            config, clients.data_properties(config) | dict(properties or {})
        )
        try:
            partitions = [(each, n) for each in read for n in sorted(known[each].partitions)]
            ends = [
                consumer.get_watermark_offsets(TopicPartition(*each), CALL_SECONDS)
                for each in partitions
            ]
            share = share_of([high - low for low, high in ends], count)
            parts = [
                (low, min(high, low + share)) if earliest else (max(low, high - share), high)
                for low, high in ends
            ]
            for each in read:
                spots = {n: part for (its, n), part in zip(partitions, parts, strict=True)
                         if its == each and part[0] < part[1]}  # fmt: skip
                yield from _read(consumer, each, spots, renewed)
        finally:
            consumer.close()


def no_topic(key: str, topic: str, known: Iterable[str]) -> Problem:
    """Return the problem that the brokers show no such topic, with similar names as the cure."""
    names = sorted(name for name in known if not name.startswith("__"))
    cure = did_you_mean(topic, names, what="topics there")
    return Problem(key, f"the brokers show no topic {topic!r}", cure)


def share_of(held: Sequence[int], count: int) -> int:
    """Return how many records of each partition are *count* or a few more; *held*: theirs.

    What a short partition lacks, the longer ones give. It is one at least.
    """
    for place, shortest in enumerate(sorted(held)):
        share = max(1, -(-count // (len(held) - place)))
        if share <= shortest:
            return share
        count -= shortest
    return max(held, default=0)


def _read(
    consumer: Consumer, topic: str, spots: Mapping[int, tuple[int, int]], renewed: bool
) -> Iterator[Record]:
    """Yield the records from the first offset to before the last, of each partition of *spots*.

    It may take `READ_SECONDS`, or *renewed* for each record.
    """
    open_ = dict(spots)
    consumer.assign([TopicPartition(topic, number, start) for number, (start, _) in open_.items()])
    deadline = time.monotonic() + READ_SECONDS
    while open_ and (left := deadline - time.monotonic()) > 0:
        INTERRUPTION.obey()
        message = consumer.poll(min(left, POLL_SECONDS))
        if message is None:
            continue
        if renewed:
            deadline = time.monotonic() + READ_SECONDS
        error, number = message.error(), message.partition() or 0
        if error is None and number in open_:
            record = record_of(message)
            yield record
            done = record.source.offset + 1 >= open_[number][1]
        else:
            done = error is not None and error.code() == KafkaError._PARTITION_EOF
        if done:
            open_.pop(number, None)
