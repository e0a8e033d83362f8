"""Schemas and values made to cost more than their bytes: every one gets a reading, cheaply.

The cases know only what a schema registry and a producer can send, so they hold for any decoder.
They run in a process of their own, whose processor time and memory the system limits: what costs
2^40 steps, or gigabytes, is ended there, and its case is missing from the answer.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator

from streamfilter.documents.codecs.schemas import Schema
from streamfilter.documents.reader import Reader
from streamfilter.model import Document, ErrorCode, Malformed, Record, Source

CPU_SECONDS, MEMORY_BYTES = 60, 2 << 30
"""For all cases together; they take about five seconds and 300 MB."""
LEVELS = 30
LOOKED_FOR = "/text"
Case = tuple[str, str, str, bytes]
"""Its name, the schema's kind and text, and the value."""


def record(name: str, **fields: object) -> dict[str, object]:
    found = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": found}


def levels(leaf: object, **beside: object) -> object:
    """Return records that each hold the next one twice."""
    inner = leaf
    for level in range(LEVELS):
        again = inner["name"] if isinstance(inner, dict) else inner
        inner = record(f"R{level}", a=inner, b=again, **beside)
    return inner


def long(number: int) -> bytes:
    number, written = number << 1, bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def unions(width: int, depth: int) -> object:
    """Return records with one text each, in unions below each other."""
    names = [[f"U{level}_{number}" for number in range(width)] for level in range(depth)]
    inner: object = "string"
    for level in range(depth):
        inner = [record(name, text=inner if not at else (names[level - 1] if level else "string"))
                 for at, name in enumerate(names[level])]  # fmt: skip
    return inner


def avro() -> Iterator[Case]:
    text = {"text": "string"}
    word = b"\x08word"

    def case(name: str, schema: object, value: bytes) -> Case:
        return f"avro {name}", "AVRO", json.dumps(schema), value

    yield case("levels of nulls", record("T", bomb=levels("null"), **text), word)
    yield case("levels of fixed", record("T", bomb=levels(
        {"type": "fixed", "name": "F", "size": 0}), **text), word)  # fmt: skip
    yield case("levels of nothing", record("T", bomb=levels(record("No")), **text), word)
    yield case("levels in a text", record("T", text=levels("null")), b"")
    yield case("levels with a number each", record("T", bombs={"type": "array", "items": levels(
        "null", c="int")}, **text), long(9) + b"\0" * 9 + b"\0" + word)  # fmt: skip
    yield case("levels of texts in an array of none", record("T", many={"type": "array", "items":
        levels("string")}, **text), b"\0" + word)  # fmt: skip
    wrong: object = {"type": "no such"}
    for _ in range(30):
        wrong = {"type": "array", "items": {"type": "map", "values": [wrong]}}
    types = [record("T" * 900 + str(at)) for at in range(1_000)]
    yield case("an error far inside, and many names", [*types, wrong], word)
    yield case("nothing, claimed 2^61 times", record("T", nothings={
        "type": "array", "items": record("No")}, **text), long(1 << 61) + b"\0" + word)  # fmt: skip
    yield case("nulls, claimed 2^61 times and read", record("T", text={
        "type": "array", "items": "null"}), long(1 << 61) + b"\0")  # fmt: skip
    chain: object = "int"
    for level in range(200):
        chain = record(f"C{level}", only=chain)
    yield case(
        "a chain before each byte",
        record("T", ints={"type": "array", "items": chain}, **text),
        long(400_000) + b"\2" * 400_000 + b"\0" + word,
    )
    wide = record("W", **{f"n{number}": "null" for number in range(900)}, i="int")
    yield case(
        "many nulls before each byte",
        record("T", wides={"type": "array", "items": wide}, **text),
        long(400_000) + b"\2" * 400_000 + b"\0" + word,
    )
    yield case("unions of records below each other", record("T", text=unions(40, 6)), b"\0" * 20)
    yield case("a record that holds itself", record("T", text="T"), b"\0" * 20)
    enums = {f"f{at}": {"type": "enum", "name": f"E{at}", "symbols": ["A"]} for at in range(10_000)}
    inside = {**record("T", **enums, **text), "namespace": "n" * 1_000_000}
    yield case("a long namespace of many types", inside, word)
    yield (
        "avro a size without end",
        "AVRO",
        json.dumps(record("T", f={"type": "fixed", "name": "F", "size": 1}, **text)).replace(
            '"size": 1', '"size": 1e999'
        ),
        word,
    )
    yield "avro brackets", "AVRO", "[" * 1_000_000, word
    node = record("T", next=["null", "T"], **text)
    yield case("a list of a million", node, b"\2" * 1_000_000 + b"\0" + word * 1_000_000)
    yield case("a length of 2^61", record("T", **text), long(1 << 61) + b"abc")


