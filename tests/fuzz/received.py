"""What others send us: records, texts, envelopes. No bytes may raise but what is documented."""

import json
from typing import Any

from streamfilter.documents.codecs.schemas import OneSchema, Schema
from streamfilter.documents.fields.selecting import Limits
from streamfilter.documents.reader import Reader
from streamfilter.matching.verdict import envelope
from streamfilter.model import Document, ErrorCode, Malformed, Record, Source, Unjudged
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.text.normalisation import GROWTH_MAX
from streamfilter.stops import ConfigError
from tests.fuzz.pieces import Target, cut, joined

LIMITS = Limits(document_bytes=4_000, text_characters=600, depth=8)
SOURCE = Source("t", 0, 1)


def reader(**settings: Any) -> Reader:
    return Reader(limits=LIMITS, empty_text="exact_only", **settings)


FAST = reader(text="/a/text", id="/id")
SLOW = reader(text="/a/text", id="/id")
SLOW._shortcut = None  # only the standard library's way: the definition
PLAIN = reader(format="text")


def read_record(value: bytes) -> None:
    record = Record(SOURCE, None, value)
    fast, slow = FAST.read(record), SLOW.read(record)
    for reading in (fast, slow, PLAIN.read(record)):
        assert isinstance(reading, Document | Unjudged | Malformed)
        if isinstance(reading, Malformed):
            assert reading.code is not ErrorCode.INTERNAL, reading
            assert len(reading.message) < 500
        if isinstance(reading, Document):
            assert len(reading.text) <= LIMITS.text_characters
            reading.text.encode()
    assert fast == slow, (fast, slow)


PROTO = """syntax = "proto3"; message First { string text = 1; } message Story {
  message A { string text = 1; optional sint32 size = 2; repeated A more = 3; }
  oneof kind { string agency = 4; fixed32 feed = 5; }
  string id = 1; A a = 2; map<string, A> parts = 6; repeated int64 n = 7;
}"""
FRAMED, BARE = (
    reader(format="protobuf", text=["/a/text", "/a/more/*/text", "/parts/x/text", "/agency"],
           schemas=OneSchema(Schema("PROTOBUF", PROTO)), framed=framed, message=message)
    for framed, message in ((True, None), (False, "Story"))
)  # fmt: skip


def read_protobuf(value: bytes) -> None:
    """Value or schema, no bytes are more than broken; a frame changes nothing of what it frames."""
    bare = BARE.read(Record(SOURCE, None, value))
    framed = FRAMED.read(Record(SOURCE, None, b"\0\0\0\0\7\2\2" + value))
    for reading in (bare, framed, FRAMED.read(Record(SOURCE, None, value))):
        assert isinstance(reading, Document | Unjudged | Malformed)
        if isinstance(reading, Malformed):
            assert reading.code is not ErrorCode.INTERNAL, reading
            assert len(reading.message) < 500
        if isinstance(reading, Document):
            reading.text.encode()
    if isinstance(bare, Document) and len(value) + 7 <= LIMITS.document_bytes:
        assert framed == bare, (framed, bare)


def read_proto_schema(data: bytes) -> None:
    read_with_schema("protobuf", data)


def read_avro(data: bytes) -> None:
    read_with_schema("avro", data)


def read_with_schema(format: str, data: bytes) -> None:
    """A schema of anybody's is read, or called broken; what it makes reads any bytes."""
    text, value, *_ = *cut(data, 2), b""
    schemas = OneSchema(Schema(format.upper(), text.decode("utf-8", "replace")))
    try:
        made = reader(format=format, schemas=schemas, framed=False, text="/text", id="/id")
    except ConfigError:
        return
    reading = made.read(Record(SOURCE, None, value))
    assert isinstance(reading, Document | Unjudged | Malformed)
    if isinstance(reading, Malformed):
        assert reading.code is not ErrorCode.INTERNAL, reading


SKETCHERS = [
    Sketcher(Scheme(4, 4, slots=16, shingling=Shingling(kind, size)), seed=bytes(16))
    for kind, size in (("word", 3), ("char", 5), ("stopword", 2))
]


