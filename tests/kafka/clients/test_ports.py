"""The contract of `RecordSource`, `Sink` and `Changelog`, one suite for all who implement them.

Kafka's clients on a real broker, the simulated ones and the scripted ones run the same tests. So a
test on scripted ports, or a story of the simulator, shows what the engine does on Kafka.
"""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from streamfilter.config.loading import load_config
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.ports import (
    Changelog,
    Entry,
    Member,
    OutcomeUnknown,
    Outgoing,
    ProducerFenced,
    RecordSource,
    Retriable,
    Sink,
)
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.connection import clients
from streamfilter.kafka.ports.changelog import KafkaChangelog
from streamfilter.kafka.ports.membership import parse_member
from streamfilter.kafka.ports.sink import KafkaSink
from streamfilter.kafka.ports.source import KafkaSource
from streamfilter.model import Record, Source
from tests.engine.scripted import FakeClock, ScriptedLog
from tests.simulator.cluster.log import CHANGELOG, INPUT, SimChangelog, SimSink, SimSource
from tests.simulator.world import Life, World
from tests.support.topics import Input, create_topics, read_committed
from tests.support.values import replace
from tests.truth.history import UNIQUE

T = TypeVar("T")
SECONDS = 60.0
VALUES = [b"first", b"second", b"third"]


@dataclass(frozen=True, slots=True)
class Bench:
    """The ports of one task whose input holds `VALUES`, and what the outside sees of its work."""

    source: RecordSource
    sink: Sink
    changelog: Changelog
    member: Member
    unique: str
    outputs: Callable[[], list[bytes | None]]
    successor: Callable[[], Sink]
    """Makes the sink of another process with the same transactional id."""

    def write(
        self,
        values: list[bytes] | None = None,
        *,
        outputs: list[bytes] | None = None,
        offset: int = 0,
        commit: bool = True,
    ) -> int:
        """Run one transaction; return what `flush` did."""
        sink = self.sink
        patiently(sink.begin)
        sink.produce([Outgoing(self.unique, 0, None, value) for value in outputs or ()])
        sink.produce_changelog(values or [])
        last = patiently(sink.flush)
        patiently(lambda: sink.send_offsets({0: offset}, self.member))
        patiently(sink.commit if commit else sink.abort)
        return last

    def entries(self, start: int = 0, end: int | None = None) -> list[Entry]:
        """Read the changelog up to *end*."""
        end = patiently(self.changelog.bounds).end if end is None else end
        reader, found = self.changelog.read(start, end), list[Entry]()
        try:
            deadline = time.monotonic() + SECONDS
            while not reader.done:
                assert time.monotonic() < deadline
                found += reader.read(10, 0.05)
            assert reader.position >= end
        finally:
            reader.close()
        return found

    def take(self, count: int) -> list[Record]:
        """Consume until *count* records are there, and the end after them was reached."""
        found, deadline = list[Record](), time.monotonic() + SECONDS
        while len(found) < count or self.source.reached() != {0: len(VALUES)}:
            assert time.monotonic() < deadline
            found += self.source.consume(10, 0.05)
        return found


