"""Avro container files: what another program wrote, and what is left of a damaged one."""

import base64
import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from streamfilter.documents.codecs.varints import as_long
from streamfilter.files.formats import avro
from tests.filter.conftest import Desk
from tests.filter.stories import stories

ARTICLE = {
    "type": "record", "name": "Article", "namespace": "news", "fields": [
        {"name": "labels", "type": {"type": "map", "values": ["null", "double"]}},
        {"name": "key", "type": ["null", "string"], "aliases": ["id"]},
        {"name": "body", "type": {"type": "record", "name": "Body", "fields": [
            {"name": "text", "type": ["null", "string"]}, {"name": "length", "type": "int"}]}},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip


def articles(count: int) -> list[dict[str, Any]]:
    return [
        {"labels": {"a": None, "b": n / 2}, "key": each["id"], "seen": 1_700_000_000_000 + n,
         "body": {"text": each["text"], "length": len(each["text"])}}
        for n, each in enumerate(stories(count))
    ]  # fmt: skip


def container(
    path: Path, rows: Any, schema: Any = ARTICLE, codec: str = "null", **options: Any
) -> Path:
    with path.open("wb") as file:
        plain = "null" if codec == "zstandard" else codec
        fastavro.writer(file, schema, rows, plain, **options)
    if codec == "zstandard":  # fastavro has it from yet another library
        repack(
            path, "null", "zstandard", pytest.importorskip("zstandard").ZstdCompressor().compress
        )
    return path


def repack(path: Path, codec: str, other: str, pack: Callable[[bytes], bytes]) -> None:
    """Pack the blocks of a file anew; *codec* and *other* are the old and the new name."""
    data = path.read_bytes()
    head, body = data.split(data[-16:], 1)[0] + data[-16:], io.BytesIO(data)
    body.seek(len(head))
    name, new = (bytes([len(each) * 2]) + each.encode() for each in (codec, other))
    parts = [head.replace(b"avro.codec" + name, b"avro.codec" + new)]
    while body.tell() < len(data):
        count = as_long(read_long(body))
        content = pack(body.read(read_long(body)))
        parts.append(count + as_long(len(content)) + content + body.read(16))
    path.write_bytes(b"".join(parts))


def read_long(file: io.BytesIO) -> int:
    return int(fastavro.schemaless_reader(file, "long", None))  # type: ignore[call-overload]


def read(path: Path) -> list[Any]:
    if b"avro.codec\x12zstandard" in path.read_bytes()[:4_000]:
        plain = path.with_suffix(".plain")
        plain.write_bytes(path.read_bytes())
        repack(
            plain,
            "zstandard",
            "null",
            pytest.importorskip("zstandard").ZstdDecompressor().decompress,
        )
        path = plain
    with path.open("rb") as file:
        return list(fastavro.reader(file))


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "zstandard"])
def test_nested_texts_and_renamed_ids_are_read_and_records_come_out_byte_for_byte(desk, codec):
    rows = articles(300)
    path = container(desk.path / "in.avro", rows, codec=codec, sync_interval=3_000)
    assert desk.run(path, text="/body/text") == 0
    withheld = {record["id"]: record for record in desk.records(desk.duplicates)}
    assert len(withheld) > 50
    assert read(desk.unique) == [each for each in read(path) if each["key"] not in withheld]
    with desk.unique.open("rb") as file, path.open("rb") as given:
        kept, source = fastavro.reader(file), fastavro.reader(given)
        assert (kept.codec, kept.metadata) == (codec, source.metadata)
    schema = fastavro.parse_schema(ARTICLE)
    for row in rows:
        if row["key"] in withheld:
            payload = base64.b64decode(withheld[row["key"]]["payload"])
            expected = io.BytesIO()
            fastavro.schemaless_writer(expected, schema, row)
            assert payload == expected.getvalue()


def test_a_null_is_reported_as_in_a_line(desk: Desk) -> None:
    rows = articles(3)
    rows[1]["body"]["text"] = None
    rows[2]["key"] = None
    path = container(desk.path / "in.avro", rows)
    assert desk.run(path, text="/body/text") == 0
    assert read(desk.unique) == read(path)[:2]
    assert [letter["error"]["message"] for letter in desk.records(desk.dead)] == [
        "/id is null; it must be a string or an integer"
    ]


