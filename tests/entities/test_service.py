"""Records through `run` on a real broker: the fields survive in the changelog."""

import json
import shutil

from tests.entities.customers import customers
from tests.support.stage import Stage
from tests.support.topics import Input

SETTINGS = {
    "input": {
        "format": "fields",
        "fields": {"/name": "words", "/address": "words", "/phone": "digits"},
        "held_out": "/created",
    },
    "similarity": {"threshold": 0.75},
    "kafka": {"session_timeout": "6s"},
}


def run(stage: Stage, records: list[dict[str, str]]) -> None:
    stage.produce([Input(json.dumps(record).encode()) for record in records])
    stage.run(**{**SETTINGS, "input": {**SETTINGS["input"], "topic": stage.input}})


def test_planted_customers_are_found_though_the_index_was_lost_between(stage: Stage) -> None:
    planted = customers(9, 200)
    run(stage, planted.records[:220])
    shutil.rmtree(stage.directory / "state")
    run(stage, planted.records[220:])
    found = set()
    for record in stage.outputs()["duplicates"]:
        headers = {name: value.decode() for name, value in record.headers if value}
        id_ = json.loads(record.value or b"")["id"]
        found.add(frozenset((id_, headers["__streamfilter.match.id"])))
    assert found <= planted.pairs
    assert len(found) >= 0.97 * len(planted.pairs)
