"""Protobuf: what another implementation wrote is read, what is no message is reported, cheaply."""

import json
import random
from functools import cache
from pathlib import Path
from struct import error as StructError
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import grpc_tools
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError
from grpc_tools import protoc

from streamfilter.assembly import reader_for
from streamfilter.cli import main
from streamfilter.config.loading import load_config, read_config
from streamfilter.documents.codecs.proto_schema import Types
from streamfilter.documents.codecs.proto_wire import message_reader
from streamfilter.documents.codecs.schemas import HEADER, Broken, OneSchema, Schema
from streamfilter.documents.fields.pointers import parse_pointer, tree_of
from streamfilter.documents.fields.selecting import Limits
from streamfilter.documents.formats import protobuf
from streamfilter.documents.reader import Reader
from streamfilter.model import Document, ErrorCode, Malformed, Unjudged
from tests.documents.test_avro import Shelf, code_of, frame, read
from tests.support.cases import cases

ARTICLE = """\
// what a publisher writes; "message" in a comment is none
syntax = 'proto3';
package news;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/descriptor.proto";
import "parts.proto";

option java_package = "org.news";
extend google.protobuf.FieldOptions { string owner = 51234; }

message Article {
  reserved 2, 15, 90 to max; reserved "old", "older";
  option deprecated = true;
  google.protobuf.Timestamp seen_at = 1 [json_name = "seen"];
  int64 id = 0x3; /* one
  more { */ string text = 4 [(owner) = "a; ] }", deprecated = false];
  repeated string links = 5; repeated sint32 counts = 6; map<string, double> labels = 7;
  enum Kind { option allow_alias = true; NEWS = 0; ADVERT = 1 [deprecated = true]; AD = 1; }
  Kind kind = 8;
  message Paragraph { string text = 1; .news.Article.Kind kind = 2; Article quoted = 3; }
  repeated Paragraph paragraphs = 030;
  optional string subtitle = 9; Paragraph more = 10;
  oneof source { string agency = 11; int32 feed = 12; Paragraph other = 13; }
  map<string, Paragraph> translations = 14; google.protobuf.StringValue note = 16;
  parts.Part part = 17; parts.Part.Inner inner = 18; bytes raw = 19; double rate = 20;
  bool done = 21; fixed64 sum = 22; uint64 large = 23;
}
message Advert { message Offer { string pitch = 1; } string text = 1; Offer offer = 2; }
service Desk { rpc Get(Article) returns (Advert) { option deprecated = true; } }
"""
PARTS = """\
syntax = "proto2";
package parts;
message Part {
  optional string title = 1 [default = "no }"]; required int32 size = 2;
  repeated group Old = 3 { optional string text = 1; }
  message Inner { optional string text = 1; }
  extensions 100 to 199;
}
extend Part { optional string extra = 100; }
"""
FILES = {"article.proto": ARTICLE, "parts.proto": PARTS}
REFERENCES = (("parts.proto", PARTS),)
COMMON = Path(grpc_tools.__file__).parent / "_proto"


def compiled(files: dict[str, str]) -> dict[str, Any]:
    """Return the message classes that the reference compiler makes of *files*."""
    with TemporaryDirectory() as there:
        for name, text in files.items():
            Path(there, name).write_text(text)
        out = Path(there, "out.binpb")
        command = ["protoc", f"-I{there}", f"-I{COMMON}", "--include_imports", f"-o{out}"]
        assert protoc.main([*command, *(f"{there}/{name}" for name in files)]) == 0, files
        described = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for each in described.file:
        pool.Add(each)
    return message_factory.GetMessageClassesForFiles([each.name for each in described.file], pool)


@cache
def classes() -> dict[str, Any]:
    return compiled(FILES)


VALUE = {
    "seen_at": "2023-11-14T22:13:20Z", "id": -7, "text": "a störy", "links": ["a", "b"],
    "counts": [1, -1, 70_000], "labels": {"x": 1.5, "y": 0}, "kind": "ADVERT",
    "paragraphs": [{"text": "one"}, {"text": "two", "kind": 9, "quoted": {"text": "inner"}}],
    "more": {"text": "three"}, "agency": "dpa", "raw": "AQI=", "rate": 0.5, "done": True,
    "translations": {"de": {"text": "eine"}, "fr": {}}, "note": "wrapped",
    "part": {"size": 3, "old": [{"text": "in a group"}]}, "inner": {"text": "from afar"},
    "sum": 2**63, "large": 2**64 - 1,
}  # fmt: skip