SNAPPY = base64.b64decode(
    "T2JqAQQUYXZyby5jb2RlYwxzbmFwcHkWYXZyby5zY2hlbWGkAnsidHlwZSI6ICJyZWNvcmQiLCAibmFtZSI6ICJ0"
    "b3BMZXZlbFJlY29yZCIsICJmaWVsZHMiOiBbeyJuYW1lIjogImlkIiwgInR5cGUiOiBbInN0cmluZyIsICJudWxs"
    "Il19LCB7Im5hbWUiOiAidGV4dCIsICJ0eXBlIjogWyJzdHJpbmciLCAibnVsbCJdfV19ADAxMjM0NTY3ODlhYmNk"
    "ZWYG7AaYBvBpAAJhAKwFVGhlIGhhcmJvdXIgYXV0aG9yaXR5IHNhaWQgb24gVHVlc2RheSB0aGF0IHRoZSBuZXcg"
    "Y3JhbmUgd291bGQgYmUgZGVsaXZlcmVkIGluIE1hcmNoIGFmdGVyIG1vbnRocyBvZgEjWGF5IGNhdXNlZCBieSBh"
    "IHN0cmlrZSBhCVbwPGZhY3RvcnkuIFdvcmtlcnMgaGFkIGFza2VkIGZvciBiZXR0ZXIgcGF5IGFuZCBzaG9ydGVy"
    "IHNoaWZ0cywFFBh0aGUgb3duATx8YWdyZWVkIHRvIG1vc3Qgb2YgaXQgbGFzdCB3ZWVrLiAB8gxvbGQgDcccaWxs"
    "IGJlIHMBExx0byBhIHlhcgXLMFBvbGFuZCwgd2hlcmUBRCBpcyBleHBlY3QJXhBzZXJ2ZQWggGFub3RoZXIgdGVu"
    "IHllYXJzLgACYgC0AUJyZWFraW5nOgmfBGxkNWoMY3JhbiF4MHMgZmFsbGVuIGludG8FJgh3YXQBSihoaXMgbW9y"
    "bmluZwXgRG5vYm9keSB3YXMgaHVydAACY/68Af68Af68Af68Af68AWK8AdZZ4kEwMTIzNDU2Nzg5YWJjZGVm"
)
"""Three records of fastavro and cramjam; the third is a copy of the first."""


def test_snappy_is_read_and_written_as_others_do(desk: Desk) -> None:
    path = desk.path / "in.avro"
    path.write_bytes(SNAPPY)
    assert desk.run(path) == 0
    (letter,) = desk.records(desk.duplicates)
    assert letter["matches"][0]["id"] == "a"
    assert b"snappy" in desk.unique.read_bytes()
    kept = desk.path / "again.avro"
    desk.unique.rename(kept)
    assert desk.run(kept) == 0
    assert desk.unique.read_bytes() == kept.read_bytes()
    for at, said in ((-24, "a block's checksum is wrong"), (-40, "a block ")):
        path.write_bytes(SNAPPY[:at] + b"\xff" + SNAPPY[at + 1 :])
        assert desk.run(path) == 65, said


@pytest.mark.parametrize(
    ("codec", "code", "said"),
    [
        ("lzo", 65, "write it anew, such as by `avro-tools recodec --codec deflate IN OUT`"),
        ("snappy", 64, "pip install 'streamfilter[parquet]'"),
        ("zstandard", 64, "pip install 'streamfilter[zstd]'"),
    ],
)
def test_a_codec_that_is_not_there_is_named_with_the_cure(
    desk, codec, code, said, monkeypatch, capsys
):
    path = container(desk.path / "in.avro", articles(3), codec="null")
    name = bytes([len(codec) * 2]) + codec.encode()
    path.write_bytes(path.read_bytes().replace(b"\x14avro.codec\x08null", b"\x14avro.codec" + name))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert desk.run(path, text="/body/text") == code
    error = capsys.readouterr().err
    assert codec in error.lower()
    assert f"cure: {said}" in error


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard"])
def test_a_block_that_is_cut_short_is_damage(desk, codec, capsys):
    rows = [{"id": str(n), "text": f"{n} words"} for n in range(99)]
    fields = [{"name": name, "type": "string"} for name in rows[0]]
    schema = {"type": "record", "name": "A", "fields": fields}
    path = container(desk.path / "in.avro", rows, schema, codec=codec)
    data = path.read_bytes()
    path.write_bytes(data[:-60] + bytes(44) + data[-16:])
    assert desk.run(path) == 65
    assert f"{path}: damaged Avro data at its beginning: " in capsys.readouterr().err


def test_a_header_without_an_end_is_damage(desk, monkeypatch, capsys):
    monkeypatch.setattr(avro, "HEADER_BYTES_MAX", 10_000)
    path = desk.path / "in.avro"
    path.write_bytes(b"Obj\x01\xfe\xff\xff\x0f" + b"\x02a\x00" * 9_000)
    assert desk.run(path) == 65
    assert "a header of more than 10000 bytes" in capsys.readouterr().err


