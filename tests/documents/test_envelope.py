import base64
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import streamfilter
from streamfilter.engine.messages.forwarding import Destinations, Forwarder, Style
from streamfilter.engine.ports import Layout
from streamfilter.matching.verdict import envelope
from streamfilter.matching.verdict.evidence_headers import PREFIX
from streamfilter.model import Decision, ErrorCode, Malformed, Match, Record, Source, Verdict
from tests.support.cases import cases

SCHEMA_FILE = Path(streamfilter.__file__).parent / "schemas" / "envelope.json"
SCHEMA = Draft202012Validator(json.loads(SCHEMA_FILE.read_text()))
SOURCE = Source("docs", 1, 90210)
NEAR = Decision(
    Verdict.NEAR_DUPLICATE,
    (Match("doc-4", 0.914, 11, Source("docs", 3, 88123), 7),),
    "exact_jaccard",
)
EXACT = Decision(
    Verdict.EXACT_DUPLICATE, (Match("doc-4", 1.0, 0, Source("docs", 3, 1), 7),), "exact_text"
)
SAMPLED = Decision(
    Verdict.NEAR_DUPLICATE,
    (Match("a", 2 / 3, 3, Source("docs", 0, 1), 1), Match("b", 0.6, 2, Source("docs", 0, 2), 2)),
    "sampled_jaccard",
    matches_truncated=True,
    p_false_positive=0.000123456789,
)
UNIQUE = Decision(Verdict.UNIQUE)


def evidence(decision: Decision) -> envelope.Json:
    return envelope.evidence(
        decision, document_id="doc-9", source=SOURCE, scheme="a1b2c3d4", threshold=0.8
    )


def test_a_near_duplicates_evidence_is_the_documented_example_to_the_byte() -> None:
    assert envelope.encode(evidence(NEAR)).decode() == (
        '{"schema":1,"verdict":"near_duplicate","id":"doc-9","similarity":0.914,'
        '"method":"exact_jaccard","threshold":0.8,'
        '"matches":[{"id":"doc-4","similarity":0.914,"bands":11,"topic":"docs","partition":3,'
        '"offset":88123}],"matches_truncated":false,"canonical_id":"doc-4","scheme":"a1b2c3d4",'
        '"p_false_positive":0.0,"source":{"topic":"docs","partition":1,"offset":90210}}'
    )


@pytest.mark.parametrize("decision", [NEAR, EXACT, SAMPLED, UNIQUE])
def test_headers_say_what_the_envelope_says(decision: Decision) -> None:
    layout, limits = Layout(1, dict.fromkeys(("u", "d"), 1)), dict.fromkeys(("u", "d"), 10_000)
    style = Style(shadow=True, duplicates_mode="annotate", scheme="a1b2c3d4", threshold=0.8)
    forwarder = Forwarder(Destinations("u", "d", None, limits), style, layout)
    out = forwarder.output(Record(SOURCE, None, b"{}"), decision, "doc-9")
    assert out is not None
    told, said = evidence(decision), {PREFIX + "matches": envelope.encode([]), **dict(out.headers)}
    flat = {name: told[name] for name in ("schema", "verdict", "id", "scheme", "p_false_positive")}
    flat |= {f"source.{name}": part for name, part in told["source"].items()}
    flat |= {"canonical.id": told["canonical_id"]}
    for best in told["matches"][:1]:
        places_of = ("id", "similarity", "topic", "partition", "offset")
        flat |= {f"match.{name}": best[name] for name in places_of}
    wanted = {PREFIX + name: str(part).encode() for name, part in flat.items()}
    if decision.matches_truncated:
        wanted[PREFIX + "matches_truncated"] = b"true"
    assert said == wanted | {PREFIX + "matches": envelope.encode(told["matches"])}


@cases("decision", [NEAR, EXACT, SAMPLED, UNIQUE])
@cases("value", [b'{"text":"\xc3\xa9"}', b"\xff\x00", b"", None])
def test_every_envelope_keeps_the_published_schema(decision: Decision, value: bytes | None) -> None:
    record = json.loads(envelope.encode(envelope.with_payload(evidence(decision), value)))
    SCHEMA.validate(record)
    SCHEMA.validate(evidence(decision))


@cases("code", ErrorCode)
def test_every_dead_letter_keeps_the_published_schema(code: ErrorCode) -> None:
    record = envelope.rejection(Malformed(code, "why"), source=SOURCE)
    SCHEMA.validate(envelope.with_payload(record, b"x"))
    assert record["error"] == {"stage": "read", "code": code.value, "message": "why"}


@cases(
    ("key", "value"),
    [("verdict", "maybe"), ("scheme", "xyz"), ("similarity", 1.5), ("matches", [{"id": "a"}]),
     ("threshold", 0), ("payload", "x"), ("schema", 2), ("matches_truncated", 0)],
)  # fmt: skip
def test_the_schema_refuses_what_is_wrong(key: str, value: object) -> None:
    assert not SCHEMA.is_valid({**evidence(NEAR), key: value})


@pytest.mark.parametrize("value", [b"plain", "grüße\x00".encode(), b"\xff\xfe", b""])
def test_a_payload_comes_back_byte_for_byte(value: bytes) -> None:
    record = envelope.with_payload(evidence(NEAR), value)
    assert envelope.decode(envelope.encode(record)).value == value


def test_bytes_that_are_no_text_are_marked_as_base64() -> None:
    record = envelope.with_payload(evidence(NEAR), b"\xff")
    assert record["payload_encoding"] == "base64"
    assert base64.b64decode(record["payload"]) == b"\xff"


def test_a_reference_has_no_payload_to_read_back() -> None:
    assert envelope.decode(envelope.encode(evidence(NEAR))).value is None


def test_a_unique_document_stands_for_itself_and_has_no_similarity() -> None:
    record = evidence(UNIQUE)
    assert record["canonical_id"] == "doc-9"
    assert record["similarity"] is None
    assert record["method"] is None


def test_matches_keep_their_order_and_figures_are_rounded_for_recognition() -> None:
    record = evidence(SAMPLED)
    assert [match["id"] for match in record["matches"]] == ["a", "b"]
    assert record["similarity"] == 0.666667
    assert record["p_false_positive"] == 0.000123457
    assert record["matches_truncated"] is True


def test_evidence_is_read_back_with_its_places() -> None:
    found = envelope.decode(envelope.encode(evidence(SAMPLED)))
    assert found.verdict is Verdict.NEAR_DUPLICATE
    assert found.source is not None
    assert found.source.source == SOURCE
    assert [match.source for match in found.matches] == [m.source for m in SAMPLED.matches]


@cases("line", [b"", b"[]", b'{"verdict":"no"}', b"\xff", b"{"])
def test_what_is_no_envelope_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match="no envelope"):
        envelope.decode(line)
