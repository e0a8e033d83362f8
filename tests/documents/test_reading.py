import pytest

from streamfilter.documents.fields.selecting import ID_BYTES_MAX, Limits
from streamfilter.documents.reader import Reader, is_blank
from streamfilter.entities.joined import join_fields
from streamfilter.model import (
    Document,
    ErrorCode,
    Malformed,
    Reason,
    Record,
    Source,
    Unjudged,
    Verdict,
)
from streamfilter.similarity.scheme import Normalisation
from streamfilter.similarity.text.normalisation import Normaliser
from tests.support.cases import cases
from tests.support.values import replace

SOURCE = Source("docs", 2, 17)
FORWARDED = Verdict.PASSTHROUGH


def record(value: bytes | None, **more: str) -> Record:
    return Record(SOURCE, b"key", value, headers_error=more.get("headers_error"))


def code_of(reader: Reader, value: bytes | None) -> ErrorCode:
    reading = reader.read(record(value))
    assert isinstance(reading, Malformed), reading
    return reading.code


SECRET = "hunter2"
POISON = {
    ErrorCode.INVALID_JSON: [
        b"", b" ", b"{", b"nul", b'{"text":"hunter2","id":1', b'{"text":"hunter2","id":1}}',
        b"{'text':'hunter2'}", b'{"text":"hunter2","id":1,}', b'{"text":"hunter2\x00","id":1}',
        b'{"text":"hunter2\n","id":1}', b'{"text":"hunter2\\x","id":1}', b'{"text":"a","id":01}',
        b'{"text":"hunter2","id":1,"n":nan}', b'{"text":"hunter2","id":1,"n":-}',
        b'{"text":"a","id":1} trailing', b"\x00", b'{"text":"a","id":"hunter2\t","n":NaN}',
    ],
    ErrorCode.MISSING_TEXT: [b"{}", b'{"id":1}', b'{"Text":"hunter2","id":1}'],
    ErrorCode.MISSING_ID: [b'{"text":"hunter2"}', b'{"text":"hunter2","ID":1}'],
    ErrorCode.WRONG_TYPE: [
        b"[]", b"null", b'"hunter2"', b"7", b"true", b'{"text":7,"id":1}',
        b'{"text":null,"id":null}',
        b'{"text":NaN,"id":1}', b'{"text":"a","id":NaN}', b'{"text":"a","id":-Infinity}',
        b'{"text":["hunter2"],"id":1}', b'{"text":{"a":"hunter2"},"id":1}',
        b'{"text":"a","id":1.5}',
        b'{"text":"a","id":1e3}', b'{"text":"a","id":null}', b'{"text":"a","id":true}',
        b'{"text":"a","id":["hunter2"]}', b'{"text":"a","text":5,"id":1}',
    ],
    ErrorCode.BAD_UTF8: [
        b'{"text":"hunter2\xff","id":1}', b'{"text":"hunter2\xed\xa0\x80","id":1}',
        b'{"text":"hunter2","id":"\xff"}', b'{"text":"\xff","id":1,"n":NaN,"other":"\xff\t"}',
        b"\xff\xfe{\x00", '{"text":"hunter2","id":1}'.encode("utf-16"), b'{"a":"\xff"',
        b'{"text":"hunter2\xf4\x90\x80\x80","id":1}',
    ],
    ErrorCode.TOO_LARGE: [
        b'{"text":"' + b"x" * 2_001 + b'","id":1}', b'{"pad":"' + b"x" * 10_000 + b'"}',
        b'{"text":"a","id":"' + b"x" * (ID_BYTES_MAX + 1) + b'"}',
        b'{"text":"a","id":' + b"9" * 5_000 + b"}",
    ],
    ErrorCode.TOO_DEEP: [
        b'{"text":"hunter2","id":1,"x":' + b"[" * 1_000 + b"]" * 1_000 + b"}",
        b'{"x":' * 1_000 + b"1" + b"}" * 1_000, b"[" * 9_000, b'{"x":[' * 100,
        b"[" * 65 + b"]" * 65,
    ],
}  # fmt: skip
READER = Reader(limits=Limits(document_bytes=10_000, text_characters=2_000, depth=64))


