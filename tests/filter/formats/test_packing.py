"""Packed files, in bounded memory, and files of another layout than a record on each line."""

import bz2
import gzip
import json
import lzma
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from streamfilter.assembly import reader_for
from streamfilter.cli import main
from streamfilter.config.loading import load_config
from streamfilter.files import inputs
from tests.filter.conftest import Desk
from tests.filter.stories import lines_of, stories, write


def zstandard() -> Any:
    return pytest.importorskip("zstandard")


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard().ZstdCompressor(level=10).compress(data),
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.decompress,
    "bz2": bz2.decompress,
    "xz": lzma.decompress,
    "zst": lambda data: zstandard().ZstdDecompressor().stream_reader(data).read(),
}
packings = pytest.mark.parametrize("suffix", PACK)


@packings
def test_what_is_packed_goes_in_and_out_and_equal_runs_give_equal_bytes(desk, suffix):
    lines = lines_of(stories(300))
    packed = desk.path / f"in.jsonl.{suffix}"
    halves = b"\n".join(lines[:99]) + b"\n", b"\n".join(lines[99:])
    packed.write_bytes(b"".join(map(PACK[suffix], halves)))  # as parallel packers do
    target = desk.path / f"unique.jsonl.{suffix}"
    found = []
    for _ in range(2):
        assert desk.run(packed, unique=target) == 0
        found.append(target.read_bytes())
    assert found[0] == found[1]
    assert desk.run(write(desk.path / "plain", lines)) == 0
    assert UNPACK[suffix](found[0]) == desk.unique.read_bytes()


@pytest.mark.slow
@packings
def test_damage_is_reported_with_the_last_good_line(desk, suffix, capsys):
    data = PACK[suffix](b"\n".join(lines_of(stories(3_000))))
    packed = desk.path / f"in.{suffix}"
    name = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "Zstandard"}[suffix]
    middle = len(data) // 2
    for broken in (data[:-40], data[:middle] + b"\xff" * 64 + data[middle + 64 :], data + b"more"):
        packed.write_bytes(broken)
        assert desk.run(packed) == 65
        assert f"damaged {name} data after line " in capsys.readouterr().err
        assert not desk.unique.exists()


def test_frames_without_content_stand_before_and_between_the_others(desk: Desk) -> None:
    """As parallel packers write them."""
    marks = [b"\x50\x2a\x4d\x18" + bytes(4), b"\x5f\x2a\x4d\x18\x03\x00\x00\x00abc"]
    lines = lines_of(stories(40))
    halves = b"\n".join(lines[:9]) + b"\n", b"\n".join(lines[9:])
    packed = desk.path / "in.jsonl"
    packed.write_bytes(marks[0] * 3 + PACK["zst"](halves[0]) + marks[1] + PACK["zst"](halves[1]))
    assert desk.run(packed) == 0
    found = desk.unique.read_bytes()
    assert desk.run(write(desk.path / "plain", lines)) == 0
    assert desk.unique.read_bytes() == found


def test_blank_lines_are_cut_so_that_an_interruption_is_heard(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * 250_000 + b'{"id":"a","text":"a story"}\n'))
    with closing(opened(path, "1MB")) as file:
        found = [(each.start, each.end, len(each.records)) for each in
                 file.stretches(documents=9, size=9 << 20, summed=True)]  # fmt: skip
    assert found == [(1, 100_001, 0), (100_001, 200_001, 0), (200_001, 250_002, 1)]


def test_without_the_extra_zstandard_says_what_to_install(desk, monkeypatch, capsys):
    packed = desk.path / "in.jsonl.zst"
    packed.write_bytes(PACK["zst"](b"\n".join(lines_of(stories(3)))))
    plain = write(desk.path / "in.jsonl", lines_of(stories(3)))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    for arguments in ({"inputs": packed}, {"inputs": plain, "unique": desk.path / "u.zst"}):
        path = arguments.pop("inputs")
        assert desk.run(path, **arguments) == 64
        assert "cure: pip install 'streamfilter[zstd]'" in capsys.readouterr().err
    assert not [*desk.path.glob("u.zst*")]


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (b"PK\x03\x04", "is a ZIP archive (or a spreadsheet)\n    cure: unpack it"),
        (b"7z\xbc\xaf\x27\x1c", "is a 7z archive"), (b"\x04\x22\x4d\x18", "is packed by lz4"),
        (b"\x1f\x9d", "is packed by compress"), (b"\xff\x06\x00\x00sNaPpY", "is packed by snappy"),
        (b"Rar!\x1a\x07", "is a RAR archive"),
        (b"PAR1", "is a Parquet file, not a record on each line\n    cure: read it"),
        (b"Obj\x01", "is an Avro container file"), (b"ORC", "is an ORC file"),
        (b"ARROW1", "is an Arrow file"), ("{}".encode("utf-16"), "is UTF-16"),
        ("{}".encode("utf-32"), "is UTF-32"), (bytes(257) + b"ustar", "is a tar archive"),
        (lzma.compress(b"{}", format=lzma.FORMAT_ALONE), "is packed by lzma"),
        (gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0),
         "is packed twice\n    cure: unpack it once"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named_with_the_cure(desk, begin, said, capsys):
    path = desk.path / "in.jsonl"
    path.write_bytes(begin + bytes(range(256)) * 9)
    assert desk.run(path) == 65
    assert f"{path} {said}" in capsys.readouterr().err


def opened(path: Path, limit: str) -> inputs.Input:
    config = load_config((), {}, [f"limits.document={limit}"])
    return inputs.open_input(str(path), config, reader_for(config))