def sketch_texts(data: bytes) -> None:
    """The sketch of a text depends on no neighbour, and normalising grows it boundedly."""
    texts = [each.decode("utf-8", "surrogatepass" if i % 2 else "replace") for i, each in
             enumerate(_decodable(cut(data, 4)))]  # fmt: skip
    sketcher = SKETCHERS[len(data) % len(SKETCHERS)]
    together = sketcher.sketch(texts)
    for i, text in enumerate(texts):
        alone = sketcher.sketch([text])
        assert (alone.keys[0] == together.keys[i]).all(), (texts, i)
        assert (alone.contents.fingerprints[0] == together.contents.fingerprints[i]).all(), (
            texts,
            i,
        )
        assert alone.contents.set_sizes[0] == together.contents.set_sizes[i]
        normal = sketcher.normalise(text)
        assert len(normal.decode("utf-8", "surrogatepass")) <= GROWTH_MAX * max(1, len(text))


def _decodable(pieces: list[bytes]) -> list[bytes]:
    return [each.decode("utf-8", "replace").encode() for each in pieces]


def read_envelope(data: bytes) -> None:
    try:
        read = envelope.decode(data)
        _ = read.value
    except ValueError:
        read = None
    if read is not None and read.source is not None:
        assert read.source.source.topic == read.source.topic
    told = {"verdict": "unique", "id": "x"}
    written = envelope.decode(envelope.encode(envelope.with_payload(told, data)))
    assert written.value == data


WORDS = (b'{"a":{"text":"', b'"},"id":', b"\\u", b"d800", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"NaN",
         b"null", b"1e999", b"\\u0000", b'"id"', b'"text"', b"\\", b"[[[[[")  # fmt: skip
RECORDS = (
    b'{"a":{"text":"some words here"},"id":"x"}',
    b'\xef\xbb\xbf{"id":12345678901234567890,"a":{"b":[{}],"text":"\\ud83d\\ude00 \\u0000"}}',
    b'{"a":1,"a":{"text":5,"text":"last"},"id":{},"id":-0,"n":[1.5e3,true,false,null]}',
)
MIXED = "Ｃａｆé ﷺ 東京タワー ราคา \u200b naïve ẞ İ \u0301".encode()
ENVELOPE = {
    "verdict": "near_duplicate", "id": "c", "source": {"topic": "t", "partition": 0, "offset": 3},
    "matches": [{"id": "a", "similarity": 0.9, "topic": "t", "partition": 0, "offset": 1}],
    "payload": "AAEC", "payload_encoding": "base64",
}  # fmt: skip

STORY = {
    "type": "record", "name": "Story", "fields": [
        {"name": "text", "type": ["null", "string"]}, {"name": "more", "type": {
            "type": "array", "items": {"type": "map", "values": ["Story", "bytes", "null"]}}},
        {"name": "id", "type": "string", "aliases": ["key"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    ],
}  # fmt: skip
MESSAGES = (
    b"\x0a\1x\x12\x0d\x0a\4some\x10\x03\x1a\3\x0a\1b\x22\3dpa\x32\x08\x0a\1x\x12\3\x0a\1y\x3a\2\1\2",
    b"\x0a\1x\x12\2\x0a\0\x2d\1\2\3\4\x38\x96\x01\x9b\x06\x08\x01\x9c\x06",
)

TARGETS = {
    "documents": Target(read_record, RECORDS, WORDS),
    "protobuf": Target(read_protobuf, MESSAGES, (b"\x0a", b"\x12", b"\x32", b"\xff\xff\xff\x7f")),
    "proto_schema": Target(
        read_proto_schema,
        (
            joined(PROTO.replace("First", "Other").encode(), MESSAGES[0]),
            joined(
                b"message A { optional string id = 2; oneof b { string text = 1; } }", b"\x0a\1a"
            ),
        ),
        (b"message ", b"map<string, A>", b"repeated ", b"oneof ", b"reserved 1 to max;", b"/*"),
    ),
    "avro": Target(
        read_avro,
        (joined(json.dumps(STORY).encode(), b"\2\2a\2\2\2k\4\0\0\2x\0"),),
        (b'"null"', b'"type":"map","values":', b'"logicalType":"uuid"', b"1e999", b"\xff\xff"),
    ),
    "texts": Target(
        sketch_texts,
        (joined(b"the old mill by the river", MIXED, b"\0", b""), joined(MIXED, b"a b c", MIXED)),
        tuple(chr(point).encode() for point in (0x130, 0xFDFA, 0x345, 0x0E33, 0x1E9E, 0xAC00)),
    ),
    "envelope": Target(read_envelope, (json.dumps(ENVELOPE).encode(), b"\xff\x00")),
}