def written(value: Any = VALUE, name: str = "news.Article") -> bytes:
    return json_format.ParseDict(value, classes()[name]()).SerializeToString()


def reader(schema: str = ARTICLE, *, framed: bool = False, **more: Any) -> Reader:
    only = OneSchema(Schema("PROTOBUF", schema, REFERENCES))
    return Reader("protobuf", schemas=only, framed=framed, **more)


@cases(
    ("text", "id_", "expected"),
    [
        ("/text", "/id", Document("-7", "a störy")),
        ("/kind", "/large", Document(str(2**64 - 1), "ADVERT")),
        ("/agency", "/sum", Document(str(2**63), "dpa")),
        ("/note/value", "/seen_at/seconds", Document("1700000000", "wrapped")),
        ("/inner/text", "/seen/nanos", Document("0", "from afar")),
        (["/more/text", "/paragraphs/*/text", "/subtitle", "/text"], None,
         Document("docs-0-7", "three\none\ntwo\na störy")),
        (["/links/*", "/translations/de/text"], "/part/size", Document("3", "a\nb\neine")),
        (["/more/kind", "/translations/fr/kind"], None, Document("docs-0-7", "NEWS\nNEWS")),
        ("/paragraphs/*/quoted/text", None, Document("docs-0-7", "inner")),
        ("/paragraphs/*/kind", None, ErrorCode.WRONG_TYPE), ("/raw", None, ErrorCode.WRONG_TYPE),
        ("/links", None, ErrorCode.WRONG_TYPE), ("/more", None, ErrorCode.WRONG_TYPE),
        ("/id/text", None, ErrorCode.WRONG_TYPE), ("/counts/*", None, ErrorCode.WRONG_TYPE),
        ("/labels/x", None, ErrorCode.WRONG_TYPE), ("/labels/z", None, ErrorCode.MISSING_TEXT),
        ("/body", None, ErrorCode.MISSING_TEXT), ("/subtitle", None, ErrorCode.MISSING_TEXT),
        ("/feed", None, ErrorCode.MISSING_TEXT), ("/text", "/rate", ErrorCode.WRONG_TYPE),
        ("/part/title", None, ErrorCode.MISSING_TEXT), ("/text", "/no", ErrorCode.MISSING_ID),
    ],
)  # fmt: skip
def test_pointers_lead_through_messages_lists_maps_enums_and_oneofs(text, id_, expected):
    reading = read(reader(text=text, id=id_), written())
    assert reading == expected or code_of(reading) is expected


def test_what_is_not_on_the_wire_is_its_default_where_the_schema_knows_no_absence():
    empty = read(reader(), b"")
    assert isinstance(empty, Unjudged), "text is the empty string, as for every other reader"
    assert read(reader(text=["/kind", "/text"]), b"") == Document("0", "NEWS\n")
    fields = {"id": "/id", "fields": ["/text", "/kind", "/rate", "/done", "/more/text"]}
    told = {"id": -7, "text": "a störy", "kind": "ADVERT", "rate": 0.5, "more": {"text": "three"}}
    fields["fields"].remove("/done")
    assert read(reader(**fields), written()) == read(Reader(**fields), json.dumps(told).encode())


def test_a_frame_names_the_message_and_the_schema_wherever_it_is():
    shelf = Shelf({7: Schema("PROTOBUF", ARTICLE, REFERENCES)})
    shelf.schemas[UUID(int=9)] = shelf.schemas[7]
    article, advert = written(), written({"text": "buy"}, "news.Advert")
    offer, paragraph = b"\x0a\x05cheap", b"\x0a\x01p"
    by = Reader("protobuf", id=None, schemas=shelf)
    for _ in range(2):
        for place, value, text in (
            (b"\0", article, "a störy"), (b"\2\0", article, "a störy"), (b"\2\2", advert, "buy"),
            (b"\4\0\0", paragraph, "p"),
        ):  # fmt: skip
            found = Document("docs-0-7", text)
            assert read(by, frame(place + value)) == found
            assert read(by, value, ((HEADER, b"\0\0\0\0\7" + place),)) == found
            assert read(by, value, ((HEADER, b"\1" + UUID(int=9).bytes + place),)) == found
    assert shelf.asked == 2, "each schema once"
    pitch = Reader("protobuf", text="/pitch", id=None, schemas=shelf)
    assert read(pitch, frame(b"\4\2\0" + offer)) == Document("docs-0-7", "cheap")
    for place in (b"", b"\2", b"\2\4", b"\2\1", b"\1", b"\4\2\2", b"\xff" * 20, b"\xfe\x7f"):
        for value, headers in (
            (frame(place), ()), (article, ((HEADER, b"\0\0\0\0\7" + place),)),
        ):  # fmt: skip
            assert code_of(read(by, value, headers)) is ErrorCode.SCHEMA_DECODE


