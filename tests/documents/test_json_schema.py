"""JSON in a registry's frame is read as JSON; what bears no frame is reported."""

import json

from streamfilter.assembly import reader_for
from streamfilter.config.loading import load_config, read_config
from streamfilter.documents.codecs.schemas import HEADER
from streamfilter.model import Document, ErrorCode, Headers, Malformed, Reading, Record, Source
from tests.support.cases import cases

FRAME = b"\0\0\0\0\7"
FORMAT = "input.format=json_schema"
VALUE = {"id": 7, "title": "a", "body": ["b", "c"]}


def read(value: bytes, headers: Headers = (), *settings: str) -> Reading:
    texts = "input.text=[/title, '/body/*']"
    reader = reader_for(load_config((), {}, overrides=(FORMAT, texts, *settings)))
    return reader.read(Record(Source("in", 0, 1), None, value, headers))


def test_a_frame_is_put_aside_wherever_it_is():
    bare = json.dumps(VALUE).encode()
    assert read(FRAME + bare) == Document("7", "a\nb\nc")
    assert read(bare, ((HEADER, b"\1" + bytes(16)),)) == Document("7", "a\nb\nc")
    assert read(FRAME + bare, (), "input.id=null") == Document("in-0-1", "a\nb\nc")


def test_the_parser_takes_out_what_is_named_as_it_does_of_bare_json(monkeypatch):
    def parse_json(value: bytes) -> object:
        raise AssertionError("the slow way")

    monkeypatch.setattr("streamfilter.documents.formats.json.parse_json", parse_json)
    assert read(FRAME + b'{"id":1,"title":"a"}') == Document("1", "a")
    reader = reader_for(load_config((), {}, overrides=(FORMAT,)))
    record = Record(Source("in", 0, 1), None, FRAME + b'{"id":1,"text":"a","x":[]}')
    assert reader.read(record) == Document("1", "a")


@cases(
    ("value", "code"),
    [
        (b'{"title":"a"}', ErrorCode.SCHEMA_DECODE), (b"", ErrorCode.SCHEMA_DECODE),
        (FRAME[:4], ErrorCode.SCHEMA_DECODE), (FRAME, ErrorCode.INVALID_JSON),
        (FRAME + b'{"title":"a"', ErrorCode.INVALID_JSON),
        (FRAME + b'{"title":"\xff"}', ErrorCode.BAD_UTF8),
        (FRAME + b"[" * 1_000, ErrorCode.TOO_DEEP),
        (FRAME + b'{"id":1}', ErrorCode.MISSING_TEXT),
    ],
)  # fmt: skip
def test_what_is_none_has_its_code(value, code):
    reading = read(value)
    assert isinstance(reading, Malformed)
    assert reading.code is code


def test_records_are_compared_by_fields_and_no_registry_is_asked():
    fields = "input.fields={/name: words, /phone: digits}"
    reader = reader_for(load_config((), {}, overrides=(FORMAT, fields, "similarity.threshold=0.5")))
    plain = reader_for(
        load_config((), {}, overrides=("input.format=fields", fields, "similarity.threshold=0.5"))
    )
    value = json.dumps({"id": "1", "name": "Ann Lee", "phone": 12}).encode()
    assert reader.read(Record(Source("in", 0, 1), None, FRAME + value)) == (
        plain.read(Record(Source("in", 0, 1), None, value))
    )
    problems = read_config((), {}, (FORMAT, "input.registry.url=http://registry:8081")).problems
    assert [problem.key for problem in problems] == ["input.registry.url"]
