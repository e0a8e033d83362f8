"""A schema registry that does not answer: the task waits, and every record is read in the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from streamfilter.documents.reader import Reader
from streamfilter.documents.schemas import Schema, SchemaId, SchemasAway
from streamfilter.engine.machine import Inline, ThreadWorker
from streamfilter.process.health import State
from tests.documents.test_avro import frame, written
from tests.kafka.test_error_policy import VALUES, World, undisturbed

STORY = {"type": "record", "name": "Story", "fields": [
    {"name": "id", "type": "string"}, {"name": "text", "type": "string"}]}  # fmt: skip


class Forgetful:
    """A registry that is away at first, and once more in the middle."""

    asked, away = 0, (1, 2, 3, 6)

    def schema(self, id: SchemaId) -> Schema:
        self.asked += 1
        if self.asked in self.away:
            raise SchemasAway("the registry does not answer")
        return Schema("AVRO", json.dumps(STORY))


@pytest.mark.parametrize("worker", [Inline, ThreadWorker])
def test_a_registry_that_is_away_pauses_the_task_and_costs_no_record(
    worker: Callable[[], Any],
) -> None:
    values = [
        frame(written(json.loads(value), STORY), number // 15)
        for number, value in enumerate(VALUES)
    ]
    registry = Forgetful()
    world = World(worker=worker(), values=values, reader=Reader("avro", schemas=registry))
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
    calm = undisturbed().result()
    same = dict(zip(VALUES, values, strict=True))
    assert [(to, value) for to, value in world.result() if to == "unique"] == [
        (to, same[value]) for to, value in calm if to == "unique" and value is not None
    ]
    assert [to for to, _ in world.result()] == [to for to, _ in calm]
    assert world.health.status.state is State.RUNNING