def test_a_schema_changes_in_mid_stream():
    first = 'syntax = "proto3"; message A { string text = 1; }'
    added = 'syntax = "proto3"; message A { int64 new = 2; string text = 1; bytes raw = 3; }'
    moved = 'syntax = "proto3"; message A { string body = 1 [json_name = "text"]; }'
    shelf = Shelf({n: Schema("PROTOBUF", each) for n, each in enumerate((first, added, moved), 1)})
    by = Reader("protobuf", id=None, schemas=shelf)
    value = b"\0\x10\5\x0a\1a\x1a\2\xff\xff"
    for id_ in (1, 2, 3):  # fields that a schema does not know are passed over
        assert read(by, frame(value, id_)) == Document("docs-0-7", "a")


@cases("size", [0, 1, 4, 5, 7, 20])
def test_a_message_that_is_cut_short_is_a_dead_letter(size):
    by = reader(framed=True)
    whole = frame(b"\0" + written({**VALUE, "text": "a" * 300, "part": None}))
    assert isinstance(read(by, whole), Document)
    assert code_of(read(by, whole[:size])) is ErrorCode.SCHEMA_DECODE
    assert code_of(read(by, whole[: -size - 1])) is ErrorCode.SCHEMA_DECODE


WIRE = """syntax = "proto3"; message A {
  string text = 1; A more = 2; repeated int32 many = 3; map<string, A> map = 4;
  oneof one { string left = 5; A right = 6; int32 number = 7; }
}
"""


@cases(
    ("value", "told"),
    [
        ("0a ff ff ff ff ff ff ff ff 7f 61", "a length beyond the end"),
        ("0a 02 61", "a length beyond the end"), ("0a", "it ends in the middle"),
        ("0a 01 ff", "a string is not UTF-8"), ("0a ff ff", "it ends in the middle"),
        ("08 01", "field 1 is not of the type that the schema says"),
        ("12 02 0a 05 61 61 61 61 61", "a length beyond the end"),
        ("12 03 78 80 80 01", "a length beyond the end"),
        ("39 61 61 61 61 61 61 61 61", "field 7 is not of the type"),
        ("22 04 12 04 0a 01 61 61", "a length beyond the end"),
        ("79 61", "a length beyond the end"), ("7d 61", "a length beyond the end"),
        ("02 00", "a field without a number"), ("0e", "field 1 is not of the type"),
        ("7e", "a tag that cannot be"), ("7c", "a tag that cannot be"),
        ("7b 72", "it ends in the middle"), ("7b 84 01", "a tag that cannot be"),
        ("78 ff ff ff ff ff ff ff ff ff ff 01", "an integer of more than 64 bits"),
        ("ff ff ff ff ff ff ff ff ff ff 01", "an integer of more than 64 bits"),
        ("f8 ff ff ff ff 01 00", "a field without a number"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_a_dead_letter_that_says_why(value, told):
    by = reader(WIRE, text=["/text", "/more/text", "/map/x/text", "/left"], id="/number")
    reading = read(by, bytes.fromhex(value))
    assert code_of(reading) is ErrorCode.SCHEMA_DECODE
    assert told in reading.message, reading


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"\x7b" * 200_000, Malformed), (b"\x12\x00" * 100_000, Unjudged),
        (b"\xff" * 200_000, Malformed), (b"\x22\0" * 100_000, Unjudged),
        (b"\x7b\x7c" * 100_000, Unjudged), (b"\x0a\0" * 100_000, Unjudged),
        (b"\x12\xbf\x84\x3d" + b"\x12\xbb\x84\x3d" * 250_000, Malformed),
    ],
    ids=range(7),
)  # fmt: skip
def test_no_bytes_cost_more_than_their_number(value, kind):
    """A tenth of a second each; what is squared takes an hour."""
    by = reader(WIRE, text=["/text", "/more/more/text", "/map/x/more/text"], id=None,
                limits=Limits(document_bytes=2_000_000))  # fmt: skip
    assert isinstance(read(by, value), kind)