@cases(("code", "value"), [(code, value) for code, values in POISON.items() for value in values])
def test_poison_has_its_code_and_its_message_tells_nothing_of_it(code, value):
    reading = READER.read(record(value))
    assert isinstance(reading, Malformed), reading
    assert reading.code is code
    assert reading.message
    assert SECRET not in reading.message
    assert reading.stage == "read"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (ErrorCode.TOO_LARGE, ["limits.text_characters", "limits.document", "fixed", "fixed"]),
        (ErrorCode.TOO_DEEP, ["limits.depth"] * 5),
    ],
)
def test_a_limit_is_named_by_its_setting(code: ErrorCode, names: list[str]) -> None:
    for value, name in zip(POISON[code], names, strict=True):
        reading = READER.read(record(value))
        assert isinstance(reading, Malformed)
        assert f"({name})" in reading.message


def test_a_text_that_normalisation_makes_too_long_is_too_large() -> None:
    """U+FDFA becomes 18 characters: the limit holds for what is sketched, too."""
    for text, length in (("\ufdfa" * 112, 2_016), ("½" * 700, 2_100), ("\ufdfa" * 111, None)):
        reading = READER.read(record(f'{{"text":"{text}","id":1}}'.encode()))
        if length is None:
            assert reading == Document("1", text)
        else:
            assert isinstance(reading, Malformed)
            assert reading.code is ErrorCode.TOO_LARGE
            said = f"the normalised text has {length} characters; the limit is 2000"
            assert reading.message == f"{said} (limits.text_characters)"


HARMLESS = [
    (b'{"text":"a b","id":"x"}', "x", "a b"),
    (b'\xef\xbb\xbf{"text":"a b","id":"x"}', "x", "a b"),
    (b' \r\n\t{"text":"a b","id":"x"}\r\n', "x", "a b"),
    (b'{"text":"first","text":"last","id":"x"}', "x", "last"),
    (b'{"text":5,"text":"last","id":"x"}', "x", "last"),
    (b'{"id":{},"text":"a","id":3}', "3", "a"),
    (b'{"text":"a\\u0000b","id":1}', "1", "a\x00b"),
    (b'{"te\\u0078t":"a","id":1}', "1", "a"),
    (b'{"text":"\\ud83d\\ude00","id":1}', "1", "😀"),
    ('{"text":"grüße","id":"ü"}'.encode(), "ü", "grüße"),
    (b'{"text":"a","id":-0}', "0", "a"),
    (b'{"text":"a","id":-12}', "-12", "a"),
    (b'{"text":"a","id":12345678901234567890123}', "12345678901234567890123", "a"),
    (b'{"text":"a","id":1,"n":1e999,"m":' + b"9" * 5_000 + b"}", "1", "a"),
    (b'{"text":"a","id":1,"n":"\\ud800"}', "1", "a"),
    (b'{"text":"a","id":1,"x":' + b"[" * 63 + b"]" * 63 + b"}", "1", "a"),
    (b'{"text":"a","id":1,"x":"' + b"[" * 500 + b'\\""}', "1", "a"),
    (b'{"text":"a","id":1,"x":[' + b"[]," * 200 + b"[]]}", "1", "a"),
    (b'{"text":"a","id":""}', "", "a"),
    # A lone surrogate is U+FFFD where it is read, as in a text cut in the middle of an emoji.
    (b'{"text":"cut \\ud83d","id":1}', "1", "cut \ufffd"),
    (b'{"text":"\\udc00\\ud800 \\ud83d\\ude00","id":"\\udfff"}', "\ufffd", "\ufffd\ufffd 😀"),
    (b'{"text":"\\udc85 a","id":1,"n":"\\udc05"}', "1", "\ufffd a"),
    # What no pointer reads cannot refuse a record.
    (b'{"text":"a","id":1,"n":NaN}', "1", "a"),
    (b'{"n":[Infinity,{"m":-Infinity}],"text":"\xc3\xa9","id":1}', "1", "é"),
    (b'{"text":"a","id":1,"other":"\xc0\xaf"}', "1", "a"),
    (b'{"text":"\xc3\xa9","id":1,"other":["\xed\xa0\x80"],"n":NaN}', "1", "é"),
    (b'{"\xff":"b","text":"a","id":1,"n":NaN}', "1", "a"),
    (b'{"text":"a","id":1,"n":{"m":"tab\t, feed\n and \x00"}}', "1", "a"),
]  # fmt: skip


