"""Parquet: columns of all kinds, in bounded memory; what is no such file is reported."""

import base64
import json
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamfilter.assembly import reader_for
from streamfilter.config.configuration import Config
from streamfilter.documents.fields.selecting import Limits
from streamfilter.documents.reader import Reader
from streamfilter.files import inputs
from streamfilter.files.formats.arrow_values import without_views
from streamfilter.files.formats.parquet import ParquetTable
from tests.filter.conftest import Desk
from tests.filter.stories import lines_of, stories, write

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("meta", pa.struct([("text", pa.large_string()), ("length", pa.int32())])),
        ("paragraphs", pa.list_(pa.struct([("text", pa.string())]))),
        ("language", pa.dictionary(pa.int32(), pa.string())),
        ("seen", pa.timestamp("ns", tz="UTC")),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("vector", pa.list_(pa.float32(), 3)),
        ("raw", pa.binary()),
        ("labels", pa.map_(pa.string(), pa.int32())),
    ],
    metadata={"made by": "somebody"},
)


def articles(count: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "meta": {"text": each["text"], "length": n}, "language": "en",
         "paragraphs": [{"text": part} for part in each["text"].partition(" w9")],
         "seen": datetime(2026, 1, 31, tzinfo=UTC), "price": Decimal("1.50"),
         "day": date(2026, 1, 31), "vector": [0.5, 1.0, n], "raw": b"\x00\xff",
         "labels": [("a", n)]}
        for n, each in enumerate(stories(count))
    ]  # fmt: skip


def parquet(path: Path, rows: Any, schema: Any = SCHEMA, **options: Any) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, schema), path, **options)
    return path


def test_rows_come_out_with_all_their_columns_types_and_packing(desk: Desk) -> None:
    rows = articles(300)
    path = parquet(desk.path / "in.parquet", rows, row_group_size=70, compression="zstd")
    assert desk.run(path, text="/meta/text") == 0
    withheld = {record["id"]: record for record in desk.records(desk.duplicates)}
    kept = pq.ParquetFile(desk.unique)
    given = pq.read_table(path)
    there = pa.array([str(row["id"]) not in withheld for row in rows])
    assert kept.read().equals(given.filter(there))
    assert kept.schema_arrow.equals(pq.read_schema(path), check_metadata=True)
    assert kept.schema_arrow.metadata[b"made by"] == b"somebody"
    groups = [kept.metadata.row_group(n) for n in range(kept.num_row_groups)]
    assert groups[0].column(0).compression == "ZSTD"
    assert [group.num_rows for group in groups[:2]] == [70, 70]
    payload = json.loads(withheld[max(withheld)]["payload"])
    assert (payload["day"], payload["price"], payload["raw"]) == ("2026-01-31", "1.50", "AP8=")
    assert payload["meta"]["text"]


def test_texts_of_a_list_are_its_lines(desk: Desk) -> None:
    rows = articles(200)
    lines = [{"id": row["id"], "text": "\n".join(p["text"] for p in row["paragraphs"])}
             for row in rows]  # fmt: skip
    assert desk.run(write(desk.path / "in.jsonl", lines_of(lines))) == 0
    wanted = [(r["id"], r["similarity"], r["matches"][0]["id"])
              for r in desk.records(desk.duplicates)]  # fmt: skip
    desk.clear()
    assert desk.run(parquet(desk.path / "in.parquet", rows), text="/paragraphs/*/text") == 0
    assert wanted
    assert [(r["id"], r["similarity"], r["matches"][0]["id"])
            for r in desk.records(desk.duplicates)] == wanted  # fmt: skip


def test_nulls_are_what_they_are_in_json(desk: Desk) -> None:
    texts = [("a", "one text with some words in it"), ("b", None), (None, "another"), ("d", "")]
    rows = [{"id": id_, "text": text} for id_, text in texts]
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    assert desk.run(write(desk.path / "in.jsonl", lines_of(rows))) == 0
    kept = [json.loads(line) for line in desk.unique.read_bytes().splitlines()]
    dead = [record["error"] for record in desk.records(desk.dead)]
    desk.clear()
    assert desk.run(parquet(desk.path / "in.parquet", rows, schema)) == 0
    assert pq.read_table(desk.unique).to_pylist() == kept
    assert [record["error"] for record in desk.records(desk.dead)] == dead
    assert [each["id"] for each in kept] == ["a", "b", "d"]