def patiently(call: Callable[[], T]) -> T:
    """Repeat *call* until its outcome is decided, as the engine does."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return call()
        except Retriable:
            assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(
    params=[pytest.param("kafka", marks=pytest.mark.kafka), "simulated", "scripted"]
)  # the real one is asked for by name, where no marker would follow
def bench(request: pytest.FixtureRequest) -> Any:
    made = {"kafka": on_kafka, "simulated": simulated, "scripted": scripted}[request.param](request)
    yield made
    made.sink.close()
    made.source.close()


def on_kafka(request: pytest.FixtureRequest) -> Bench:
    stage = request.getfixturevalue("stage")
    create_topics(stage.bootstrap, {stage.changelog: 1})
    stage.produce(map(Input, VALUES))
    config = load_config([stage.configuration()])
    topics = TaskTopics(Inputs(stage.input), stage.changelog, 0)
    admin = clients.admin_client(config)
    properties = clients.producer_properties(
        config,
        transactional_id=clients.transactional_id(config.kafka.group, 0),
        sizes=clients.Sizes(message=1_000_000, batch=1_000_000),
    )

    def reader() -> Any:
        return clients.consumer(config, clients.reader_properties(config))

    def sink() -> KafkaSink:
        return KafkaSink(
            topics,
            admin,
            changelog,
            lambda careful: clients.producer(
                config, {**properties, **(clients.CAREFUL if careful else {})}
            ),
            seconds=SECONDS,
        )

    changelog = KafkaChangelog(topics, admin, reader, lambda: None)
    data = clients.consumer(config, clients.data_properties(config))
    source = KafkaSource(topics, admin, data=lambda: data, reader=reader, seconds=SECONDS)
    member = parse_member(data.consumer_group_metadata())

    def outputs() -> list[bytes | None]:
        return [record.value for record in read_committed(stage.bootstrap, stage.unique)]

    return Bench(source, sink(), changelog, member, stage.unique, outputs, sink)


def simulated(_: object) -> Bench:
    world = World(0)
    world.calm, world.checks = True, SimpleNamespace(trimmed=lambda *_: None)
    world.shape = replace(world.shape, trims=True, thin=None, strict=())
    for topic in (INPUT, CHANGELOG, UNIQUE):
        world.broker.create(topic, 1)
    for offset, value in enumerate(VALUES):
        world.broker.topics[INPUT][0].append(Record(Source(INPUT, 0, offset), None, value))
    life = Life("A1")

    def outputs() -> list[bytes | None]:
        world.advance(1.0)  # while which the last transaction's markers are written
        return [out.value for _, out in world.broker.topics[UNIQUE][0].committed(0)]

    return Bench(
        SimSource(world, life, 0),
        SimSink(world, life, 0),
        SimChangelog(world, life, 0),
        Member(-1, "", b"-1:"),
        UNIQUE,
        outputs,
        lambda: SimSink(world, Life("B1"), 0),
    )


def scripted(_: object) -> Bench:
    log = ScriptedLog(VALUES, FakeClock())

    def outputs() -> list[bytes | None]:
        return [out.value for out in log.outputs]

    member = Member(1, "me", b"")
    return Bench(log, log, log, member, "unique", outputs, lambda: copy.copy(log))


def test_a_source_begins_where_it_was_asked_and_gives_each_record_once(bench: Bench) -> None:
    source = bench.source
    assert patiently(lambda: source.start_positions([0], "earliest")) == {0: 0}
    assert patiently(lambda: source.start_positions([0], "latest")) == {0: 3}
    source.assign({0: 1})
    assert source.reached() == {0: 1}
    assert [record.source.offset for record in bench.take(2)] == [1, 2]
    assert source.ends() == {0: 3}
    source.assign({0: 0})
    assert source.reached() == {0: 0}, "and what was fetched is dropped"
    assert [record.value for record in bench.take(3)] == VALUES
    assert patiently(lambda: source.unread({0: 2})) is True, "another consumer gets one there"
    assert patiently(lambda: source.unread({0: 3})) is False, "and none at the end"


def test_a_transaction_is_visible_as_a_whole_or_not_at_all(bench: Bench) -> None:
    """Its outputs, its records of the changelog, and the group's offsets."""

    def committed() -> dict[int, int]:
        return dict(patiently(lambda: bench.source.committed([0])))

    with pytest.raises(OutcomeUnknown):
        bench.sink.begin()  # without a producer
    patiently(bench.sink.open)
    patiently(bench.changelog.bounds)
    assert committed() == {}
    bench.write([b"lost"], outputs=[b"lost too"], offset=2, commit=False)
    assert committed() == {}
    last = bench.write([b"document", b"batch"], outputs=[b"kept"], offset=2)
    assert committed() == {0: 2}
    assert bench.outputs() == [b"kept"]
    entries = bench.entries()
    assert [entry.value for entry in entries] == [b"document", b"batch"]
    assert [entry.offset for entry in entries] == [last - 1, last], "what flush said"
    bench.sink.serve()
    assert bench.write(outputs=[b"more"], offset=3) == -1, "no record of the changelog"
    assert bench.outputs() == [b"kept", b"more"]
    assert committed() == {0: 3}
    remembered, present = patiently(bench.source.ids)
    assert remembered in ("", present)


def test_opening_and_a_successor_end_the_transaction_of_before(bench: Bench) -> None:
    """A watched producer commits as any other, and the predecessor is fenced."""

    def left_open() -> None:
        bench.sink.begin()
        bench.sink.produce([Outgoing(bench.unique, 0, None, b"lost")])
        bench.sink.produce_changelog([b"lost"])
        patiently(bench.sink.flush)

    patiently(bench.sink.open)
    left_open()
    patiently(lambda: bench.sink.open(watched=True))
    bench.write([b"batch"], outputs=[b"kept"])
    assert bench.sink.compacted([bench.unique]) == []
    left_open()
    successor = bench.successor()
    patiently(successor.open)
    with pytest.raises(ProducerFenced):
        patiently(bench.sink.commit)
    assert [entry.value for entry in bench.entries()] == [b"batch"]
    replace(bench, sink=successor).write([b"more"], outputs=[b"more"])
    successor.close()
    assert bench.outputs() == [b"kept", b"more"]
    assert [entry.value for entry in bench.entries()] == [b"batch", b"more"]


def test_a_reader_ends_where_it_was_asked_and_a_cut_takes_what_was_before_it(bench: Bench) -> None:
    bounds = patiently(bench.changelog.bounds)
    assert (bounds.start, bounds.end) == (0, 0)
    assert bench.entries() == []
    patiently(bench.sink.open)
    first, last = bench.write([b"one"]), bench.write([b"two"])
    bounds = patiently(bench.changelog.bounds)
    assert bounds.start == 0
    assert bounds.end > last
    assert [entry.value for entry in bench.entries(0, last)] == [b"one"]
    assert [entry.value for entry in bench.entries(first + 1)] == [b"two"]
    bench.changelog.refuse_changed()
    for before in (last, 0):  # a second one that takes nothing
        deadline = time.monotonic() + SECONDS
        while not patiently(lambda before=before: bench.changelog.trim(before)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert patiently(bench.changelog.bounds).start == last
    assert bench.changelog.start() in (-1, last)
    assert [entry.value for entry in bench.entries(last)] == [b"two"]
