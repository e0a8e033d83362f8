"""What does each format cost to read, against JSON?

The same documents as values of records, and as files that another run may be given. Each is read
to id and text, in turns. Ratios are of processor seconds, turn by turn: 2 is twice as fast as JSON.
"""

import csv
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from streamfilter.bench import texts
from streamfilter.bench.measure import interleaved, rates, ratios
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target
from streamfilter.config.configuration import Config
from streamfilter.documents.codecs.schemas import OneSchema, Schema
from streamfilter.documents.codecs.varints import as_long, as_string, as_varint
from streamfilter.documents.reader import Reader
from streamfilter.files.formats.avro import MAGIC, SYNC_BYTES
from streamfilter.files.inputs import documents_of
from streamfilter.model import Document, Record, Source

DOCUMENTS = {True: 300, False: 5_000}
BYTES = (200, 1_024, 8_192)
MORE = 10
"""Fields beside id and text in the wider kind of records, of MORE_BYTES each."""
MORE_BYTES = 24
FRAME = b"\0\0\0\0\1"
FIRST_MESSAGE = b"\0"
"""Behind the frame of Protobuf: which message of the schema it is."""
BLOCK = 64
"""Records of a block of a container file."""

Pair = tuple[str, str]
Fields = dict[str, str]
WANTED = {"avro value": 0.4, "protobuf value": 0.5, "avro file": 0.4, "parquet file": 1.0}
"""Of JSON's rate, where records are `WANTED_OF`; as values, and as files."""
WANTED_OF = "1,024 B, 2 fields"


