"""Forgetting by id, on the wire: tombstones, an index that was made without ids, a lost disk."""

import json
import shutil

import pytest

from streamfilter.cli import main
from tests.kafka.story import STATIC, TIMESTAMP, die_at, id_of
from tests.support.stage import Stage
from tests.support.topics import Input, header

TEXT = "the old mill by the river was sold to a young family from the city on monday in spring"
FORGET = {"input": {"tombstones": "forget"}, "kafka": STATIC["kafka"]}
LONG = "x" * 60_000
MANY = tuple(b"nobody-%d" % number for number in range(5_000))
UNKNOWN = (b"nobody", b"\xff", b'"a1"', LONG.encode(), None, b"a1", *MANY)
"""Keys of no document: unknown, no UTF-8, JSON, too long, none, whose document is gone; and
more than a batch of them."""


def document(id_: str | int, *more: str) -> Input:
    value = json.dumps({"id": id_, "text": " ".join((TEXT, *more))}).encode()
    return Input(value, key=b"k", timestamp=TIMESTAMP)


def tombstone(key: bytes | None) -> Input:
    return Input(None, key=key, timestamp=TIMESTAMP)


def run(stage: Stage, **sections) -> dict[str, float]:
    process = stage.start(**sections)
    stage.drain(process)
    lines = (process.get("/metrics") or "").splitlines()
    assert process.terminate() == 0, process.with_log("did not end well")
    return {name: float(value) for name, _, value in (line.partition(" ") for line in lines)
            if any(part in name for part in ("forgotten", "unknown_tomb", "updates"))}  # fmt: skip


def test_a_tombstone_forgets_the_documents_before_it_and_a_lost_disk_brings_none_back(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.produce([document("a1")])
    run(stage, kafka=FORGET["kafka"])
    refused = stage.start(**FORGET)
    assert refused.wait_for_exit() == 78
    said = refused.with_log("")
    assert "ids: it has none to find documents by" in said
    assert "input.tombstones: forget" in said
    shutil.rmtree(stage.directory / "state")  # the way out: the restore makes what is missing
    gone = map(tombstone, UNKNOWN)
    young = [document(LONG), document(3, "y"), document("a4")]
    stage.produce([document("a2", "x"), tombstone(b"a1"), *gone, *young])
    counted = run(stage, **FORGET)
    assert counted["streamfilter_forgotten_documents_total"] == 1
    assert counted["streamfilter_unknown_tombstones_total"] == len(UNKNOWN)
    shutil.rmtree(stage.directory / "state")
    stage.produce([document("a5")])
    run(stage, **FORGET)
    config = ["--config", str(stage.configuration(**FORGET))]
    assert main(["forget", *config, "3", "a1"]) == 0
    said = capsys.readouterr().err
    assert "3: 1 document\na1: not remembered\n1 document of 1 id would be forgotten" in said
    assert "nothing was written; --yes writes 2 tombstones" in said
    assert main(["forget", *config, "3", "--yes"]) == 0
    assert f"wrote 1 tombstone to {stage.input}" in capsys.readouterr().err
    stage.produce([document("a6"), tombstone(b"a6"), document("a7")])
    assert run(stage, **FORGET)["streamfilter_forgotten_documents_total"] == 2
    stage.produce([tombstone(b"a7"), document("a8")])
    die_at(stage, "forget.begun:1", FORGET)
    run(stage, **FORGET)
    outputs = stage.outputs()
    told = [
        (id_of(each), header(each, "__streamfilter.match.id")) for each in outputs["duplicates"]
    ]
    assert told == [("a2", "a1"), ("a4", "3"), ("a5", "3")]
    out = [(each.key, id_of(each) if each.value else None) for each in outputs["unique"]]
    assert out == [
        (b"k", "a1"), (b"a1", None), *((key, None) for key in UNKNOWN), (b"k", "3"),
        (b"3", None), (b"k", "a6"), (b"a6", None), (b"k", "a7"), (b"a7", None),
        (b"k", "a8"),
    ]  # fmt: skip
    (letter,) = outputs["dead_letter"]
    assert "the id has 60000 bytes" in (header(letter, "__streamfilter.error.message") or "")


@pytest.mark.slow
def test_an_id_is_forgotten_in_one_scope_or_in_all(embedded_stage, capsys) -> None:
    """Two tenants have a row 7."""

    def row(id_: str, tenant: str, *more: str) -> Input:
        value = {"id": id_, "tenant": tenant, "text": " ".join((TEXT, *more))}
        return Input(json.dumps(value).encode(), key=b"k", timestamp=TIMESTAMP)

    stage: Stage = embedded_stage()
    given = {**FORGET, "index": {"scope_field": "/tenant"}}

    config = ["--config", str(stage.configuration(**given))]
    stage.produce([row("7", "north"), row("7", "south")])
    process = stage.start(**given)
    stage.drain(process)
    assert main(["forget", *config, "7"]) == 0
    assert "7: 2 documents" in capsys.readouterr().err
    assert main(["forget", *config, "--scope", "north", "7"]) == 0
    assert "7: 1 document" in capsys.readouterr().err
    assert main(["forget", *config, "--scope", "north", "7", "--yes"]) == 0
    stage.produce([row("8", "north"), row("8", "south")])
    stage.produce([tombstone(b"8"), tombstone(b"7"), row("9", "south"), row("9", "north")])
    stage.drain(process)
    metrics = process.get("/metrics") or ""
    assert "streamfilter_forgotten_documents_total 3.0" in metrics
    assert process.terminate() == 0, process.with_log("did not end well")
    outputs = stage.outputs()
    assert [header(each, "__streamfilter.match.id") for each in outputs["duplicates"]] == ["7"]
    out = [json.loads(each.value) for each in outputs["unique"] if each.value]
    names = [each["id"] + each["tenant"][0] for each in out]
    assert names == ["7n", "7s", "8n", "9s", "9n"]
    assert main(["forget", *config, "--set", "index.scope_field=null", "--scope", "n", "7"]) == 64