def test_an_entry_of_a_map_may_lack_its_value_and_numbers_may_stand_alone_or_packed():
    by = reader(WIRE, text=["/map/x/map/y/text", "/map/x/text"], id=None)
    assert isinstance(read(by, b"\x22\3\x0a\1x"), Unjudged), "an empty text"
    fields = reader(WIRE, fields=["/map/x/more/text", "/map/x/text"], id=None)
    assert isinstance(read(fields, b"\x22\3\x0a\1x"), Unjudged)
    many = reader(WIRE, text="/many/*", id=None)
    for value in (b"\x18\1\x18\2", b"\x1a\2\1\2", b"\x1a\1\1\x18\2\x1a\0"):
        assert code_of(read(many, value)) is ErrorCode.WRONG_TYPE
        assert code_of(read(many, value[:-1])) is not ErrorCode.INTERNAL


def test_what_no_pointer_reads_in_a_map_may_be_no_utf_8():
    by = reader(WIRE, text="/map/x/text", id=None)
    other_key = b"\x22\x08\x0a\1\xff\x12\3\x0a\1b"
    other_value = b"\x22\x08\x0a\1y\x12\3\x0a\1\xff"
    named = b"\x22\x08\x0a\1x\x12\3\x0a\1a"
    assert read(by, other_key + named + other_value) == Document("docs-0-7", "a")
    assert code_of(read(by, named + named.replace(b"a", b"\xff"))) is ErrorCode.SCHEMA_DECODE


def test_a_megabyte_of_text_is_read():
    reading = read(reader(WIRE, id=None), b"\x0a\x90\x8b\x40" + b"ab " * 350_000)
    assert isinstance(reading, Document)
    assert len(reading.text) == 1_050_000


@pytest.mark.parametrize(
    ("content", "settings_", "told"),
    [
        (None, (), "cannot read"), ("{", (), "a message in or before line 1 is something else"),
        ("message A {\n string text = x;", (), "a number in or before line 2"),
        ("message A { string text = 1;", (), "a field's type in or before line 1 is not there"),
        ("message A {}", ("input.message=B",), "the schema has no such message"),
        ("message A { Part text = 1; }", (), "is of type Part, which neither the schema"),
        ("message A { repeated group Text = 1 {} }", (), "field text is a group"),
        ("message A {" * 200, (), "messages within messages"), ("", (), "no such message"),
        ("message A { string text = 1 [" + "{" * 1000, (), "']'"), ("/*", (), "no such message"),
    ],
)  # fmt: skip
def test_check_says_what_is_wrong_with_the_file_of_a_schema(
    content, settings_, told, tmp_path, capsys
):
    path = tmp_path / "article.proto"
    if content is not None:
        path.write_text(content)
    all_ = ("input.format=protobuf", "input.framing=none", f"input.schema_file={path}", *settings_)
    assert main(["check", *(each for one in all_ for each in ("--set", one))]) == 78
    said = capsys.readouterr().out
    assert said.startswith("input.schema_file: ")
    assert told in said


LANGUAGE = """\
edition = "2024";
package a;
export message First {
  extensions 4 to 9 [declaration = { number: 4, full_name: ".a.x", type: ".a.Y" },
                     declaration = { number: 5, reserved: true }];
  local message Inner { string text = 1; }
  oneof kind { option (a.f) = { of: "};" }; string text = 1; Inner inner = 2; }
  map<bool, string> by = 3;
}
local enum E { NONE = 0; ; }
"""


def test_all_that_the_language_may_say_beside_the_fields_is_passed_over():
    bare = reader(LANGUAGE, text=["/text", "/by/true"], id=None)
    reading = read(bare, b"\x0a\1t\x1a\5\x08\1\x12\1u\x1a\3\x12\1f")
    assert isinstance(reading, Document)
    assert reading.text == "t\nu"
    for path in sorted(COMMON.rglob("*.proto")):
        assert Types(path.read_text()).messages, path


def test_what_is_wrong_with_a_registered_schema_is_found_once(monkeypatch):
    shelf = Shelf({1: Schema("PROTOBUF", "message A {"), 2: Schema("JSON", "{}")})
    framed, made = Reader("protobuf", schemas=shelf), []
    monkeypatch.setattr(Types, "__init__", lambda *_: made.append(1) or broken())
    for _ in range(3):
        reading = read(framed, frame(b"\0", 1))
        assert code_of(reading) is ErrorCode.SCHEMA_DECODE
        assert reading.message == "the schema is none"
        assert code_of(read(framed, frame(b"\0", 2))) is ErrorCode.SCHEMA_DECODE
    assert len(made) == 1


