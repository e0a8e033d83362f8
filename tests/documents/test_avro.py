"""Avro: what another implementation wrote is read, what is no value is reported, cheaply."""

import io
import itertools
import json
from typing import Any
from uuid import UUID

import fastavro
import pytest
from fastavro.utils import generate_many
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfilter.assembly import reader_for
from streamfilter.cli import main
from streamfilter.config.loading import load_config
from streamfilter.documents.codecs.schemas import HEADER, OneSchema, Schema, SchemaId
from streamfilter.documents.codecs.varints import as_long, as_string
from streamfilter.documents.fields.pointers import parse_pointer
from streamfilter.documents.fields.selecting import Limits
from streamfilter.documents.reader import Reader
from streamfilter.model import (
    Document,
    ErrorCode,
    Headers,
    Malformed,
    Reading,
    Reason,
    Record,
    Source,
    Unjudged,
    Verdict,
)
from tests.support.cases import cases

ARTICLE = {
    "type": "record", "name": "Article", "namespace": "news", "fields": [
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "links", "type": {"type": "array", "items": "string"}},
        {"name": "labels", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "text", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEWS", "ADVERT"]}},
        {"name": "sum", "type": {"type": "fixed", "name": "Sum", "size": 4}},
        {"name": "paragraphs", "type": {"type": "array", "items": {
            "type": "record", "name": "Paragraph", "fields": [
                {"name": "text", "type": "string"}, {"name": "kind", "type": "Kind"}]}}},
        {"name": "more", "type": ["null", "Paragraph"]},
        {"name": "done", "type": "boolean"}, {"name": "rate", "type": "float"},
    ],
}  # fmt: skip
ID = "0f3a1b52-1111-4222-8333-123456789abc"
VALUE = {
    "seen": 1_700_000_000_000, "price": b"\x01\x02", "links": ["a", "b"],
    "labels": {"x": 1.5, "y": None}, "id": ID, "text": "a störy", "kind": "ADVERT",
    "sum": b"abcd", 
    "paragraphs": [{"text": "one", "kind": "NEWS"}, {"text": "two", "kind": "NEWS"}],
    "more": {"text": "three", "kind": "NEWS"}, "done": True, "rate": 0.5,
}  # fmt: skip
SOURCE = Source("docs", 0, 7)


def written(value: Any, schema: Any = ARTICLE) -> bytes:
    to = io.BytesIO()
    fastavro.schemaless_writer(to, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return to.getvalue()


def frame(content: bytes, id_: int = 7) -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + content


class Shelf:
    """Schemas by their ids, as a registry has them."""

    def __init__(self, schemas: dict[SchemaId, Any]) -> None:
        self.schemas, self.asked = schemas, 0

    def schema(self, id: SchemaId) -> Schema:
        self.asked += 1
        known = self.schemas[id]
        return known if isinstance(known, Schema) else Schema("AVRO", json.dumps(known))


def reader(schema: Any = ARTICLE, *, framed: bool = False, **more: Any) -> Reader:
    only = OneSchema(Schema("AVRO", json.dumps(schema)))
    return Reader("avro", schemas=only, framed=framed, **more)


def read(by: Reader, value: bytes, headers: Headers = ()) -> Reading:
    return by.read(Record(SOURCE, None, value, headers))


def code_of(reading: Reading) -> ErrorCode:
    assert isinstance(reading, Malformed), reading
    return reading.code


KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}


