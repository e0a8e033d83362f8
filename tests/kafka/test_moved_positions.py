"""Which offsets a transaction commits: with a thousand partitions all of them took two seconds."""

import random
import struct
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from streamfilter.engine.pace import Pace
from streamfilter.engine.ports import Abortable, Member
from streamfilter.engine.refusals import Refusals
from streamfilter.engine.transaction import WHOLE_SECONDS, Load, Transactions
from streamfilter.model import Positions
from tests.kafka.scripted import FakeClock
from tests.kafka.story import records, texts
from tests.support.stage import Stage
from tests.support.topics import Input

ME = Member(1, "me", b"")
SEED = 20_261_126


class Log:
    """Takes transactions, and remembers what each committed."""

    def __init__(self) -> None:
        self.sent: list[Positions] = []
        self.fails = False

    def send_offsets(self, positions: Positions, member: Member) -> None:
        if self.fails:
            raise Abortable("rebalanced")
        self.sent.append(dict(positions))

    def flush(self) -> int:
        return -1

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def begun(log: Log, clock: FakeClock) -> Transactions:
    quiet = SimpleNamespace(alive=lambda: None, transaction=lambda *_: None, loudly=lambda _: None)
    nothing: Any = SimpleNamespace(check=lambda *_, **__: None, committed=lambda _: None)
    parts: Any = SimpleNamespace(
        sink=log,
        changelog=log,
        clock=clock,
        observer=SimpleNamespace(process=quiet),
        incoming=SimpleNamespace(refusals=Refusals()),
        pace=Pace(clock, 10.0),
        bounds=SimpleNamespace(transaction_seconds=10.0, socket_seconds=10.0),
    )
    return Transactions(parts, nothing)


def test_a_transaction_commits_what_moved_and_all_once_an_hour() -> None:
    log, clock = Log(), FakeClock()
    transactions = begun(log, clock)
    for positions in ({0: 1, 1: 0, 2: 7}, {0: 1, 1: 3, 2: 7}, {0: 2, 1: 3, 2: 8}):
        transactions.run(Load(positions), ME)
    assert log.sent == [{0: 1, 1: 0, 2: 7}, {1: 3}, {0: 2, 2: 8}]
    clock.sleep(WHOLE_SECONDS)
    for _ in range(2):  # and nothing that moved is no reason to send no offset, and so no member
        transactions.run(Load({0: 2, 1: 3, 2: 8}), ME)
    transactions.run(Load({0: 2, 1: 4, 2: 8}), ME)
    assert log.sent[3:] == [{0: 2, 1: 3, 2: 8}, {0: 2, 1: 3, 2: 8}, {1: 4}]


def test_what_an_aborted_transaction_would_have_moved_is_moved_by_the_next() -> None:
    log, clock = Log(), FakeClock()
    transactions = begun(log, clock)
    transactions.run(Load({0: 1, 1: 1}), ME)
    log.fails = True
    assert transactions.run(Load({0: 5, 1: 1}), ME) is None
    log.fails = False
    transactions.run(Load({0: 5, 1: 2}), ME)
    assert log.sent == [{0: 1, 1: 1}, {0: 5, 1: 2}]


def test_a_partition_that_rests_costs_no_offset_and_keeps_the_one_it_has(
    make_stage: Callable[..., Stage],
) -> None:
    stage = make_stage(partitions=3)
    stories = texts(random.Random(SEED), 40)
    stage.produce(records(stories[:30], partitions=3))
    process = stage.start(kafka={"session_timeout": "6s"})
    stage.drain(process)
    before = commits(stage)
    for n in range(30, 40):
        more = records(stories[n : n + 1], first=n)
        stage.produce(Input(each.value, key=each.key, partition=1) for each in more)
        stage.drain(process)
    assert process.terminate() == 0
    new = commits(stage) - before
    assert new[1] >= 10
    assert new[0] == new[2] == 0
    assert committed(stage) == {0: 10, 1: 20, 2: 10}


def committed(stage: Stage) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": stage.bootstrap, "group.id": stage.group})
    found = consumer.committed([TopicPartition(stage.input, p) for p in range(3)], timeout=60)
    consumer.close()
    return {each.partition: each.offset for each in found}


def commits(stage: Stage) -> Counter[int]:
    """Return how often the group's offset of each input partition was written by the broker."""
    consumer = Consumer(
        {
            "bootstrap.servers": stage.bootstrap,
            "group.id": f"{stage.group}-looks",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    topic = "__consumer_offsets"
    left = set(consumer.list_topics(topic, timeout=60).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, p, 0) for p in left])
    found: Counter[int] = Counter()
    while left:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            left.discard(message.partition())
        elif (place := place_of(message.key())) and place[:2] == (stage.group, stage.input):
            found[place[2]] += 1
    consumer.close()
    return found


def place_of(key: bytes | str | None) -> tuple[str, str, int] | None:
    """Return group, topic and partition of an offset's key; None: it is a group's."""
    assert isinstance(key, bytes)
    version, size = struct.unpack_from(">hh", key)
    if version > 1:
        return None
    group, rest = key[4 : 4 + size], key[4 + size :]
    (size,) = struct.unpack_from(">h", rest)
    (partition,) = struct.unpack_from(">i", rest, 2 + size)
    return group.decode(), rest[2 : 2 + size].decode(), partition