def test_a_message_that_no_one_can_read_is_compiled_once(monkeypatch):
    schema = Schema("PROTOBUF", "message A { Part text = 1; } message B { string text = 1; }")
    framed, made = Reader("protobuf", id=None, schemas=Shelf({1: schema})), []
    real = message_reader
    monkeypatch.setattr(protobuf, "message_reader", lambda *a: made.append(1) or real(*a))
    for _ in range(3):
        reading = read(framed, frame(b"\0" + b"\x0a\1a", 1))
        assert code_of(reading) is ErrorCode.SCHEMA_DECODE
        assert "is of type Part, which neither the schema" in reading.message
        assert isinstance(read(framed, frame(b"\2\2" + b"\x0a\1a", 1)), Document)
        assert code_of(read(framed, frame(b"\2\4" + b"\x0a\1a", 1))) is ErrorCode.SCHEMA_DECODE
    assert len(made) == 2


def broken():
    raise Broken("the schema is none")


def test_bare_messages_of_a_file_are_read_and_the_message_may_be_named(tmp_path):
    path = tmp_path / "article.proto"
    path.write_bytes(b"\xef\xbb\xbf" + ARTICLE.encode())  # as an editor on Windows has it
    given = ("input.format=protobuf", f"input.schema_file={path}", "input.framing=none")
    assert read(reader_for(load_config((), {}, given)), written()) == Document("-7", "a störy")
    named = (*given, "input.message=news.Advert.Offer", "input.text=/pitch", "input.id=null")
    by = reader_for(load_config((), {}, named))
    assert read(by, b"\x0a\x05cheap") == Document("docs-0-7", "cheap")
    problems = read_config((), {}, (*named, "input.framing=registry")).problems
    assert [problem.key for problem in problems] == ["input.message"]


SCALARS = [
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
    "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
]  # fmt: skip
NAMES = ("text", "id", "some_name", "b")


def schema(dice: random.Random, number: int) -> str:
    """Return a made-up file of one of the languages, with messages that hold each other."""
    language = dice.choice(['syntax = "proto2"', 'syntax = "proto3"', 'edition = "2023"'])
    lines = [f"{language}; package p{number}; enum E {{ ZERO = 0; ONE = 1; MINUS = -1; }}"]
    if "2023" in language and dice.random() < 0.5:
        lines.append("option features.field_presence = IMPLICIT;")
    for message in "ABC":
        lines.append(f"message {message} {{")
        taken = iter(dice.sample(range(1, 40), 8))
        for name in NAMES:
            kind = dice.choice([*SCALARS, "string", "E", "A", "B", f".p{number}.C"])
            label = dice.choice(["", "repeated ", "optional ", "map", "oneof"])
            if label == "map":
                key = dice.choice(["string", "int32", "bool"])
                lines.append(f"  map<{key}, {kind}> {name} = {next(taken)};")
            elif label == "oneof":
                lines.append(f"  oneof of_{name} {{ {kind} {name} = {next(taken)};")
                lines.append(f"    sint32 other_{name} = {next(taken)}; }}")
            elif "2023" in language and label == "optional ":
                scalar = kind in (*SCALARS, "E")
                presence = " [features.field_presence = EXPLICIT]" if scalar else ""
                lines.append(f"  {kind} {name} = {next(taken)}{presence};")
            else:
                label = "optional " if not label and "proto2" in language else label
                lines.append(f"  {label}{kind} {name} = {next(taken)};")
        lines.append("}")
    return "\n".join(lines)


def drawn(dice: random.Random, field: Any) -> Any:
    """Return a value of a field's type that is no message."""
    if field.enum_type is not None:
        return dice.choice([0, 1, -1])
    kind = SCALARS_BY_NUMBER[field.type]
    if kind in ("string", "bytes"):
        text = "".join(dice.choices("aé漢 \0", k=dice.choice([0, 1, 200])))
        return text if kind == "string" else text.encode()
    if kind == "bool":
        return dice.random() < 0.5
    if kind in ("double", "float"):
        return dice.choice([0.0, 1.5, -(2.0**20)])
    bits = 31 if kind.endswith("32") else 63
    if kind in ("uint32", "uint64", "fixed32", "fixed64"):
        return dice.choice([0, 1, 2 ** (bits + 1) - 1])
    return dice.choice([0, 1, -1, 2**bits - 1, -(2**bits)])


SCALARS_BY_NUMBER = {
    getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}"): name for name in SCALARS
}