def test_a_file_of_records_of_several_kinds_is_read_by_what_each_has(desk: Desk) -> None:
    note = {"type": "record", "name": "Note", "fields": [
        {"name": name, "type": "string"} for name in ("id", "text")]}  # fmt: skip
    other = {**note, "name": "Other", "fields": [{"name": "at", "type": "long"}]}
    rows = [("Note", each) for each in stories(60)] + [None, ("Other", {"at": 5})]
    path = container(desk.path / "in.avro", rows, ["null", note, other])
    assert desk.run(path) == 0
    withheld = {each["id"] for each in desk.records(desk.duplicates)}
    assert withheld
    assert read(desk.unique) == [each for _, each in rows[:60] if each["id"] not in withheld]
    codes = [(each["error"]["code"], each["source"]["offset"]) for each in desk.records(desk.dead)]
    assert codes == [("wrong_type", 61), ("missing_text", 62)]


def test_a_string_that_is_no_utf_8_is_one_dead_letter(desk: Desk) -> None:
    rows = articles(5)
    rows[2]["body"]["text"] = "a text with caf\u00e9 in it, and then some more"
    path = container(desk.path / "in.avro", rows)
    path.write_bytes(path.read_bytes().replace("caf\u00e9".encode(), b"caf\xe9\xe9"))
    assert desk.run(path, text="/body/text") == 0
    (letter,) = desk.records(desk.dead)
    assert (letter["error"]["code"], letter["source"]["offset"]) == ("bad_utf8", 3)
    assert len(desk.records(desk.duplicates)) + len(_keys(desk.unique)) == 4


def _keys(path: Path) -> list[bytes]:
    """Those of records whose texts fastavro may not be able to read.

    The random marker between blocks, which ends the file, may have the bytes of a key.
    """
    data = path.read_bytes()
    rest = data.replace(data[-16:], b"")
    return [each for each in (b"d0", b"d1", b"d3", b"d4") if each in rest]


def damaged(data: bytes, sync: bytes, kind: str) -> bytes:
    second = data.index(sync, data.index(sync) + 1)
    match kind:
        case "marker":
            return data[:second] + bytes(16) + data[second + 16 :]
        case "cut":
            return data[:-20]
        case "length":
            return data[: second + 16] + b"\x02\xff\xff\xff\xff\xff\xff\x01" + data[second + 24 :]
        case "content":
            return data[: second + 24] + b"\xff" * 40 + data[second + 64 :]
    raise AssertionError(kind)


@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize("kind", ["marker", "cut", "length", "content"])
def test_damage_is_said_with_the_last_row_before_it_and_the_outputs_stay(desk, kind, codec, capsys):
    sync = b"a marker of ours"
    path = desk.path / "in.avro"
    container(path, articles(200), codec=codec, sync_interval=2_000, sync_marker=sync)
    path.write_bytes(damaged(path.read_bytes(), sync, kind))
    desk.unique.write_text("as it was")
    assert desk.run(path, text="/body/text") == 65
    error = capsys.readouterr().err
    assert f"{path}: damaged Avro data " in error
    assert desk.unique.read_text() == "as it was"


NAMELESS = b'{"type":"record","name":"R","fields":[{"name":5,"type":"int"}]}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it ends in the middle"),
        (b"PAR1 and more", "is no Avro container file"),
        (b"Obj\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "an integer of more than 64"),
        (b"Obj\x01\x02\x16avro.schema\x04{}\x00" + bytes(16), "the schema is none"),
        (b"Obj\x01\x02\x16avro.schema\x10\"string\"\x00" + bytes(16), "has no column text"),
        (b"Obj\x01\x02\x16avro.schema" + bytes([2 * len(NAMELESS)]) + NAMELESS + bytes(17),
         "the schema is none"),
    ],
)  # fmt: skip
def test_what_is_no_container_is_reported(desk, content, said, capsys):
    path = desk.path / "in.avro"
    path.write_bytes(content)
    assert desk.run(path) == 65
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard"])
def test_a_block_that_unpacks_to_more_than_a_block_may_hold_is_damage(
    desk: Desk, codec: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "a", "text": "a" * 2_000_000}
    fields = [{"name": name, "type": "string"} for name in row]
    schema = {"type": "record", "name": "A", "fields": fields}
    path = container(desk.path / "in.avro", [row], schema, codec=codec)
    monkeypatch.setattr(avro, "BLOCK_BYTES_MAX", 1_000_000)
    assert desk.run(path) == 65
    assert "unpacks to more than a block may hold" in capsys.readouterr().err


def test_records_of_no_bytes_do_not_go_on_for_ever(desk, capsys):
    fields = [{"name": name, "type": "null"} for name in ("id", "text")]
    path = container(
        desk.path / "in.avro",
        [{"id": None, "text": None}],
        {"type": "record", "name": "A", "fields": fields},
    )
    assert desk.run(path) == 65
    assert "a record of no bytes" in capsys.readouterr().err


def test_a_compressed_container_is_unpacked(desk: Desk) -> None:
    path = container(desk.path / "in.avro", articles(50))
    packed = desk.path / "in.avro.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert desk.run(packed, text="/body/text") == 0
    assert 0 < len(read(desk.unique)) < 50