@pytest.mark.parametrize("format", ["json", "avro"])
def test_an_id_inside_a_key_in_a_frame_is_read_by_the_keys_schema(format):
    shelf = Shelf({5: KEY, 7: ARTICLE, 8: {"type": "string"}})
    by = Reader(format, id="key#/id", schemas=shelf, tombstones="forget")
    value = frame(written(VALUE)) if format == "avro" else json.dumps({"text": "a störy"}).encode()
    seven = written({"id": 7}, KEY)
    in_header = (("__key_schema_id", b"\0" + (5).to_bytes(4, "big")),)
    for key, headers in ((frame(seven, 5), ()), (seven, in_header), (b'{"id": "7"}', ())):
        assert by.read(Record(SOURCE, key, value, headers)) == Document("7", "a störy")
        assert by.read(Record(SOURCE, key, None, headers)).forgets == ("7",)
    for key in (frame(written("7", {"type": "string"}), 8), frame(b"", 5), frame(seven + b"x", 5)):
        assert isinstance(by.read(Record(SOURCE, key, value)), Malformed)
        assert by.read(Record(SOURCE, key, None)).forgets == ()


@cases(
    ("text", "id_", "expected"),
    [
        ("/text", "/id", Document(ID, "a störy")),
        ("/kind", "/seen", Document("1700000000000", "ADVERT")),
        (["/more/text", "/paragraphs/*/text", "/text"], None,
         Document("docs-0-7", "three\none\ntwo\na störy")),
        (["/links/*"], "/more/text", Document("three", "a\nb")),
        ("/price", None, ErrorCode.WRONG_TYPE), ("/links", None, ErrorCode.WRONG_TYPE),
        ("/more", None, ErrorCode.WRONG_TYPE), ("/id/text", None, ErrorCode.WRONG_TYPE),
        ("/labels/x", None, ErrorCode.WRONG_TYPE), ("/labels/z", None, ErrorCode.MISSING_TEXT),
        ("/body", None, ErrorCode.MISSING_TEXT), ("/text", "/rate", ErrorCode.WRONG_TYPE),
        ("/text", "/sum", ErrorCode.WRONG_TYPE), ("/text", "/no", ErrorCode.MISSING_ID),
    ],
)  # fmt: skip
def test_pointers_lead_through_records_arrays_maps_unions_and_enums(text, id_, expected):
    reading = read(reader(text=text, id=id_), written(VALUE))
    assert reading == expected or code_of(reading) is expected


def test_a_text_that_is_null_is_empty_and_a_field_of_a_record_reads_as_in_json():
    value = written({**VALUE, "text": None})
    assert read(reader(), value) == Unjudged(Verdict.PASSTHROUGH, Reason.EMPTY)
    assert read(reader(empty_text="exact_only"), value) == Document(ID, "")
    assert read(reader(text=["/text", "/kind"]), value) == Document(ID, "ADVERT")
    fields = reader(id="/id", fields=["/text", "/seen", "/rate", "/more/text"], held_out="/seen")
    plain = Reader(id="/id", fields=["/text", "/seen", "/rate", "/more/text"], held_out="/seen")
    told = {key: VALUE[key] for key in ("id", "text", "seen", "rate", "more")}
    assert read(fields, written(VALUE)) == read(plain, json.dumps(told).encode())


def test_a_uuid_of_sixteen_bytes_is_a_text():
    fixed = {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}
    fields = [{"name": "id", "type": fixed}, {"name": "text", "type": "string"}]
    value = UUID(ID).bytes + as_string("a")
    assert read(reader({"type": "record", "name": "A", "fields": fields}), value) == (
        Document(ID, "a")
    )


def test_a_key_of_a_map_that_no_pointer_names_may_be_no_utf_8():
    fields = [{"name": "by", "type": {"type": "map", "values": "string"}}]
    entries = [as_long(1) + b"\xff" + as_string("x"), as_string("text") + as_string("a")]
    value = as_long(2) + b"".join(entries) + as_long(0)
    by = reader({"type": "record", "name": "A", "fields": fields}, text="/by/text", id=None)
    assert read(by, value) == Document("docs-0-7", "a")