def protobuf() -> Iterator[Case]:
    head = 'syntax = "proto3"; '
    word = b"\x0a\x04word"

    def case(name: str, schema: str, value: bytes) -> Case:
        return f"protobuf {name}", "PROTOBUF", schema, value

    yield case("a package of many parts", f"{head}package {'a.' * 200_000}b; message T "
               "{ Unknown text = 1; }", word)  # fmt: skip
    yield case(
        "a type with a long name", f"{head}message T {{ {'a.' * 500_000}b text = 1; }}", word
    )
    inside = "".join(f"message {'M' * 990}{level} {{" for level in range(90))
    many = "".join(f"enum E{number} {{ A = 0; }}" for number in range(2_000))
    yield case("names within names", f"{head}{inside}{many}{'}' * 90}", word)
    yield case("messages within messages", head + "message M {" * 100_000, word)
    digits = "9" * 1_000_000
    yield case("a number of digits", f"{head}message T {{ string text = {digits}; }}", word)
    yield case("brackets", f"{head}message T {{ string text = 1 {'[' * 1_000_000}; }}", word)
    one_of = "".join(f"string f{number} = {number};" for number in range(2, 20_000))
    yield case("a oneof of many", f"{head}message T {{ oneof o {{ string text = 1; {one_of} }} }}",
               b"\x12\0" * 400_000 + word)  # fmt: skip
    plain = f"{head}message T {{ string text = 1; repeated T more = 2; }}"
    yield case("groups", plain, b"\x1b" * 1_000_000)
    yield case("messages of no bytes", plain, b"\x12\0" * 500_000 + word)
    yield case("a length of 2^63", plain, b"\x0a" + b"\xff" * 8 + b"\x7f")
    nested = b""
    for _ in range(3_000):
        nested = b"\x12" + bytes([len(nested) & 127 | 128, len(nested) >> 7]) + nested
    yield case("a message in a message in a message", plain, nested + word)


def json_schema() -> Iterator[Case]:
    def case(name: str, value: str) -> Case:
        return f"json {name}", "JSON", "{}", value.encode()

    yield case("brackets", '{"text": "word", "more": ' + "[" * 1_000_000)
    yield case("digits", '{"text": "word", "more": ' + "9" * 1_000_000 + "}")
    yield case("an exponent", '{"text": "word", "more": 1e999999999999}')
    yield case("keys", '{"text": "word"' + ', "a": 1' * 200_000 + "}")
    yield case("escapes", '{"text": "' + "\\u0000" * 300_000 + '"}')


def cases() -> list[Case]:
    return [*avro(), *protobuf(), *json_schema()]


def answer() -> None:
    """Read every case, and say after each one what it is."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    formats = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json_schema"}
    for name, kind, schema, value in cases():
        frame = b"\0\0\0\0\7" + (b"\0" if kind == "PROTOBUF" else b"")
        reader = Reader(
            formats[kind], text=LOOKED_FOR, id=None, schemas=Shelf(Schema(kind, schema))
        )
        reading = reader.read(Record(Source("in", 0, 1), None, frame + value))
        code = reading.code.value if isinstance(reading, Malformed) else type(reading).__name__
        print(json.dumps([name, code]), flush=True)


class Shelf:
    """A registry with one schema, under whatever id is asked for."""

    def __init__(self, only: Schema) -> None:
        self._only = only

    def schema(self, id: object) -> Schema:
        return self._only


def test_no_schema_and_no_value_costs_more_than_its_bytes() -> None:
    command = [sys.executable, "-c", f"from {__name__} import answer; answer()"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    readings = dict(json.loads(line) for line in done.stdout.splitlines())
    assert [name for name, *_ in cases() if name not in readings] == [], done.stderr[-500:]
    assert ErrorCode.INTERNAL.value not in readings.values(), readings
    for name in LEGITIMATE:
        assert readings[name] == Document.__name__, name


LEGITIMATE = (
    "avro nothing, claimed 2^61 times", "avro levels of texts in an array of none",
    "protobuf a oneof of many", "protobuf messages of no bytes",
    "protobuf a message in a message in a message", "json digits", "json keys",
)  # fmt: skip