@cases(("value", "id_", "text"), HARMLESS)
def test_odd_but_valid_json_is_a_document(value: bytes, id_: str, text: str) -> None:
    assert READER.read(record(value)) == Document(id_, text)


def test_pointers_lead_through_objects_and_unescape_their_keys() -> None:
    reader = Reader(text="/a~1b/m~0n", id="/a~1b/key")
    assert reader.read(record(b'{"a/b":{"m~n":"t","key":5}}')) == Document("5", "t")
    assert code_of(reader, b'{"a/b":{"key":5}}') is ErrorCode.MISSING_TEXT
    assert code_of(reader, b'{"a/b":{"m~n":"t"}}') is ErrorCode.MISSING_ID
    assert code_of(reader, b'{"a/b":[]}') is ErrorCode.WRONG_TYPE
    assert code_of(reader, b'{"b":{}}') is ErrorCode.MISSING_TEXT


def test_keys_that_the_fast_decoder_cannot_name_are_read_all_the_same() -> None:
    reader = Reader(text='/a"b', id="/c\\d")
    assert reader.read(record(b'{"a\\"b":"t","c\\\\d":"i"}')) == Document("i", "t")


@cases("pointer", ["", "text", "/0", "/items/12/text", "/-", "/a~3", "/a~", "$.text", "/0#/b"])
def test_pointers_at_one_element_or_misspelt_ones_are_refused(pointer: str) -> None:
    with pytest.raises(ValueError, match=r"JSON Pointer|array|~"):
        Reader(text=pointer)


def test_without_an_id_pointer_the_position_is_the_id() -> None:
    expected = Document("docs-2-17", "a")
    assert Reader(id=None).read(record(b'{"text":"a"}')) == expected
    assert Reader(id=None).read(record(b'\xef\xbb\xbf{"text":"a"}')) == expected
    assert Reader("text").read(record(b"a")) == expected


def test_plain_text_is_taken_as_it_is() -> None:
    assert Reader("text").read(record(b'{"text":')) == Document("docs-2-17", '{"text":')
    assert code_of(Reader("text"), b"\xff") is ErrorCode.BAD_UTF8


def test_broken_headers_come_before_everything_else() -> None:
    for value in (None, b"{", b'{"text":"a","id":1}'):
        reading = READER.read(record(value, headers_error="a header's name is not UTF-8"))
        assert reading == Malformed(ErrorCode.BAD_HEADER, "a header's name is not UTF-8")


@pytest.mark.parametrize(("policy", "verdict"), [("forward", FORWARDED), ("drop", Verdict.DROPPED)])
def test_tombstones_and_empty_texts_follow_their_policy(policy: str, verdict: Verdict) -> None:
    reader = Reader(tombstones=policy, empty_text=policy)
    assert reader.read(record(None)) == Unjudged(verdict, Reason.TOMBSTONE)
    for text in (b"", b" \\t\\n", b"\\u200b\\u00ad", b"\\u0000", b"\\u3000", b"\\ufeff"):
        value = b'{"text":"' + text + b'","id":1}'
        assert reader.read(record(value)) == Unjudged(verdict, Reason.EMPTY), text


def test_an_empty_text_names_the_document_that_it_replaces_if_its_id_can() -> None:
    reader = Reader(updates=True)
    empty = Unjudged(FORWARDED, Reason.EMPTY)
    assert reader.read(record(b'{"text":" ","id":1}')) == replace(empty, forgets=("1",))
    assert reader.read(record(b'{"text":" ","id":"' + b"x" * 1_025 + b'"}')) == empty
    assert Reader(id="header:id", updates=True).read(record(b'{"text":" "}')) == empty
    assert READER.read(record(b'{"text":" ","id":1}')) == empty


@cases(
    ("text", "value"),
    [
        ("/text", b'{"text":null,"id":1}'),
        ("/text", '{"id":1,"title":"é","text":null}'.encode()),
        ("/body/text", b'{"body":{"text":null},"id":1}'),
        (["/title", "/text"], b'{"title":null,"text":null,"id":1}'),
        (["/title", "/text"], b'{"text":null,"id":1,"n":NaN}'),
        ("/paragraphs/*/text", b'{"paragraphs":[{"text":null},{}],"id":1}'),
        ("value", b"null"),
    ],
)
def test_a_text_that_is_null_is_an_empty_text(text: str | list[str], value: bytes) -> None:
    id_ = None if text == "value" else "/id"
    for policy, verdict in (("forward", FORWARDED), ("drop", Verdict.DROPPED)):
        reader = Reader(text=text, id=id_, empty_text=policy, tombstones="forward")
        assert reader.read(record(value)) == Unjudged(verdict, Reason.EMPTY)
    reader = Reader(text=text, id=id_, empty_text="exact_only")
    assert reader.read(record(value)) == Document("docs-2-17" if id_ is None else "1", "")