def test_a_schema_changes_in_mid_stream_and_a_renamed_text_is_found_by_its_alias():
    first = {"type": "record", "name": "A", "fields": [{"name": "text", "type": "string"}]}
    added = {**first, "fields": [{"name": "new", "type": "long"}, *first["fields"]]}
    renamed = {**first, "fields": [{"name": "body", "type": "string", "aliases": ["text"]}]}
    shelf = Shelf({1: first, 2: added, UUID(ID): renamed})
    by = Reader("avro", id=None, schemas=shelf)
    header = ((HEADER, b"\x01" + UUID(ID).bytes),)
    for _ in range(3):
        assert read(by, frame(written({"text": "a"}, first), 1)) == Document("docs-0-7", "a")
        value = written({"new": 5, "text": "b"}, added)
        assert read(by, frame(value, 2)) == Document("docs-0-7", "b")
        assert read(by, value, ((HEADER, b"\0\0\0\0\2"),)) == Document("docs-0-7", "b")
        assert read(by, written({"body": "c"}, renamed), header) == Document("docs-0-7", "c")
    assert shelf.asked == 3, "each schema once"


def test_schemas_refer_to_others_by_name():
    part = {"type": "record", "name": "Part", "namespace": "a.b",
            "fields": [{"name": "text", "type": "string"}]}  # fmt: skip
    whole = {"type": "record", "name": "Whole", "namespace": "c",
             "fields": [{"name": "part", "type": "a.b.Part"}]}  # fmt: skip
    schema = Schema("AVRO", json.dumps(whole), (("a.b.Part", json.dumps(part)),))
    by = Reader("avro", text="/part/text", id=None, schemas=OneSchema(schema), framed=False)
    assert read(by, b"\x08word") == Document("docs-0-7", "word")


@cases("size", [0, 1, 4, 5, 6, 20])
def test_a_frame_that_is_cut_short_is_a_dead_letter(size):
    by = reader(framed=True)
    whole = frame(written(VALUE))
    assert isinstance(read(by, whole), Document)
    assert code_of(read(by, whole[:size])) is ErrorCode.SCHEMA_DECODE
    assert code_of(read(by, whole[: -size - 1])) is ErrorCode.SCHEMA_DECODE
    assert code_of(read(by, whole + b"x")) is ErrorCode.SCHEMA_DECODE


def test_what_bears_no_frame_is_reported_as_that():
    reading = read(reader(framed=True), b'{"text":"hunter2"}')
    assert reading == Malformed(
        ErrorCode.SCHEMA_DECODE, "the value begins with byte 123: no registry's frame"
    )
    for compressed in (b"\0", b"\5"):
        glue = b"\3" + compressed + UUID(ID).bytes
        assert "AWS Glue's frame" in read(reader(framed=True), glue + written(VALUE)).message
        assert "AWS Glue's" not in read(reader(framed=True), glue[:-1]).message
    for content in (b"\x01short", b"\x02" + bytes(16), b"\0\0"):
        assert code_of(read(reader(framed=True), b"", ((HEADER, content),))) is (
            ErrorCode.SCHEMA_DECODE
        )


def test_a_schema_of_another_kind_or_of_none_is_a_dead_letter():
    for schema in (Schema("PROTOBUF", "message A {}"), Schema("AVRO", "{"), Schema("AVRO", '"x"'),
                   Schema("AVRO", '{"type":"record","name":"A"}'),
                   Schema("AVRO", "[" * 100_000)):  # fmt: skip
        by = Reader("avro", schemas=Shelf({7: schema}))
        assert code_of(read(by, frame(b"\0"))) is ErrorCode.SCHEMA_DECODE


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "cannot read"), ("{", "the schema is none"), ('"strange"', "the schema is none")],
)
def test_check_says_what_is_wrong_with_the_file_of_a_schema(content, told, tmp_path, capsys):
    path = tmp_path / "article.avsc"
    if content is not None:
        path.write_text(content)
    settings = ("input.format=avro", f"input.schema_file={path}")
    assert main(["check", *(each for one in settings for each in ("--set", one))]) == 78
    said = capsys.readouterr().out
    assert said.startswith("input.schema_file: ")
    assert told in said
    path.write_text(json.dumps(ARTICLE))
    config = load_config((), {}, overrides=(*settings, "input.framing=none"))
    assert read(reader_for(config), written(VALUE)) == Document(ID, "a störy")


