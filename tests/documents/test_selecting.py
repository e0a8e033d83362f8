"""Several texts, texts in arrays, ids beside the value: for every format, by the slow way and the
fast one alike."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfilter.config.settings.types import check_pointer
from streamfilter.documents.fields.pointers import Unreadable, parse_pointer, pointer_of
from streamfilter.documents.fields.selecting import Limits, TextSelection
from streamfilter.documents.reader import Reader
from streamfilter.documents.record_keys import key_with, path_in_key
from streamfilter.model import (
    Document,
    ErrorCode,
    Malformed,
    Reading,
    Reason,
    Record,
    Source,
    Unjudged,
    Verdict,
)
from tests.support.cases import cases

SOURCE = Source("docs", 2, 17)
PARTS = ["/title", "/body/text", "/paragraphs/*/text"]


def read(reader: Reader, value: object, **beside: Any) -> Reading:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    key = beside.pop("key", None)
    return reader.read(Record(SOURCE, key, data, **beside))


def code_of(reading: Reading) -> ErrorCode:
    assert isinstance(reading, Malformed), reading
    return reading.code


@cases(
    ("value", "text"),
    [
        ({"title": "a", "body": {"text": "b"}, "paragraphs": [{"text": "c"}, {"text": "d"}]},
         "a\nb\nc\nd"),
        ({"paragraphs": [{"text": "c"}], "title": "a"}, "a\nc"),
        ({"body": {"text": "b"}, "title": None}, "b"),
        ({"body": None, "title": "a", "paragraphs": [{}, {"text": None}, {"text": "d"}]}, "a\nd"),
        ({"paragraphs": {"*": {"text": "a key like any other"}}}, "a key like any other"),
    ],
)  # fmt: skip
def test_texts_that_are_there_are_lines_of_one(value, text):
    assert read(Reader(text=PARTS, id=None), value) == Document("docs-2-17", text)


def test_texts_that_are_all_empty_are_an_empty_text_and_no_text_is_a_dead_letter():
    reader = Reader(text=PARTS, id=None)
    assert isinstance(read(reader, {"title": ""}), Unjudged)
    assert isinstance(read(reader, {"paragraphs": []}), Unjudged)
    assert isinstance(read(reader, {"title": None}), Unjudged)
    for nothing in ({}, {"paragraphs": None}, {"paragraphs": [{}, {"txet": "a"}]}, {"body": {}}):
        reading = read(reader, nothing)
        message = "there is no /title, no /body/text, no /paragraphs/*/text"
        assert reading == Malformed(ErrorCode.MISSING_TEXT, message)


def test_null_on_the_way_to_every_text_is_a_tombstone():
    tombstone = Reader().read(Record(SOURCE, None, None))
    parts = ["/after/title", "/after/body"]
    for text in (parts, "/after/body", "/payload/after/body"):
        reader = Reader(text=text, id="/id")
        assert read(reader, {"after": None, "payload": {"after": None}}) == tombstone
        assert read(Reader(text=text, tombstones="drop"), {"after": None, "payload": None}) == (
            Reader(tombstones="drop").read(Record(SOURCE, None, None))
        )
    empty = Unjudged(Verdict.PASSTHROUGH, Reason.EMPTY)
    assert read(Reader(text=parts, id=None), {"after": {"body": None}}) == empty
    for value in ({"after": {}}, {}, {"after": []}):
        assert isinstance(read(Reader(text=parts), value), Malformed)
    assert code_of(read(Reader(text=["/title", "/after/body"]), {"after": None})) is (
        ErrorCode.MISSING_TEXT
    )
    assert code_of(read(Reader(id="/meta/id"), {"text": "a", "meta": None})) is (
        ErrorCode.WRONG_TYPE
    )


@cases(
    "value",
    [{"title": 7}, {"title": "a", "body": "b"}, {"paragraphs": "c"}, {"paragraphs": ["c"]},
     {"title": "a", "paragraphs": [{"text": ["d"]}]}, [], "a"],
)  # fmt: skip
def test_what_is_no_text_among_several_is_a_dead_letter(value):
    assert code_of(read(Reader(text=PARTS, id=None), value)) is ErrorCode.WRONG_TYPE


def test_the_whole_value_is_a_text_where_it_is_a_string():
    reader = Reader(text="value", id=None)
    assert read(reader, "a story") == Document("docs-2-17", "a story")
    assert code_of(read(reader, {"text": "a story"})) is ErrorCode.WRONG_TYPE


def test_an_id_comes_from_the_key():
    for reader in (Reader(id="key"), Reader("text", id="key")):
        assert read(reader, {"text": "a"}, key="ü".encode()).id == "ü"
        assert code_of(read(reader, {"text": "a"})) is ErrorCode.MISSING_ID
        assert code_of(read(reader, {"text": "a"}, key=b"\xff")) is ErrorCode.BAD_UTF8
        assert code_of(read(reader, {"text": "a"}, key=b"x" * 1025)) is ErrorCode.TOO_LARGE


def test_an_id_comes_from_the_last_header_of_its_name():
    reader = Reader(id="header:ce_id")
    headers = (("ce_id", b"old"), ("ce_id", b"new"), ("id", b"other"))
    assert read(reader, {"text": "a"}, headers=headers) == Document("new", "a")
    for without in ((), (("CE_ID", b"x"),), (("ce_id", b"x"), ("ce_id", None))):
        assert code_of(read(reader, {"text": "a"}, headers=without)) is ErrorCode.MISSING_ID
    reading = read(reader, {"text": "a"}, headers=(("ce_id", b"\xff"),))
    assert reading == Malformed(ErrorCode.BAD_UTF8, "header ce_id is not UTF-8 at byte 0")


@cases(
    ("key", "id_", "forgets"),
    [
        (b'{"id":7,"x":[]}', "7", ("7",)),
        ('{"id":"\u00fc"}'.encode(), "ü", ("ü",)),
        (b'{"id":"\\ud83d"}', "\ufffd", ("\ufffd",)),
        (b'{"id":"a\\u0000"}', "a\0", ("a\0",)),
        (None, ErrorCode.MISSING_ID, ()),
        (b"{}", ErrorCode.MISSING_ID, ()),
        (b'{"id":null}', ErrorCode.WRONG_TYPE, ()),
        (b'{"id":[7]}', ErrorCode.WRONG_TYPE, ()),
        (b'{"id":"' + b"x" * 60_000 + b'"}', ErrorCode.TOO_LARGE, ()),
        (b'{"id":' + b"7" * 60_000 + b"}", ErrorCode.TOO_LARGE, ()),
        (b"7", ErrorCode.WRONG_TYPE, ()),
        (b"", ErrorCode.INVALID_JSON, ()),
        (b"\0\0\0\0\5\x0e", ErrorCode.INVALID_JSON, ()),
        (b"\xff", ErrorCode.BAD_UTF8, ()),
        (b"[" * 60_000, ErrorCode.TOO_DEEP, ()),
    ],
)  # fmt: skip
def test_an_id_comes_from_inside_the_key_and_a_tombstone_names_the_same(key, id_, forgets):
    for format, value in (("json", {"text": "a"}), ("text", b"a")):
        reader = Reader(format, id="key#/id", tombstones="forget")
        reading = read(reader, value, key=key)
        assert (reading.id if isinstance(reading, Document) else code_of(reading)) == id_
        assert reader.read(Record(SOURCE, key, None)).forgets == forgets
    deleted = Reader(text="/after/text", id="key#/id", tombstones="forget")
    assert read(deleted, {"after": None}, key=key).forgets == forgets


@cases(
    ("key", "headers", "forgets", "scope"),
    [
        (b'{"id":7,"tenant":"n"}', (), ("7",), ('"n"',)),
        (b'{"id":7,"tenant":7.0}', (), ("7",), ("7",)),
        (b'{"id":7,"tenant":null}', (), ("7",), (None,)),
        (b'{"id":7,"tenant":" "}', (), ("7",), (None,)),
        (b'{"id":7,"after":{"tenant":"n"}}', (), ("7",), ()),
        (b'{"id":7}', (), ("7",), ()),
        (b'{"id":7,"tenant":"n"}', (("streamfilter-scope", b"s"),), ("7",), ('"s"',)),
        (b'{"id":7}', (("streamfilter-scope", b"s"), ("streamfilter-scope", b"7")), ("7",), ("7",)),
        (b'{"id":7}', (("streamfilter-scope", b'"7"'),), ("7",), ('"7"',)),
        (b'{"id":7}', (("streamfilter-scope", b"null"),), ("7",), (None,)),
        (b'{"id":7}', (("streamfilter-scope", None),), ("7",), (None,)),
        (b'{"id":7}', (("streamfilter-scope", b"[" * 9_999),), ("7",), ('"' + "[" * 9_999 + '"',)),
        (b'{"id":7}', (("streamfilter-scope", b"\xff"),), (), ()),
    ],
)  # fmt: skip
def test_a_tombstone_names_its_scope_by_a_header_or_beside_the_id_in_its_key(
    key, headers, forgets, scope
):
    scoped = {"values": ["/after/tenant"], "scoped": True, "tombstones": "forget"}
    reader = Reader(text="/after/text", id="key#/id", **scoped)
    reading = reader.read(Record(SOURCE, key, None, headers))
    assert (reading.forgets, reading.scope) == (forgets, scope)
    plain = Reader(id="key#/id", tombstones="forget").read(Record(SOURCE, key, None, headers))
    assert (plain.forgets, plain.scope) == (("7",), ())
    if key != b'{"id":7}':
        return
    by_key = Reader(text="/after/text", id="/after/id", **scoped)
    reading = by_key.read(Record(SOURCE, b"7", None, headers))
    assert (reading.forgets, reading.scope) == (forgets, scope)


def test_an_id_inside_a_key_is_read_through_an_envelope_and_json_in_a_string():
    enveloped = Reader(id="key#/payload/id")
    assert read(enveloped, {"text": "a"}, key=b'{"schema":{},"payload":{"id":7}}').id == "7"
    path = path_in_key("key#/outer#/id")
    assert read(Reader(id="key#/outer#/id"), {"text": "a"}, key=key_with(path, "7")).id == "7"


ROW = {
    "text": "a story",
    "id": 7,
    "deep": {"again": '{"text": "b"}'},
    "items": ['{"t": "c"}', "{}"],
}


def inside(value: object) -> object:
    return {"after": value if isinstance(value, str) else json.dumps(value)}


@pytest.mark.parametrize(
    ("text", "id_", "document"),
    [
        ("/after#/text", "/after#/id", Document("7", "a story")),
        (["/after#/text", "/after#/deep/again#/text"], None, Document("docs-2-17", "a story\nb")),
        ("/after#/items/*#/t", None, Document("docs-2-17", "c")),
    ],
)
def test_a_pointer_leads_on_into_json_in_a_string(text, id_, document):
    reader = Reader(text=text, id=id_)
    slow = Reader(text=text, id=id_)
    slow._shortcut = None
    assert read(reader, inside(ROW)) == read(slow, inside(ROW)) == document
    fields = Reader("fields", fields=["/after#/text", "/after#/none"], id="/after#/id")
    assert read(fields, inside(ROW)).id == "7"


@cases(
    ("value", "code", "message"),
    [
        (inside("{"), ErrorCode.INVALID_JSON, "the JSON in /after: "),
        (inside(""), ErrorCode.INVALID_JSON, "the JSON in /after: "),
        (inside("[1]"), ErrorCode.WRONG_TYPE, "/after# is an array, not an object"),
        (inside('{"text":{}}'), ErrorCode.WRONG_TYPE, "/after#/text is an object"),
        (inside('{"text":"\x00"}'), ErrorCode.INVALID_JSON, "/after#/text has a raw control"),
        (inside("{}"), ErrorCode.MISSING_TEXT, "there is no /after#/text"),
        ({"after": {"text": "a"}}, ErrorCode.WRONG_TYPE, "/after is an object"),
        ({"after": 7}, ErrorCode.WRONG_TYPE, "/after is an integer"),
        (
            {"after#": {"text": "a"}},
            ErrorCode.MISSING_TEXT,
            "there is no /after; the field after# is written /after~2",
        ),
        (inside({"text": "a", "x": [[[[1]]]]}), ErrorCode.TOO_DEEP, "the JSON in /after: nested"),
        (inside("[" * 60_000), ErrorCode.TOO_DEEP, "the JSON in /after: nested"),
    ],
)
def test_json_in_a_string_is_read_as_strictly_as_the_value(value, code, message):
    reading = read(Reader(text="/after#/text", id=None, limits=Limits(depth=4)), value)
    assert isinstance(reading, Malformed)
    assert (reading.code, reading.message[: len(message)]) == (code, message)


def test_a_field_that_holds_an_object_or_json_in_a_string_is_named_in_both_forms():
    either = Reader(text=["/after/text", "/after#/text"], id=None)
    for after in ({"text": "a story"}, '{"text": "a story"}'):
        assert read(either, {"after": after}) == Document("docs-2-17", "a story")
    assert read(either, {"after": None}) == Reader().read(Record(SOURCE, None, None))
    for after, code in (
        (7, ErrorCode.WRONG_TYPE), ("{", ErrorCode.INVALID_JSON), ("{}", ErrorCode.MISSING_TEXT),
        ({"text": 7}, ErrorCode.WRONG_TYPE), ({}, ErrorCode.MISSING_TEXT),
    ):  # fmt: skip
        assert read(either, {"after": after}).code is code, after


def test_null_on_the_way_into_json_in_a_string_is_a_tombstone():
    tombstone = Reader().read(Record(SOURCE, None, None))
    for text, value in (
        ("/after#/text", {"after": None}),
        (["/after#/text", "/after#/title"], {"after": None}),
        ("/after#/now/text", inside({"now": None})),
    ):
        assert read(Reader(text=text, id=None), value) == tombstone


def test_only_a_hash_before_a_slash_leads_into_a_string():
    value = {"a#": {"b": "name"}, "#": {"b": "only"}, "a#b": {"c": "within"}, "c#": "last"}
    for text, found in {
        "/a~2/b": "name", "/#/b": "only", "/~2/b": "only", "/a#b/c": "within", "/c#": "last",
        "/c~2": "last",
    }.items():  # fmt: skip
        assert read(Reader(text=text, id=None), value) == Document("docs-2-17", found)
        assert parse_pointer(pointer_of(parse_pointer(text))) == parse_pointer(text)
        assert check_pointer(text) == text


leaves = st.none() | st.integers() | st.text(max_size=4) | st.just("words")
values = st.dictionaries(
    st.sampled_from(["title", "body", "paragraphs", "id"]),
    st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["text", "*"]), inner, max_size=2)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


@pytest.mark.slow
@given(values, values)
@settings(max_examples=400, deadline=None)
def test_the_fast_way_reads_what_the_slow_way_reads(value, within):
    value["body"] = json.dumps(within)
    for texts in (PARTS, [*PARTS[::2], "/body#/title", "/body/text"]):
        fast, slow = Reader(text=texts), Reader(text=texts)
        assert fast._shortcut is not None
        slow._shortcut = None
        assert read(fast, value) == read(slow, value)


ODD = [None, 1, -5, 10**30, True, 1.5, "", "a", "é", "\ud800", b"a", [], {}, [1], {"text": "a"}]


@cases("id_", [None, "/id"])
@cases("text", ODD)
def test_what_is_at_hand_is_what_is_looked_for(text, id_) -> None:
    """The short way past an object of two keys answers as the long one."""
    selection = TextSelection(["/text"], id_)
    roots = [*({"id": each, "text": text} for each in ODD),
             None, [], "a", {}, {"text": text}, {"id": "a"}]  # fmt: skip
    for root in roots:
        assert _outcome(selection, root) == _outcome(selection._looked_for, root)


def _outcome(read: Callable[[object], object], root: object) -> object:
    try:
        return read(root)
    except Unreadable as trouble:
        return trouble.reading
