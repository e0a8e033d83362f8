import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfilter.documents.fields.pointers import Unreadable
from streamfilter.documents.fields.selecting import Limits
from streamfilter.documents.fields.strict_json import check_depth
from streamfilter.documents.reader import TOGETHER, Reader
from streamfilter.model import Document, ErrorCode, Malformed, Record, Source, Unjudged
from tests.support.cases import cases

LIMITS = Limits(document_bytes=5_000, text_characters=500, depth=5)
READER = Reader(text="/a/text", id="/id", limits=LIMITS)
PLAIN = Reader("text", limits=LIMITS)
PIECES = [b'{"a":{"text":"', b'"},"id":', b"}", b"{", b"[", b"]", b'"', b",", b":", b"\\", b"\\u",
          b"d800", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"1", b"-", b"e9", b"NaN", b"null",
          b" ", b"\x00", b"x" * 600, b"9" * 4_400]  # fmt: skip

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["a", "id", "text", "b"]), inner, max_size=4
    ),
    max_leaves=12,
)  # fmt: skip


def record(value: bytes) -> Record:
    return Record(Source("t", 0, 1), None, value)


@pytest.mark.slow
@given(st.binary(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
@settings(max_examples=400, deadline=None)
def test_any_bytes_give_a_reading(value: bytes) -> None:
    for reader in (READER, PLAIN):
        reading = reader.read(record(value))
        assert isinstance(reading, Document | Unjudged | Malformed)
        if isinstance(reading, Malformed):
            assert reading.code is not ErrorCode.INTERNAL, reading


@pytest.mark.slow
@given(values, st.booleans())
@settings(max_examples=400, deadline=None)
def test_a_reading_is_what_the_standard_library_finds(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    reading = READER.read(record(data))
    expected = expected_reading(json.loads(text))
    if isinstance(reading, Document):
        assert (reading.id, reading.text) == expected
    elif isinstance(reading, Unjudged):
        assert isinstance(expected, tuple)
        assert not expected[1].strip() or not expected[1].isprintable()
    elif reading.code not in (ErrorCode.TOO_DEEP, ErrorCode.TOO_LARGE):
        assert expected is reading.code
    else:
        assert text.count("[") + text.count("{") > 5


def expected_reading(value: Any) -> tuple[str, str] | ErrorCode:
    """Read with nothing but a parsed value: plain, slow and obvious."""
    if not isinstance(value, dict):
        return ErrorCode.WRONG_TYPE
    if "a" not in value:
        return ErrorCode.MISSING_TEXT
    if value["a"] is None:
        return "", ""  # a tombstone
    if not isinstance(value["a"], dict):
        return ErrorCode.WRONG_TYPE
    if "text" not in value["a"]:
        return ErrorCode.MISSING_TEXT
    if not isinstance(value["a"]["text"], str | None):
        return ErrorCode.WRONG_TYPE
    if "id" not in value:
        return ErrorCode.MISSING_ID
    if not isinstance(value["id"], str | int) or isinstance(value["id"], bool):
        return ErrorCode.WRONG_TYPE
    return str(value["id"]), value["a"]["text"] or ""


@pytest.mark.slow
@given(values, st.lists(st.tuples(st.integers(0, 400), st.sampled_from(PIECES)), max_size=3))
@settings(max_examples=300, deadline=None)
def test_the_fast_way_reads_what_the_slow_way_reads(value, pieces):
    data = json.dumps({"id": 1, "a": {"text": "b"}, "more": value}).encode()
    for at, piece in pieces:
        data = data[: at % len(data)] + piece + data[at % len(data) :]
    fast, slow = (Reader(text="/a/text", id="/id", limits=LIMITS) for _ in range(2))
    slow._shortcut = None
    assert fast.read(record(data)) == slow.read(record(data))


@pytest.mark.slow
@given(st.lists(st.tuples(values, st.integers(0, 60), st.sampled_from(PIECES)), min_size=1))
@settings(max_examples=100, deadline=None)
def test_records_that_are_read_together_are_read_as_each_by_itself(broken) -> None:
    given = [json.dumps({"id": at, "a": {"text": "b"}}).encode() for at in range(3 * TOGETHER)]
    for place, (value, at, piece) in enumerate(broken):
        data = json.dumps({"id": "c", "a": {"text": "d"}, "more": value}).encode()
        given[place * 37 % len(given)] = data[:at] + piece + data[at:]
    reader, records = Reader(text="/a/text", id="/id", limits=LIMITS), [*map(record, given)]
    assert reader.read_all(records) == [*map(reader.read, records)]


@pytest.mark.parametrize(
    ("answers", "read"), [([True], TOGETHER), ([False, False, True, False], TOGETHER + 2)]
)
def test_reading_ends_when_it_is_late_between_pieces_or_inside_of_one(answers, read) -> None:
    given = [record(b'{"id":1,"text":"b"}')] * (3 * TOGETHER)
    given[-TOGETHER - 1] = record(b"{")  # the second piece is read one by one
    late = iter(answers + [False] * len(given))
    assert len(Reader().read_all(given, lambda: next(late))) == read


@pytest.mark.slow
@given(values, st.integers(1, 8))
@settings(max_examples=300, deadline=None)
def test_the_depth_of_valid_json_is_found_without_parsing_it(value: Any, limit: int) -> None:
    data = json.dumps(value).encode()
    if depth(value) <= limit:
        check_depth(data, limit)
    else:
        with pytest.raises(Unreadable):
            check_depth(data, limit)


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@pytest.mark.slow
@cases(
    "value",
    [b"[" * 1_000_000, b'"' + b'\\"' * 500_000, b'"' * 1_000_000, b'{"a":' * 200_000,
     b"[]" * 500_000, b"[{" * 300_000 + b'"'],
)  # fmt: skip
def test_a_megabyte_of_brackets_and_quotes_is_read_like_anything_else(value: bytes) -> None:
    assert isinstance(Reader().read(record(value)), Malformed)