def long(number: int) -> bytes:
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*out, zigzag])


NODE = {"type": "record", "name": "Node", "fields": [
    {"name": "text", "type": "string"}, {"name": "next", "type": ["null", "Node"]},
    {"name": "nothings", "type": {"type": "array", "items": {
        "type": "array", "items": {"type": "record", "name": "No", "fields": []}}}},
    {"name": "parts", "type": {"type": "array", "items": "bytes"}}]}  # fmt: skip
HUGE = 2**61


@pytest.mark.slow
@cases(
    ("value", "code"),
    [
        (long(HUGE) + b"abc", ErrorCode.SCHEMA_DECODE),
        (long(-1) + b"abc", ErrorCode.SCHEMA_DECODE),
        (b"\xff" * 1_000_000, ErrorCode.SCHEMA_DECODE),
        (b"\0" + long(7), ErrorCode.SCHEMA_DECODE),
        (b"\0" + long(-7), ErrorCode.SCHEMA_DECODE),
        (b"\0\0" + long(HUGE), ErrorCode.SCHEMA_DECODE),
        (b"\0\0\0" + long(HUGE) + long(-1) + b"abc", ErrorCode.SCHEMA_DECODE),
        (b"\0\0\0" + long(9) + long(-9) + b"abc" * 9, ErrorCode.SCHEMA_DECODE),
        (b"\0\2" * 500_000, ErrorCode.TOO_DEEP),
        (b"\0\0" + long(90_000) + (long(99_000) + b"\0") * 90_000, ErrorCode.SCHEMA_DECODE),
    ],
)  # fmt: skip
def test_no_bytes_cost_more_than_their_number(value, code):
    by = reader(NODE, id=None, limits=Limits(document_bytes=2_000_000))
    assert code_of(read(by, value)) is code


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    fields_ = [{"name": key, "type": type_} for key, type_ in fields]
    return {"type": "record", "name": name, "fields": fields_}


@pytest.mark.slow
def test_a_record_may_have_many_columns_of_nulls():
    nulls = [(f"n{number}", "null") for number in range(998)]
    schema = record("A", *nulls, ("text", "string"))
    assert read(reader(schema, id=None), b"\x06abc") == Document("docs-0-7", "abc")
    lists = record("A", ("many", {"type": "array", "items": schema | {"name": "B"}}))
    by = reader(lists, text="/many/*/text", id=None)
    assert read(by, b"\x02\x06abc\0") == Document("docs-0-7", "abc")
    assert code_of(read(by, long(1_000) + b"\x06abc" * 1_000 + b"\0")) is ErrorCode.SCHEMA_DECODE


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record("A", *((f"n{number}", "null") for number in range(5_001))), "5,000 fields"),
        (record("A" * 1_001), "a name of more than 1,000 characters"),
        (record("A", ("text", "Unknown")), "SchemaParseException"),
        (["string", "string"], "SchemaParseException"), ({"type": 5}, "the schema is none"),
        ({"type": "record", "name": "A", "fields": 5}, "the schema is none"),
    ],
    ids=range(6),
)  # fmt: skip
def test_a_schema_beyond_limits_is_a_dead_letter_with_a_short_message(schema, why):
    reading = read(Reader("avro", schemas=Shelf({7: schema})), frame(b"\2a"))
    assert code_of(reading) is ErrorCode.SCHEMA_DECODE
    assert why in reading.message
    assert len(reading.message) < 400