@pytest.mark.slow
@packings
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_of_a_line_that_never_ends_the_limit_is_kept(tmp_path, suffix, form):
    size = 48 << 20
    begin, line, after = {
        "jsonl": (b"", b'{"id":"a","text":"' + bytes(size), b'"}\n{"id":"b","text":"a story"}\n'),
        "csv": (b"id,text\n", b'a,"' + b"x" * size, b'"\nb,a story\n'),
    }[form]
    path = tmp_path / f"in.{form}.{suffix}"
    path.write_bytes(PACK[suffix](begin + line + after))
    del line
    tracemalloc.start()
    try:
        with closing(opened(path, "1MB")) as file:
            stretches = [*file.stretches(documents=9, size=9 << 20, summed=True)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    records = [record for each in stretches for record in each.records]
    assert [len(each.value or b"") < 1_200_000 for each in records] == [True, True]
    assert b"a story" in (records[1].value or b"")
    assert records[1].source.offset == len(begin.splitlines()) + 2
    assert peak < 40 << 20, "of 48 MiB; Zstandard gives up to 16 at once"


def test_a_long_line_is_one_dead_letter_and_numbers_go_on(desk: Desk) -> None:
    rows = [{"id": each["id"], "text": each["text"]} for each in stories(4)]
    for size in (1_022, 1_023, 1_024, 1_025, 2_048, 3_075):
        desk.clear()
        lines = lines_of(rows)
        lines[1] = json.dumps({"id": "x", "text": "y"}).encode().ljust(size)
        path = write(desk.path / "in.jsonl", lines)
        assert main([*desk.arguments(path), "--set", "limits.document=1KiB"]) == 0
        dead = [(each["error"]["code"], each["source"]["offset"], each["payload"].encode())
                for each in desk.records(desk.dead)]  # fmt: skip
        wanted = [("too_large", 2, lines[1][:1_025])] if size > 1_024 else []
        assert dead == wanted, size


@pytest.mark.parametrize("at", range(8))
def test_a_long_csv_line_ends_where_its_quotes_say(desk: Desk, at: int) -> None:
    """Pieces of the line end inside of each of these quotes for one of the shifts."""
    cells = "y" * at + '""z""""' + "y" * 1_000 + '"",""' + '","' * 400 + 'a","""b""'
    path = desk.path / "in.csv"
    after = ["3,the first of the texts", "4,another of them"]
    path.write_text("\n".join(["id,text", f'2,"{cells}"', *after]) + "\n")
    assert main([*desk.arguments(path), "--set", "limits.document=1KiB"]) == 0
    assert desk.unique.read_text().splitlines() == ["id,text", *after]
    (letter,) = desk.records(desk.dead)
    assert letter["error"]["code"] == "too_large"


def test_an_unpacker_takes_no_more_memory_than_it_may(desk, capsys):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29, "mode": lzma.MODE_FAST,
                "mf": lzma.MF_HC3}]  # fmt: skip
    path = desk.path / "in.jsonl.xz"
    packer = lzma.LZMACompressor(filters=filters)
    path.write_bytes(packer.compress(b"{}") + packer.flush())
    assert desk.run(path) == 65
    assert "damaged xz data after line 0: Memory usage limit exceeded" in capsys.readouterr().err


ROWS = [{"id": each["id"], "text": each["text"]} for each in stories(3)]
LAYOUTS = {
    "an array in one line": (json.dumps(ROWS), "one JSON array"),
    "an array of lines": ("[" + ",\n".join(map(json.dumps, ROWS)) + "]", "one JSON array"),
    "a pretty array": ("\ufeff\n" + json.dumps(ROWS, indent=2), "one JSON array"),
    "pretty objects": ("\n".join(json.dumps(each, indent=2) for each in ROWS), "JSON over sev"),
    "a sequence": ("".join(f"\x1e{json.dumps(each)}\n" for each in ROWS), "a JSON text sequence"),
    "lines of CR": ("\r".join(map(json.dumps, ROWS)), "lines that end with CR alone"),
    "objects of lines": (json.dumps(ROWS[0]).replace(", ", ",\n"), "JSON over several lines"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LAYOUTS)
def test_json_of_another_layout_is_named_with_the_cure(desk, kind, capsys):
    content, said = LAYOUTS[kind]
    path = desk.path / "in.json"
    path.write_text(content)
    assert desk.run(path) == 65
    error = capsys.readouterr().err
    assert f"{path} is {said}" in error
    assert "\n    cure: " in error
    assert not desk.unique.exists()


@pytest.mark.parametrize(
    "first",
    [b"[]", b"[1]", b"[ERROR] no record", b'{"id":"a","text":"cut', b"{", b'{"id":"a",',
     b'[{"id":"a","text":"b"}]'],
)  # fmt: skip
def test_a_broken_first_line_refuses_no_others(desk: Desk, first: bytes) -> None:
    lines = lines_of(ROWS)
    assert desk.run(write(desk.path / "in.jsonl", [first, *lines])) == 0
    assert [each["source"]["offset"] for each in desk.records(desk.dead)] == [1]
    assert desk.unique.read_bytes().splitlines() == lines


def test_lines_that_are_arrays_are_read_where_pointers_lead_into_them(desk: Desk) -> None:
    line = json.dumps([{"text": "a story of several"}, {"text": "parts"}]).encode()
    assert desk.run(write(desk.path / "in.jsonl", [line]), text="/*/text", id="none") == 0
    assert desk.unique.read_bytes() == line + b"\n"