HALF = np.array([0.5] * 3, np.float16)
TEXTS = ["the first of the texts", "another one, and longer", "the first of the texts"]
BYTES = [each.encode() for each in TEXTS]
VIEWS = pa.struct([("a", pa.binary_view()), ("b", pa.map_(pa.string_view(), pa.string_view()))])
TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
         pa.binary_view(), pa.dictionary(pa.int32(), pa.string())]  # fmt: skip


def hinted(path: Path, table: pa.Table, kinds: dict[str, Any]) -> pa.Table:
    """Write *table* as of other Arrow types: as Polars and DataFusion do, and not every pyarrow."""
    fields = [(name, kinds.get(name, table[name].type)) for name in table.schema.names]
    hint = {"ARROW:schema": base64.b64encode(pa.schema(fields).serialize().to_pybytes())}
    pq.write_table(table.replace_schema_metadata(hint), path, store_schema=False)
    return pq.read_table(path)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("nested", [False, True])
def test_texts_of_every_type_are_read_and_rows_come_out_as_they_were(desk, kind, nested):
    path = desk.path / "in.parquet"
    plain = without_views(kind)
    text = pa.array(BYTES if "binary" in str(kind) else TEXTS).cast(plain)
    more = pa.array([{"a": b"x", "b": [("k", "v")]}, None, {"b": []}], without_views(VIEWS))
    table = pa.table({"id": [0, 1, 2], "half": HALF, "more": more, "text": text})
    if nested:
        texts = pa.StructArray.from_arrays([text, pa.array([1, 2, 3])], ["text", "number"])
        kind = pa.list_(pa.struct([("text", kind), ("number", pa.int64())]))
        table = table.set_column(3, "text", pa.ListArray.from_arrays([0, 1, 2, 3], texts))
    given = hinted(path, table, {"text": kind, "more": VIEWS})
    assert desk.run(path, text="/text/*/text" if nested else "/text") == 0
    kept = pq.read_table(desk.unique)
    assert kept.to_pylist() == given.slice(0, 2).to_pylist()
    assert pq.ParquetFile(desk.unique).schema.equals(pq.ParquetFile(path).schema)
    assert nested or kept.schema.field("text").equals(given.schema.field("text"))
    (letter,) = desk.records(desk.duplicates)
    assert (letter["id"], letter["matches"][0]["id"]) == ("2", "0")


@pytest.mark.parametrize("kind", [pa.list_view(pa.int8()), pa.large_list_view(pa.int8())])
def test_list_views_are_named_and_called_no_damage(desk, kind, capsys):
    path = desk.path / "in.parquet"
    pq.write_table(pa.table({"id": [0], "text": ["a"], "views": pa.array([[1]], kind)}), path)
    assert desk.run(path) == 65
    error = capsys.readouterr().err
    assert f"{path} has list views, which pyarrow cannot convert: views" in error
    assert "cure: write the file with plain lists in these columns" in error