def test_a_type_may_be_wrapped_and_named_without_its_namespace():
    wrapped = {
        "type": {"type": ["null", {"type": {"type": "string", "avro.java.string": "String"}}]}
    }
    part = record("Part", ("text", wrapped))
    schema = record("A", ("one", part), ("other", {"type": "Part"})) | {"namespace": "c"}
    by = reader(schema, text=["/one/text", "/other/text"], id=None)
    assert read(by, b"\2\2a\2\2b") == Document("docs-0-7", "a\nb")
    whole = record("Whole", ("part", "Part")) | {"namespace": "c"}
    references = (("Part", json.dumps(part)), ("c.Whole", json.dumps(whole)))
    schema = OneSchema(Schema("AVRO", '"c.Whole"', references))
    by = Reader("avro", text="/part/text", id=None, schemas=schema, framed=False)
    assert read(by, b"\2\2a") == Document("docs-0-7", "a")


@cases("size", [0, 1, 63, 64, 127, 128, 8_191, 8_192, 1_050_000])
def test_texts_are_read_and_passed_over_whatever_their_length_is(size):
    fields = [{"name": name, "type": "string"} for name in ("text", "other", "more")]
    schema = {"type": "record", "name": "A", "fields": fields}
    long_one, short = "a" * size, "b"
    for texts in ((long_one, short, short), (short, long_one, short), (short, short, long_one)):
        value = written(dict(zip(("text", "other", "more"), texts, strict=True)), schema)
        for name, text in zip(("text", "other", "more"), texts, strict=True):
            by = reader(schema, text=f"/{name}", id=None, empty_text="exact_only")
            assert read(by, value) == Document("docs-0-7", text)
            assert code_of(read(by, value[:-1])) is ErrorCode.SCHEMA_DECODE


names = st.sampled_from(["text", "id", "a", "b"])
plain = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])


NUMBERS = itertools.count()
"""A type has a name of its own."""


@st.composite
def schemas(draw: Any, depth: int = 3) -> Any:
    kind = draw(st.sampled_from(["plain", "record", "array", "map", "union", "enum", "fixed"]))
    name = f"N{next(NUMBERS)}"
    if depth == 0 or kind == "plain":
        return draw(plain)
    if kind == "record":
        keys = draw(st.lists(names, unique=True, max_size=4))
        fields = [{"name": key, "type": draw(schemas(depth - 1))} for key in keys]
        return {"type": "record", "name": name, "fields": fields}
    if kind in ("array", "map"):
        return {"type": kind, {"array": "items", "map": "values"}[kind]: draw(schemas(depth - 1))}
    if kind == "union":
        return ["null", draw(plain.filter(lambda each: each != "null"))]
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["X", "Y"]}
    return {"type": "fixed", "name": name, "size": 3}


@pytest.mark.slow
@given(schemas(), st.data())
@settings(max_examples=200, deadline=None)
def test_what_is_read_is_what_another_implementation_reads(schema, data):
    from streamfilter.documents.codecs.avro_values import AvroValues  # an extra; others import us

    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    try:
        value = next(iter(generate_many(parsed, 1)))
    except RecursionError:
        return
    written_ = io.BytesIO()
    fastavro.schemaless_writer(written_, parsed, value)
    whole = written_.getvalue()
    known = fastavro.schemaless_reader(io.BytesIO(whole), parsed, None)
    for pointer in ("/text", "/id/text", "/a/*", "/a/*/b", "/text/*/id", "/b/a/text"):
        path = parse_pointer(pointer)
        found, end = AvroValues(json.dumps(schema)).reader([path]).value(whole, 0)
        assert end == len(whole)
        assert leaves(found, path) == leaves(known, path), pointer


def leaves(here: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return type(here) if isinstance(here, dict | list) else here
    if path[0] == "*" and isinstance(here, list):
        return list(dict.fromkeys(repr(leaves(each, path[1:])) for each in here))
    return leaves(here[path[0]], path[1:]) if isinstance(here, dict) and path[0] in here else None