@cases("number", [b"NaN", b"Infinity", b"-Infinity", b"null", b'"cut \\ud83d"'])
def test_a_field_of_a_record_that_is_no_number_is_empty(number: bytes) -> None:
    reader = Reader("fields", fields=["/name", "/size"], held_out="/created")
    reading = reader.read(record(b'{"id":1,"name":"Ann","created":NaN,"size":' + number + b"}"))
    size = "cut \ufffd" if b"cut" in number else ""
    assert reading == Document("1", join_fields(["Ann", size], ""))


@cases(
    ("key", "ids"),
    [
        (b"a", ("a",)),
        ("語".encode(), ("語",)),
        (b"42", ("42",)),  # what the number 42 is as an id
        (b"", ("",)),
        (b'"a"', ('"a"',)),  # a key as JSON is another text
        (b"x" * 1_024, ("x" * 1_024,)),
        (b"x" * 60_000, ()),
        (b"\xff", ()),
        (None, ()),
    ],
)
def test_a_tombstone_asks_to_forget_the_id_that_its_key_is_as_text(key, ids):
    given = replace(record(None), key=key)
    wanted = Unjudged(FORWARDED, Reason.TOMBSTONE, ids)
    assert Reader(tombstones="forget").read(given) == wanted
    assert Reader(tombstones="forget", id="key").read(given) == wanted
    headed = replace(record(None), headers=(("id", b"1"), ("id", key)))
    assert Reader(tombstones="forget", id="header:id").read(headed) == wanted


def test_empty_texts_are_judged_when_the_policy_says_so() -> None:
    reader = Reader(empty_text="exact_only")
    assert reader.read(record(b'{"text":" ","id":1}')) == Document("1", " ")


@cases("text", ["a", "。", "-", "😀", "\ue000", "\u0301", "ㄅ", " \u200b x"])
def test_any_visible_character_makes_a_text(text: str) -> None:
    assert not is_blank(text)


@pytest.mark.parametrize(
    "settings",
    [{"format": "xml"}, {"empty_text": "keep"}, {"tombstones": "keep"},
     {"tombstones": "exact_only"}],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="use "):
        Reader(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [0, 513])
def test_a_depth_that_no_parser_survives_is_refused(depth: int) -> None:
    with pytest.raises(ValueError, match=r"limits\.depth"):
        Limits(depth=depth)


def failing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> Reader:
    def fails(_: str) -> bool:
        raise error

    monkeypatch.setattr("streamfilter.documents.reader.is_blank", fails)
    return Reader()


def test_a_fault_of_the_machine_is_not_blamed_on_the_record(monkeypatch):
    with pytest.raises(MemoryError):
        failing(MemoryError(), monkeypatch).read(record(b'{"text":"a","id":1}'))


def test_a_fault_of_ours_is_a_dead_letter_with_its_own_code(monkeypatch):
    reading = failing(KeyError(SECRET), monkeypatch).read(record(b'{"text":"a","id":1}'))
    assert reading == Malformed(ErrorCode.INTERNAL, "KeyError while reading")


@pytest.mark.slow
def test_whatever_looks_empty_is_empty_after_normalisation_too() -> None:
    normalise = Normaliser(Normalisation())
    for block in range(0, 0x110000, 0x1000):  # one by one it takes a minute
        points = range(block, block + 0x1000)
        normal = normalise.chunk([chr(point) for point in points], ascii_only=False).texts()
        for code_point, text in zip(points, normal, strict=True):
            if bytes(text).strip() == b"" and not 0xD800 <= code_point < 0xE000:
                assert is_blank(chr(code_point)), hex(code_point)


def test_a_letter_says_where_its_json_breaks():
    reading = Reader().read(Record(Source("in", 0, 1), None, b'{"text":"cut'))
    assert reading.message == "Unterminated string starting at character 8"
