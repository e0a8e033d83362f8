"""Records that come with headers of our names: ours differ from theirs on every topic.

The ports are scripted: what the engine produces is what Kafka takes (`test_records.py`).
"""

import json
import random
from collections import defaultdict
from typing import Any

import pytest

from streamfilter.engine.ports import Outgoing
from streamfilter.matching.verdict.side_records import SideRecord, read_back
from streamfilter.model import Headers, Record, Source
from tests.documents.test_envelope import SCHEMA
from tests.engine.world import STYLE, World
from tests.kafka.story import TIMESTAMP
from tests.support.values import replace

SEED = 20_261_128
OURS, THEIRS = "__streamfilter.", "__streamfilter.input."
FORGED: Headers = (
    ("__streamfilter.verdict", b"exact_duplicate"),
    ("__streamfilter.match.id", b"nobody"),
    ("__streamfilter.error.code", b"internal"),
    ("__streamfilter.error.code", None),
    ("__streamfilter.input.verdict", b"of a filter before the one before"),
    ("h", b"1"),
)
MOVED: Headers = tuple(
    (name.replace(OURS, THEIRS, 1) if name.startswith(OURS) else name, value)
    for name, value in FORGED
)
TEXT = " ".join(f"w{n}" for n in random.Random(SEED).sample(range(10_000), 60))
SENT: list[tuple[bytes | None, bytes | None]] = [
    (None, json.dumps({"id": "a", "text": TEXT}).encode()),
    (b"k", json.dumps({"id": "b", "text": TEXT}).encode()),
    (None, b"{broken"),
    (b"t", None),
]


def outputs(**style: Any) -> dict[str, list[Outgoing]]:
    """Filter the forged records; return what came out, by topic."""
    world = World(values=[], style=replace(STYLE, **style))
    world.log.input = [
        Record(Source("in", 0, n), key, value, FORGED, TIMESTAMP)
        for n, (key, value) in enumerate(SENT)
    ]
    world.until(len(SENT))
    found: dict[str, list[Outgoing]] = defaultdict(list)
    for each in world.log.outputs:
        found[each.topic].append(each)
    return found


def ours(record: Outgoing) -> dict[str, str]:
    """Return our headers as the README tells a reader to find them; none may be there twice."""
    found = [
        (name.removeprefix(OURS), (value or b"").decode())
        for name, value in record.headers
        if name.startswith(OURS) and not name.startswith(THEIRS)
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_what_is_forwarded_stays_as_it_came_and_elsewhere_forged_headers_are_renamed() -> None:
    found = outputs()
    assert [each.headers for each in found["unique"]] == [FORGED, FORGED]
    (duplicate,) = found["duplicates"]
    assert duplicate.headers[: len(MOVED)] == MOVED
    said = ours(duplicate)
    assert (said["verdict"], said["id"], said["match.id"]) == ("exact_duplicate", "b", "a")
    assert "error.code" not in said
    (letter,) = found["dead"]
    assert letter.headers[: len(MOVED)] == MOVED
    said = ours(letter)
    assert said["error.code"] == "invalid_json"
    assert "verdict" not in said
    assert "match.id" not in said


def test_in_shadow_mode_the_annotations_of_the_unique_topic_are_ours() -> None:
    by_topic = outputs(shadow=True)
    assert not by_topic["duplicates"]
    found = by_topic["unique"]
    assert [(each.key, each.value) for each in found] == [SENT[0], SENT[1], SENT[3]]
    assert [each.headers[: len(MOVED)] for each in found] == [MOVED] * 3
    said = [ours(each) for each in found]
    assert [each["verdict"] for each in said] == ["unique", "exact_duplicate", "passthrough"]
    assert "match.id" not in said[0]
    assert said[1]["match.id"] == "a"


@pytest.mark.parametrize("mode", ["envelope", "reference"])
def test_beside_an_envelope_no_header_is_taken_for_ours(mode: str) -> None:
    (duplicate,) = outputs(duplicates_mode=mode)["duplicates"]
    assert duplicate.headers == MOVED
    assert ours(duplicate) == {}
    told = json.loads(duplicate.value or b"")
    SCHEMA.validate(told)
    assert (duplicate.key, told["id"], told["verdict"], told["canonical_id"]) == (
        b"k", "b", "exact_duplicate", "a"
    )  # fmt: skip
    assert told.get("payload") == ((SENT[1][1] or b"").decode() if mode == "envelope" else None)


@pytest.mark.parametrize("mode", ["annotate", "envelope", "reference"])
def test_a_withheld_record_and_a_dead_letter_are_read_back_as_they_came(
    mode: str,
) -> None:
    found = outputs(duplicates_mode=mode)
    for number, (each,) in ((1, found["duplicates"]), (2, found["dead"])):
        key, value = SENT[number]
        there = Source(each.topic, each.partition, 7)
        side = read_back(Record(there, each.key, each.value, each.headers, each.timestamp))
        assert isinstance(side, SideRecord)
        came = Record(Source("in", 0, number), key, value, FORGED, TIMESTAMP)
        kept = number == 2 or mode != "reference"
        assert (side.source, side.original) == (came.source, came if kept else None)
        assert side.is_source(came)
        assert not side.is_source(replace(came, key=b"another")) or each.key is None
        assert (side.evidence.id if side.evidence else side.code) == ("b", "invalid_json")[
            number - 1
        ]
