"""A schema registry that does not answer: the task waits, and every record is read in the end."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streamfilter.documents.codecs.registry import SETTLE_SECONDS, Registry
from streamfilter.documents.codecs.registry_calls import CONNECTIONS_MAX, Access
from streamfilter.documents.codecs.schemas import Schema, SchemaId, SchemasAway
from streamfilter.documents.reader import Reader
from streamfilter.engine.batches.batch_preparation import READ_SECONDS
from streamfilter.engine.clock_and_worker import Inline, ThreadWorker
from streamfilter.engine.ports import Worker
from streamfilter.model import Reading, Record
from streamfilter.process.health import State
from tests.documents.registry_stub import Handler, url
from tests.documents.test_avro import frame, written
from tests.engine.scripted import FakeClock
from tests.engine.world import VALUES, World, undisturbed

__all__ = ["url"]

STORY = {"type": "record", "name": "Story", "fields": [
    {"name": "id", "type": "string"}, {"name": "text", "type": "string"}]}  # fmt: skip


LATER = {**STORY, "fields": [{"name": "new", "type": "string", "default": ""}, *STORY["fields"]]}
PROTO = 'syntax = "proto3"; message Other {} message S { string id = 1; string text = 2; }'
SCHEMAS = {
    "avro": [Schema("AVRO", json.dumps(each)) for each in (STORY, LATER)],
    "protobuf": [
        Schema("PROTOBUF", PROTO.replace("id = 1;", f"id = 1;{more}"))
        for more in ("", " string new = 3;")
    ],
}


class Forgetful:
    """A registry that is away at first, and once more in the middle, where the schema changes."""

    asked, away = 0, (1, 2, 3, 6)

    def __init__(self, format: str) -> None:
        self.schemas = SCHEMAS[format]

    def schema(self, id: SchemaId) -> Schema:
        self.asked += 1
        if self.asked in self.away:
            raise SchemasAway("the registry does not answer")
        return self.schemas[id == 2]


def field(number: int, text: str) -> bytes:
    raw = text.encode()
    return bytes([number << 3 | 2, len(raw) & 127 | 128, len(raw) >> 7]) + raw


def as_avro(row: dict[str, str], id_: int) -> bytes:
    return frame(written({"new": "x", **row}, LATER if id_ == 2 else STORY), id_)


def as_protobuf(row: dict[str, str], id_: int) -> bytes:
    more = field(3, "new") if id_ == 2 else b""
    return frame(b"\2\2" + field(1, row["id"]) + more + field(2, row["text"]), id_)


@pytest.mark.parametrize("worker", [Inline, ThreadWorker])
@pytest.mark.parametrize("write", [as_avro, as_protobuf])
def test_a_registry_that_is_away_pauses_the_task_and_every_format_has_the_verdicts_of_json(
    worker: Callable[[], Any], write: Callable[[dict[str, str], int], bytes]
) -> None:
    values = [write(json.loads(value), number // 15) for number, value in enumerate(VALUES)]
    format = write.__name__.removeprefix("as_")
    registry = Forgetful(format)
    world = World(worker=worker(), values=values, reader=Reader(format, schemas=registry))
    for _ in range(20):
        world.turn()
        if world.health.status.state is State.PAUSED_SCHEMAS:
            break
    assert not world.health.ready
    assert "the registry does not answer; it goes on by itself" in world.health.status.detail
    assert 'paused_partitions{reason="schemas"} 1.0' in world.metrics.expose()[1].decode()
    assert world.result() == []
    world.until(40)
    assert registry.asked == 7, "three ids, and four times no answer"
    same = dict(zip(VALUES, values, strict=True))
    assert [(out.topic, out.value, out.headers) for out in world.log.outputs] == [
        (out.topic, same[out.value or b""], out.headers) for out in undisturbed().log.outputs
    ]
    assert world.health.status.state is State.RUNNING


def values_of(ids: Sequence[int]) -> list[bytes]:
    """Return the stories, each framed by the id that stands in its place."""
    return [
        frame(written(json.loads(value), STORY), id_)
        for value, id_ in zip(VALUES, ids, strict=True)
    ]


def world_of(url: str, ids: Sequence[int], worker: Worker | None = None) -> World:
    """Return a service that reads by the registry at *url*."""
    clock = Later()
    reader = Reader("avro", schemas=Registry(Access(url), clock))
    world = World(batch=40, values=values_of(ids), reader=reader, worker=worker)
    clock.world = world
    return world


class Later:
    """The clock of a world that is made later."""

    world: World | None = None

    def __call__(self) -> float:
        return self.world.clock.monotonic() if self.world else 0.0


KNOWN = (200, {"schema": json.dumps(STORY)})


def test_a_registry_that_hears_late_of_a_schema_costs_no_record(url: str) -> None:
    Handler.answers["/schemas/ids/1"] = KNOWN
    world = world_of(url, [1] * 25 + [2] * 15)
    while world.health.status.state is not State.PAUSED_SCHEMAS:
        world.turn()
    assert world.log.offsets == {0: 25}, "the records before the new schema are not held up"
    assert world.health.status.state is State.PAUSED_SCHEMAS
    assert "knows no schema 2; it is asked again for 5 s" in world.health.status.detail
    Handler.answers["/schemas/ids/2"] = KNOWN
    world.until(40)
    assert [to for to, _ in world.result()] == [to for to, _ in undisturbed().result()]


@pytest.mark.parametrize("worker", [Inline, ThreadWorker])
def test_ids_that_no_schema_has_cost_their_records_and_no_other(url: str, worker: type) -> None:
    """One of 2^31 or more paused the task for ever, and each unknown one cost connections."""
    Handler.answers |= {"/schemas/ids/1": KNOWN, "/schemas/ids/2000000000": (404, b"<html>")}
    strange = [1 << 31, 2_000_000_000, (1 << 32) - 1, *range(500, 522)]
    world = world_of(url, [1] * 5 + strange + [1] * 10, worker())
    begun = world.clock.now
    world.until(40)
    assert world.clock.now - begun < 4 * SETTLE_SECONDS, "they were waited for together"
    dead = [value for to, value in world.result() if to == "dead"]
    assert len(dead) == len(strange)
    good = [*values_of([1] * 40)[:5], *values_of([1] * 40)[30:]]
    assert {value for to, value in world.result() if to == "unique"} <= set(good)
    assert len(Handler.connections) <= CONNECTIONS_MAX


def one_by_one(reader: Reader, records: Sequence[Record]) -> None:
    """Read no records together: each of them is slow."""


class Slow(Reader):
    """A reader whose every record takes two seconds."""

    clock: FakeClock | None = None
    _together = one_by_one

    def read(self, record: Record) -> Reading:
        if self.clock is not None:
            self.clock.sleep(2.0)
        return super().read(record)


def test_a_batch_that_is_long_in_reading_is_cut_and_the_loop_turns() -> None:
    reader = Slow()
    world = World(batch=40, reader=reader)
    reader.clock = world.clock
    ages = []
    for _ in range(60):
        begun = world.clock.now
        world.turn()
        ages.append(world.clock.now - begun)
    assert world.log.offsets == {0: 40}
    assert max(ages) < READ_SECONDS + 3
    assert [to for to, _ in world.result()] == [to for to, _ in undisturbed().result()]


@pytest.mark.slow
def test_whatever_a_worker_does_for_what_the_loop_turns() -> None:
    go_on = threading.Event()

    class Stuck(Reader):
        _together = one_by_one

        def read(self, record: Record) -> Reading:
            go_on.wait(60)
            return super().read(record)

    world = World(batch=40, worker=ThreadWorker(), reader=Stuck())
    for _ in range(5):
        world.turn()
    assert world.log.offsets == {0: 0}
    assert world.health.liveness.alive
    go_on.set()
    world.until(40)
    assert world.result() == undisturbed().result()