def fill(dice: random.Random, message: Any, depth: int = 3) -> Any:
    """Put something into some fields of *message*; return it."""
    for field in message.DESCRIPTOR.fields:
        if dice.random() < 0.4:
            continue
        here = getattr(message, field.name)
        of = field.message_type
        if of is not None and of.GetOptions().map_entry:
            key, value = of.fields_by_name["key"], of.fields_by_name["value"]
            for _ in range(2):
                name = (
                    dice.choice(["text", "b"]) if key.type == key.TYPE_STRING else drawn(dice, key)
                )
                if value.message_type is None:
                    here[name] = drawn(dice, value)
                else:
                    fill(dice, here[name], depth - 1) if depth else here[name].SetInParent()
        elif of is not None:
            targets = [here.add() for _ in range(2)] if field.is_repeated else [here]
            for each in targets:
                each.SetInParent()
                if depth:
                    fill(dice, each, depth - 1)
        elif field.is_repeated:
            here.extend(drawn(dice, field) for _ in range(dice.choice([1, 3])))
        else:
            setattr(message, field.name, drawn(dice, field))
    return message


NOTHING = "nothing"


def told(message: Any, path: tuple[str, ...]) -> Any:
    """Return what the other implementation has at *path*."""
    field = message.DESCRIPTOR.fields_by_name.get(path[0])
    if field is None:
        return NOTHING
    value, rest = getattr(message, field.name), path[1:]
    of = field.message_type
    if of is not None and of.GetOptions().map_entry:
        if not rest:
            return dict
        of = of.fields_by_name["value"]
        if of.message_type is None and rest[0] in map(str, value) and rest[1:]:
            return NOTHING
        (found,) = [value[key] for key in value if str(key) == rest[0]] or [NOTHING]
        return NOTHING if found is NOTHING else below(of, found, rest[1:])
    if field.is_repeated:
        if not rest or rest[0] != "*":
            return NOTHING if rest else list
        return [below(field, each, rest[1:]) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return NOTHING
    return below(field, value, rest)


def below(field: Any, value: Any, rest: tuple[str, ...]) -> Any:
    if field.message_type is not None:
        return told(value, rest) if rest else dict
    if rest:
        return NOTHING
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    return value


def ours(here: Any, path: tuple[str, ...]) -> Any:
    """Return the same of what we read."""
    if not path:
        return type(here) if isinstance(here, dict | list) else here
    if isinstance(here, list):
        return [ours(each, path[1:]) for each in here] if path[0] == "*" else NOTHING
    return ours(here[path[0]], path[1:]) if isinstance(here, dict) and path[0] in here else NOTHING


POINTERS = ("/text", "/id/text", "/some_name/*", "/text/*/b", "/b/b/text", "/id/*/text/some_name",
            "/b/text", "/some_name/b/text/b", "/text/*/id/*/b")  # fmt: skip
SPOILT = (Broken, IndexError, StructError, UnicodeDecodeError)


@pytest.mark.slow
def test_what_is_read_is_what_another_implementation_reads():
    """Of made-up schemas and values, whole and spoilt: who reads both ways, reads the same."""
    dice = random.Random(18)
    files = {f"s{number}.proto": schema(dice, number) for number in range(60)}
    made = compiled(files)
    spoilt = same = 0
    for number, text in enumerate(files.values()):
        types, theirs = Types(text), made[f"p{number}.A"]
        closed = "proto2" in text  # an enum's unknown numbers are nothing there
        for _ in range(12):
            # Written one behind the other they are one message, in which both count.
            parts = [fill(dice, theirs()) for _ in range(dice.choice([1, 3]))]
            whole = b"".join(part.SerializeToString() for part in parts)
            bytes_ = bytearray(whole)
            if whole:
                bytes_[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
            for pointer in POINTERS:
                path = parse_pointer(pointer)
                by = message_reader(types, types.messages[0], tree_of([path]))
                found = by.new()
                by.fill(whole, 0, len(whole), found)
                assert ours(found, path) == told(theirs.FromString(whole), path), (text, pointer)
                try:
                    found = by.new()
                    by.fill(bytes(bytes_), 0, len(bytes_), found)
                    known = theirs.FromString(bytes(bytes_))
                except (*SPOILT, DecodeError):
                    spoilt += 1
                    continue
                if not closed:
                    assert ours(found, path) == told(known, path), (text, pointer, bytes_)
                    same += 1
    assert min(spoilt, same) > 500