NIBBLES = [bytes([each] * 16) for each in range(3)]
IDS = {
    "uuid": (pa.array(NIBBLES, pa.binary(16)), [str(UUID(bytes=each)) for each in NIBBLES]),
    "digest": (pa.array(NIBBLES, pa.binary(16)), [each.hex() for each in NIBBLES]),
    "integers with a null, by pandas": (
        pa.array([1.0, 2.0, -(2.0**40)]),
        ["1", "2", str(-(2**40))],
    ),
    "floats": (pa.array([0.5, 1e300, -0.0]), ["0.5", str(int(1e300)), "0"]),
    "half floats": (pa.array(HALF), ["0.5"] * 3),
    "bytes": (pa.array([b"a", "é".encode(), b""]), ["a", "é", ""]),
    "a category": (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    "days": (pa.array([0, 1, 2], pa.date32()), ["1970-01-01", "1970-01-02", "1970-01-03"]),
    "nanoseconds": (pa.array([1, 2, 3], pa.time64("ns")), [f"00:00:00.00000000{n}" for n in "123"]),
    "decimals": (pa.array([Decimal("1.50")] * 3), ["1.50"] * 3),
    "unsigned": (pa.array([2**64 - 1, 0, 1], pa.uint64()), [str(2**64 - 1), "0", "1"]),
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("where", ["/id", "/meta/id"])
def test_ids_of_every_type_are_read(tmp_path: Path, kind: str, where: str) -> None:
    ids, expected = IDS[kind]
    if kind == "uuid":
        ids = pa.ExtensionArray.from_storage(pa.uuid(), ids)
    table = pa.table({"id": ids, "text": ["one", "two", "three"]})
    if where == "/meta/id":
        broken = pa.array([b"\xff", b"a", None], pa.binary()).view(pa.string())
        times = pa.array([2**62, 1, 2], pa.timestamp("ns"))
        meta = pa.StructArray.from_arrays([ids, broken, times], ["id", "nobody", "asks"])
        table = table.set_column(0, "meta", meta)
    pq.write_table(table, tmp_path / "in.parquet")
    reader = Reader(id=where)
    with closing(ParquetTable(str(tmp_path / "in.parquet"), reader, None)) as rows:
        (stretch,) = rows.stretches(documents=10, size=1 << 20, summed=True)
        assert [each.id for each in reader.read_all(stretch.records)] == expected
        assert all(each.value for each in stretch.records)


def test_an_id_that_is_no_number_is_a_dead_letter(desk: Desk) -> None:
    ids = pa.array([1.0, float("nan"), float("inf"), None])
    table = pa.table({"id": ids, "text": ["one a", "two b", "three c", "four d"]})
    pq.write_table(table, desk.path / "in.parquet")
    assert desk.run(desk.path / "in.parquet") == 0
    kept = pq.read_table(desk.unique, columns=["id"]).column(0).to_pylist()
    assert kept == [1.0]
    assert [each["error"]["code"] for each in desk.records(desk.dead)] == ["wrong_type"] * 3


def test_a_string_that_is_no_utf_8_is_one_dead_letter(desk: Desk) -> None:
    texts = [each["text"].encode() for each in stories(4)]
    texts[2] = b"caf\xe9 " + texts[2]
    column = pa.array(texts, pa.binary()).view(pa.string())
    table = pa.table({"id": ["a", "b", "c", "d"], "text": column})
    path = desk.path / "in.parquet"
    pq.write_table(table, path)
    assert desk.run(path) == 0
    (letter,) = desk.records(desk.dead)
    assert (letter["error"]["code"], letter["source"]["offset"]) == ("bad_utf8", 3)
    kept = pq.read_table(desk.unique, columns=["id"]).column(0).to_pylist()
    withheld = [record["id"] for record in desk.records(desk.duplicates)]
    assert sorted(kept + withheld) == ["a", "b", "d"]


def test_a_column_of_another_type_is_reported_row_by_row(desk, capsys):
    path = parquet(desk.path / "in.parquet", articles(2))
    assert desk.run(path, text="/raw", dead_letter=False) == 65
    assert f"{path}, row 1: wrong_type: /raw is bytes; it must be a string" in (
        capsys.readouterr().err
    )
    assert desk.run(path, text="/meta/body", dead_letter=False) == 65
    assert "missing_text: there is no /meta/body" in capsys.readouterr().err


LONG = "é" * 600
"""As an id too long in bytes, though not in characters."""
COLUMNS: dict[str, tuple[list[Any], list[Any]]] = {
    "plain": (["a", "b", "c"], ["one two", "three", "four é"]),
    "numbers": ([1, -2, 3], ["one", "two", "three"]),
    "blank": (["a", "b", "c"], ["one", "  ", "\u200b\n"]),
    "without a text": (["a", "b", "c"], ["one", None, "three"]),
    "without an id": (["a", None, "c"], ["one", "two", "three"]),
    "long ids": (["a", "b" * 1_025, "c" * 1_024], ["one", "two", "three"]),
    "ids of many bytes": (["a", LONG, "c"], ["one", "two", "three"]),
    "long texts": (["a", "b", "c"], ["one", "two" * 40, "three"]),
    "no text": (["a", "b", "c"], [1, 2, 3]),
    "no ids": ([0.5, 1.5, 2.5], ["one", "two", "three"]),
    "truths": ([True, False, True], ["one", "two", "three"]),
    "no UTF-8": (["a", "b", "c"], [b"one", b"caf\xe9", b"three"]),
    "large": (["a", "b", "c"], ["one", "two", "three " * 20]),
    "none": ([], []),
}  # fmt: skip


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("id_", ["/id", None])
def test_columns_are_read_as_their_rows_are(tmp_path: Path, kind: str, id_: str | None) -> None:
    ids, texts = COLUMNS[kind]
    column = pa.array(texts, pa.string() if not texts else None)
    text = column.view(pa.string()) if kind == "no UTF-8" else column
    path = tmp_path / "in.parquet"
    pq.write_table(
        pa.table({"id": pa.array(ids, None if ids else pa.string()), "text": text}), path
    )
    size = 100 if kind == "large" else 10_000
    reader = Reader(id=id_, limits=Limits(document_bytes=size, text_characters=100))
    with closing(ParquetTable(str(path), reader, None)) as table:
        found = [
            (reader.read_all(stretch.records), [*map(reader.read, stretch.records)])
            for stretch in table.stretches(documents=10, size=1 << 20)
        ]
    assert all(by_columns == by_rows for by_columns, by_rows in found)
    assert [len(each) for each, _ in found] == ([3] if texts else [])


def test_rows_of_plain_columns_are_not_looked_at_one_by_one(desk, monkeypatch):
    rows = [{"id": n, "text": each["text"]} for n, each in enumerate(stories(40))]
    path = desk.path / "in.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    monkeypatch.setattr(Reader, "read", None)
    assert desk.run(path) == 0
    assert desk.run(path, id="none") == 0


def damaged(data: bytes, kind: str) -> bytes:
    middle = len(data) // 2
    match kind:
        case "cut":
            return data[:middle]
        case "footer":
            return data[:-900] + bytes(892) + data[-8:]
        case "page":
            return data[:middle] + b"\xff" * 400 + data[middle + 400 :]
        case "empty":
            return b""
        case "other":
            return b"Obj\x01" + data[4:-4] + b"none"
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["cut", "footer", "page", "empty", "other"])
def test_damage_is_reported_and_the_outputs_stay(desk, kind, capsys):
    path = parquet(
        desk.path / "in.parquet", articles(400), row_group_size=50, write_page_checksum=True
    )
    path.write_bytes(damaged(path.read_bytes(), kind))
    desk.unique.write_text("as it was")
    assert desk.run(path, text="/meta/text") == 65
    error = capsys.readouterr().err
    assert f"{path}: damaged Parquet data " in error
    assert len(error.splitlines()) < 4
    assert desk.unique.read_text() == "as it was"


def test_standard_input_is_refused_with_the_reason(desk, capsys):
    assert desk.run("-", format="parquet") == 64
    assert "Parquet is read from its end\n    cure: write it to a file" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
def test_one_large_row_group_is_read_in_little_memory(tmp_path: Path, shared: bool) -> None:
    """Of texts that are stored once for many rows, the unpacked size is not in the file."""
    text = "a text of ten thousand characters " * 300
    rows = [{"id": n, "text": text if shared else f"{n} " * 400} for n in range(40_000)]
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    path = parquet(tmp_path / "in.parquet", rows, schema, use_dictionary=shared)
    del rows
    assert pq.ParquetFile(path).num_row_groups == 1
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    try:
        config = Config()
        opened = inputs.open_input(str(path), config, reader_for(config))
        read = sum(len(each.records) for each in opened.stretches(documents=1_000, size=1 << 20))
        opened.close()
    finally:
        pa.set_memory_pool(before)
    assert read == 40_000
    assert pool.max_memory() < 16 << 20, "of some 90 MB, or 400"


def test_a_file_without_rows_gives_one_without_rows(desk: Desk) -> None:
    path = parquet(desk.path / "in.parquet", [])
    assert desk.run(path, text="/meta/text") == 0
    kept = pq.read_table(desk.unique)
    assert (kept.num_rows, kept.schema) == (0, SCHEMA)
