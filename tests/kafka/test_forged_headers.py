"""Records that come with headers of our names: ours can be told from theirs on every topic."""

import json
import random
from typing import Any

import pytest

from streamfilter.model import Headers, Record
from tests.kafka.story import TIMESTAMP
from tests.support.stage import Stage
from tests.support.topics import Input

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
SENT = [
    Input(json.dumps({"id": "a", "text": TEXT}).encode(), headers=FORGED, timestamp=TIMESTAMP),
    Input(json.dumps({"id": "b", "text": TEXT}).encode(), headers=FORGED, timestamp=TIMESTAMP),
    Input(b"{broken", headers=FORGED, timestamp=TIMESTAMP),
    Input(None, headers=FORGED, timestamp=TIMESTAMP),
]


def outputs(stage: Stage, **output: Any) -> dict[str, list[Record]]:
    """Filter the forged records; return what came out."""
    stage.produce(SENT)
    names = {"unique": stage.unique, "duplicates": stage.duplicates}
    process = stage.start(output={**names, "dead_letter": stage.dead_letter, **output})
    stage.drain(process)
    assert process.terminate() == 0
    return stage.outputs()


def ours(record: Record) -> dict[str, str]:
    """Return our headers as the README tells a reader to find them; none may be there twice."""
    found = [
        (name.removeprefix(OURS), (value or b"").decode())
        for name, value in record.headers
        if name.startswith(OURS) and not name.startswith(THEIRS)
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_what_is_forwarded_stays_as_it_came_and_elsewhere_forged_headers_are_renamed(
    stage: Stage,
) -> None:
    found = outputs(stage)
    assert [each.headers for each in found["unique"]] == [FORGED, FORGED]
    (duplicate,) = found["duplicates"]
    assert duplicate.headers[: len(MOVED)] == MOVED
    said = ours(duplicate)
    assert (said["verdict"], said["id"], said["match.id"]) == ("exact_duplicate", "b", "a")
    assert "error.code" not in said
    (letter,) = found["dead_letter"]
    assert letter.headers[: len(MOVED)] == MOVED
    said = ours(letter)
    assert said["error.code"] == "invalid_json"
    assert "verdict" not in said
    assert "match.id" not in said


def test_in_shadow_mode_the_annotations_of_the_unique_topic_are_ours(stage: Stage) -> None:
    found = outputs(stage, mode="shadow")["unique"]
    assert [each.headers[: len(MOVED)] for each in found] == [MOVED] * 3
    said = [ours(each) for each in found]
    assert [each["verdict"] for each in said] == ["unique", "exact_duplicate", "passthrough"]
    assert "match.id" not in said[0]
    assert said[1]["match.id"] == "a"


@pytest.mark.parametrize("mode", ["envelope", "reference"])
def test_beside_an_envelope_no_header_is_taken_for_ours(stage: Stage, mode: str) -> None:
    (duplicate,) = outputs(stage, duplicates_mode=mode)["duplicates"]
    assert duplicate.headers == MOVED
    assert ours(duplicate) == {}
    assert json.loads(duplicate.value or b"")["canonical_id"] == "a"