def run(options: Options) -> BenchResult:
    """Read all kinds of records in all formats."""
    reading: list[Row] = []
    checks: list[Check] = []
    targets: list[Target] = []
    count = DOCUMENTS[options.quick]
    for size in BYTES[1:2] if options.quick else BYTES:
        fresh = texts.documents("english", size, max(count * 1_024 // size, 200), seed=7)
        found = texts.mixed(fresh[:count], share=0.3, seed=7)
        for more in (0, MORE):
            label = f"{size:,} B, {2 + more} fields"
            options.say(label)
            documents = [_fields(n, text, more) for n, text in enumerate(found)]
            with tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory:
                ways = _values(documents) | _files(documents, Path(directory))
                rows, right = _measured(label, ways, documents, options)
                reading += rows
                checks += right
            targets += _targets(label, reading)
    return BenchResult(
        {"reading": reading}, checks, targets,
        settings={"documents": count, "share of copies": 0.3},
        notes=[
            "as JSON: how many times as fast as JSON, a value as a value, a file as a file",
            "avro value: in a registry's frame, its schema known; files: avro with codec null",
            *([] if find_spec("pyarrow") else ["no Parquet: pip install 'streamfilter[parquet]'"]),
        ],
    )  # fmt: skip


def _fields(number: int, text: str, more: int) -> Fields:
    others = {f"field_{n}": f"{number * 31 + n:0{MORE_BYTES}d}" for n in range(more)}
    return {"id": str(number), **others, "text": text}


def _schema(fields: Fields) -> str:
    members = [{"name": name, "type": "string"} for name in fields]
    return json.dumps({"type": "record", "name": "Document", "fields": members})


def _avro(fields: Fields) -> bytes:
    return b"".join(map(as_string, fields.values()))


def _proto(fields: Fields) -> str:
    members = " ".join(f"string {name} = {n};" for n, name in enumerate(fields, 1))
    return f'syntax = "proto3"; message Document {{ {members} }}'


def _protobuf(fields: Fields) -> bytes:
    encoded = [(n << 3 | 2, value.encode()) for n, value in enumerate(fields.values(), 1)]
    return b"".join(bytes([tag]) + as_varint(len(raw)) + raw for tag, raw in encoded)


def _json(fields: Fields) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode()


def _values(documents: Sequence[Fields]) -> dict[str, Callable[[], list[Pair]]]:
    """Return what reads the documents as values of records, by format."""
    schemas = OneSchema(Schema("AVRO", _schema(documents[0])))
    readers = {
        "json value": (Reader(), _json),
        "avro value": (Reader("avro", schemas=schemas), lambda each: FRAME + _avro(each)),
        "protobuf value": (
            Reader("protobuf", schemas=OneSchema(Schema("PROTOBUF", _proto(documents[0])))),
            lambda each: FRAME + FIRST_MESSAGE + _protobuf(each),
        ),
        "json_schema value": (Reader("json_schema"), lambda each: FRAME + _json(each)),
    }

    def way(reader: Reader, encode: Callable[[Fields], bytes]) -> Callable[[], list[Pair]]:
        records = [Record(Source("", 0, n), None, encode(each))
                   for n, each in enumerate(documents)]  # fmt: skip

        def read() -> list[Pair]:
            found = map(reader.read, records)
            return [(each.id, each.text) for each in found if isinstance(each, Document)]

        return read

    return {name: way(*each) for name, each in readers.items()}


def _files(documents: Sequence[Fields], directory: Path) -> dict[str, Callable[[], list[Pair]]]:
    """Write the documents as files, and return what reads them, by format."""
    config = Config()
    return {
        f"{name} file": lambda path=str(path): _pairs(path, config)  # type: ignore[misc]
        for name, path in _written(documents, directory).items()
    }


def _pairs(path: str, config: Config) -> list[Pair]:
    return [(each.id, each.text) for each in documents_of([path], config)]


def _written(documents: Sequence[Fields], directory: Path) -> dict[str, Path]:
    paths = {name: directory / f"in.{suffix}" for name, suffix in
             {"json": "jsonl", "csv": "csv", "avro": "avro"}.items()}  # fmt: skip
    paths["json"].write_bytes(b"".join(_json(each) + b"\n" for each in documents))
    table = io.StringIO()
    writer = csv.DictWriter(table, list(documents[0]))
    writer.writeheader()
    writer.writerows(documents)
    paths["csv"].write_bytes(table.getvalue().encode())
    paths["avro"].write_bytes(_container(documents))
    if find_spec("pyarrow"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        paths["parquet"] = directory / "in.parquet"
        pq.write_table(pa.Table.from_pylist(documents), paths["parquet"])
    return paths


def _container(documents: Sequence[Fields]) -> bytes:
    schema, sync = _schema(documents[0]).encode(), bytes(SYNC_BYTES)
    key = b"avro.schema"
    metadata = [as_long(1), as_long(len(key)), key, as_long(len(schema)), schema]
    parts = [MAGIC, *metadata, as_long(0), sync]
    for at in range(0, len(documents), BLOCK):
        block = [_avro(each) for each in documents[at : at + BLOCK]]
        data = b"".join(block)
        parts += [as_long(len(block)), as_long(len(data)), data, sync]
    return b"".join(parts)


def _measured(
    label: str,
    ways: dict[str, Callable[[], list[Pair]]],
    documents: Sequence[Fields],
    options: Options,
) -> tuple[list[Row], list[Check]]:
    wanted = [(each["id"], each["text"]) for each in documents]
    checks = [
        Check(f"{label}: {name} is read as what it says", read() == wanted)
        for name, read in ways.items()
    ]
    seconds = interleaved(ways, repeat=options.repeat)
    return [_row(label, name, seconds, len(documents)) for name in ways], checks


def _row(label: str, name: str, seconds: dict[str, list[float]], count: int) -> Row:
    own, json_ = seconds[name], seconds[f"json {name.split()[-1]}"]
    return {
        "documents": label,
        "format": name,
        "docs/s": rates(own, count),
        "us/doc": min(own) / count * 1e6,
        "as JSON": ratios(own, json_),
    }


def _targets(label: str, rows: Sequence[Row]) -> list[Target]:
    if label != WANTED_OF:
        return []
    found = {row["format"]: row["as JSON"] for row in rows if row["documents"] == label}
    return [
        Target(f"{label}: {name}, of JSON's rate", found[name].median, wanted)  # type: ignore[union-attr]
        for name, wanted in WANTED.items()
        if name in found
    ]
