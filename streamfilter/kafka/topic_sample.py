"""Reads the first or last records of a topic as a sample; it joins no group and changes nothing."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

from streamfilter.config.configuration import Config
from streamfilter.engine.batches.breaker import Breaker
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.one_shot_calls import asked_once, awaited, listed
from streamfilter.kafka.topic_reader import TopicReader, no_topic
from streamfilter.model import Record
from streamfilter.stops import ConfigError, Temporary

READ_SECONDS = 10.0
FURTHER = 8  # times as many offsets are looked at next, where none had a record
TOPICS_MAX = 20  # a sample of several topics is read from so many of them


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
    return list(_sample(config, count, earliest=False))


def earliest(config: Config, count: int) -> list[Record]:
    """Return the first *count* records that the input still holds, or more, or raise `Stop`."""
    return list(_sample(config, count, earliest=True))


def latest_of_many(config: Config, count: int) -> Iterator[Record]:
    """Yield the input's last *count* records, or fewer, one by one: none is kept.

    Raises `Stop`: as `latest`, or a stop was requested.
    """
    return islice(_sample(config, count, earliest=False), count)


def first_of(config: Config, topic: str) -> list[Record]:
    """Return the first record of each partition of *topic*, committed or not, or raise `Stop`."""
    return list(_sample(config, 1, earliest=True, topic=topic, committed=False))


def _sample(
    config: Config, count: int, *, earliest: bool, topic: str = "", committed: bool = True
) -> Iterator[Record]:
    """Yield the sample; it ends early if no record of a topic comes for `READ_SECONDS`.

    Offsets may hold no record, as those of aborted transactions: then it goes further.
    """
    admin = clients.admin_client(config)
    known = awaited(config, lambda seconds: listed(config, admin, seconds=seconds))
    read = [topic] if topic else config.input.among(known)[:TOPICS_MAX]
    for each in (topic,) if topic else config.input.exact:
        if each not in known:
            raise ConfigError([no_topic("input.topic", each, known)])
    with asked_once(), ExitStack() as stack:
        readers = [
            stack.enter_context(TopicReader(config, each, committed=committed)) for each in read
        ]
        held = [each.bounds(admin, stable=committed) for each in readers]
        share = share_of([end - start for each in held for start, end in each.values()], count)
        left, found = [dict(each) for each in held], False
        while not found and any(start < end for each in left for start, end in each.values()):
            for reader, bounds in zip(readers, left, strict=True):
                part = {
                    n: (at, min(end, at + share)) if earliest else (max(at, end - share), end)
                    for n, (at, end) in bounds.items()
                }
                for record in reader.records(part, patience=READ_SECONDS):
                    found = True
                    yield record
                for n, (first, last) in part.items():
                    bounds[n] = (last, bounds[n][1]) if earliest else (bounds[n][0], first)
            share *= FURTHER


def share_of(held: Sequence[int], count: int) -> int:
    """Return how many records to read of each partition, so that there are *count* or a few more.

    *held* is how many each partition has. If one has fewer, more are read of the others. For 10
    records of partitions with 2, 50 and 50, the answer is 4. It is at least 1.
    """
    for place, shortest in enumerate(sorted(held)):
        share = max(1, -(-count // (len(held) - place)))
        if share <= shortest:
            return share
        count -= shortest
    return max(held, default=0)
