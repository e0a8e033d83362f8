"""Formats with schemas, end to end: the verdicts of JSON, whatever a registry does meanwhile."""

import json
import random
from collections.abc import Callable
from typing import Any

from deploy.local.node import free_ports
from streamfilter.model import Record
from streamfilter.process.health import State
from tests.documents.registry_stub import Handler, serving
from tests.documents.test_avro import frame, written
from tests.kafka.story import TIMESTAMP
from tests.support.stage import Stage
from tests.support.topics import Input, header

AVRO = {"type": "record", "name": "S", "fields": [
    {"name": "id", "type": "string"}, {"name": "text", "type": "string"}]}  # fmt: skip
LATER = {**AVRO, "fields": [{"name": "new", "type": "string", "default": ""}, *AVRO["fields"]]}
PROTO = 'syntax = "proto3"; message Other {} message S { string id = 1; string text = 2; }'
ANSWERS: dict[str, Any] = {
    f"/schemas/ids/{id_}": (200, {"schema": text, "schemaType": kind})
    for id_, kind, text in (
        (1, "AVRO", json.dumps(AVRO)), (2, "AVRO", json.dumps(LATER)), (3, "PROTOBUF", PROTO),
        (4, "PROTOBUF", PROTO.replace("id = 1;", "id = 1; string new = 3;")),
    )
}  # fmt: skip


def documents() -> list[dict[str, str]]:
    """Return stories, each of which comes again some time later, as it was or nearly so."""
    dice = random.Random(18)
    texts = [" ".join(f"w{dice.randrange(9_000)}" for _ in range(60)) for _ in range(40)]
    texts += [text + dice.choice(["", " and more"]) for text in texts]
    return [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]


def field(number: int, text: str) -> bytes:
    raw = text.encode()
    size = [len(raw) & 127 | 128, len(raw) >> 7 & 127 | 128, len(raw) >> 14]
    return bytes([number << 3 | 2, *size]) + raw


def as_json(row: dict[str, str], later: bool) -> bytes:
    return json.dumps(row).encode()


def as_avro(row: dict[str, str], later: bool) -> bytes:
    return frame(written({"new": "x", **row}, LATER if later else AVRO), 2 if later else 1)


def as_protobuf(row: dict[str, str], later: bool) -> bytes:
    more = field(3, "new") if later else b""
    return frame(b"\2\2" + field(1, row["id"]) + more + field(2, row["text"]), 4 if later else 3)


def found(stage: Stage, name_of: Callable[[Record], str]) -> dict[str, Any]:
    """Return what became of each document, with the evidence."""
    became: dict[str, Any] = {}
    for place, records in stage.outputs().items():
        for each in records:
            evidence = {
                name: (value or b"").replace(stage.input.encode(), b"in")
                for name, value in each.headers
                if name.startswith("__streamfilter.")
            }
            name = name_of(each)
            assert name == "broken" or name not in became, f"{name} came out twice"
            became[name] = place, evidence
    return became


def lived(stage: Stage, format: str) -> dict[str, Any]:
    """Return what became of the documents in that format; half of them are of a later schema."""
    (port,) = free_ports(1)
    write = {"json": as_json, "avro": as_avro, "protobuf": as_protobuf}[format]
    values = [write(row, number >= 40) for number, row in enumerate(documents())]
    rows: dict[bytes | None, str] = {v: f"d{number}" for number, v in enumerate(values)}
    given = {"format": format, "topic": stage.input}
    schemas = format != "json"
    if schemas:
        given["registry"] = {"url": f"http://127.0.0.1:{port}", "timeout": "2s"}
    process = stage.start(input=given, kafka={"session_timeout": "6s"})
    stage.produce([Input(value, timestamp=TIMESTAMP) for value in values[:40]])
    Handler.answers = dict.fromkeys(ANSWERS, (503, {}))
    with serving(port):
        if schemas:
            process.wait_for_state(State.PAUSED_SCHEMAS.value)
        Handler.answers = ANSWERS
        stage.drain(process)
    stage.produce([Input(value, timestamp=TIMESTAMP) for value in values[40:]])
    if schemas:
        process.wait_for_state(State.PAUSED_SCHEMAS.value)
    with serving(port):
        stage.drain(process)
        if schemas:
            stage.produce([Input(frame(b"\0", 99)), Input(values[0][:-1])])
            stage.drain(process)
    assert process.terminate() == 0, process.told("did not end well")
    letters = stage.outputs()["dead_letter"]
    codes = [header(each, "__streamfilter.error.code") for each in letters]
    assert codes == ["schema_unknown", "schema_decode"] * schemas
    became = found(stage, lambda each: rows.get(each.value, "broken"))
    became.pop("broken", None)
    return became


def test_every_format_has_the_verdicts_of_json_while_its_registry_dies_and_comes_back(
    make_stage: Callable[..., Stage],
) -> None:
    plain = lived(make_stage(), "json")
    assert {place for place, _ in plain.values()} == {"unique", "duplicates"}
    for format in ("avro", "protobuf"):
        assert lived(make_stage(), format) == plain
