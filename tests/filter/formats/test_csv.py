"""CSV as the world writes it: separators, quotes and line ends, and rows that are none."""

import gzip
import io
import sys
from pathlib import Path

import pytest

from streamfilter.cli import main
from tests.filter.conftest import Desk
from tests.filter.formats.tables import write_csv
from tests.filter.stories import stories

TEXTS = [" ".join(f"w{n}x{word}" for word in range(12)) for n in range(4)]


def csv(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_come_out_byte_for_byte_whatever_parts_them(desk, delimiter, end):
    first = delimiter.join(['"id"', f'"t;e,{end}xt"', "text"]) + end
    cell = f'"a{end}b;c, ""d"""'
    texts = enumerate([*TEXTS, TEXTS[1]])
    rows = [delimiter.join([str(number), cell, text]) + end for number, text in texts]
    path = csv(desk.path / "in.csv", "\ufeff" + first + "".join(rows))
    assert desk.run(path) == 0
    assert desk.unique.read_bytes() == ("\ufeff" + first + "".join(rows[:4])).encode()
    (again,) = desk.records(desk.duplicates)
    assert again["payload"] == rows[4].removesuffix("\n")
    assert (again["source"]["offset"], again["matches"][0]["offset"]) == (6, 3), "as spreadsheets"


BROKEN = {
    'x,"a word that no quote ends\n': "a quote is opened in it that nothing ends",
    'x,"a quote" in the middle\n': "more stands behind the quote that ends a cell",
    "x\n": "the row has 1 cell, the first one 2",
    "x,a text, with a comma that no one quoted\n": "the row has 3 cells, the first one 2",
    "x\rx,y\n": "a carriage return stands in it without a line feed",
}


@pytest.mark.parametrize("row", BROKEN)
def test_a_broken_row_is_set_aside_and_the_others_are_judged(desk, row, capsys):
    there = f"id,text\n1,{TEXTS[1]}\n2,{TEXTS[2]}\n\n"
    path = csv(desk.path / "in.csv", there + row)
    assert desk.run(path) == 0
    (letter,) = desk.records(desk.dead)
    assert letter["error"]["code"] == "schema_decode"
    assert BROKEN[row] in letter["error"]["message"]
    assert (letter["payload"], letter["source"]["offset"]) == (row.removesuffix("\n"), 5)
    assert desk.unique.read_text() == there.removesuffix("\n")
    capsys.readouterr()
    assert desk.run(path, dead_letter=False) == 65
    assert f"{path}, row 5: schema_decode: " in capsys.readouterr().err
    assert main(["pairs", str(path)]) == 65
    assert f"{path}, row 5: schema_decode: " in capsys.readouterr().err


def test_bytes_that_are_no_utf_8_are_a_broken_row_only_where_they_are_read(desk: Desk) -> None:
    head, good = b"id,text,note\n", b"1," + TEXTS[1].encode() + b",caf\xe9\n"
    bad = b"2,caf\xe9 " + TEXTS[2].encode() + b",x\n"
    path = desk.path / "in.csv"
    path.write_bytes(head + good + bad)
    assert desk.run(path) == 0
    assert desk.unique.read_bytes() == head + good
    (letter,) = desk.records(desk.dead)
    assert letter["error"]["code"] == "bad_utf8"
    assert letter["error"]["message"] == "the cell of column text is not UTF-8"


LARGE = "".join(f"{n},{TEXTS[0]}\n" for n in range(200))
"""Lines that would be rows outside of quotes, and more than a document may have."""


@pytest.mark.parametrize("last", [f'{LARGE}"', f'""{LARGE}"""', f'{LARGE}",more', f'{LARGE}"more'])
def test_of_a_row_that_is_too_large_no_line_is_read_as_a_row(desk: Desk, last: str) -> None:
    there = f'id,text\n1,"{TEXTS[1]}"\n', f"3,{TEXTS[2]}\n"
    path = csv(desk.path / "in.csv", f'{there[0]}2,"{TEXTS[3]}\n{last}\n{there[1]}')
    arguments = [*desk.arguments(path), "--set", "limits.document=2KiB"]
    assert main(arguments) == 0
    (letter,) = desk.records(desk.dead)
    assert letter["error"]["code"] == "too_large"
    assert letter["error"]["message"] == "the row has more than 2048 bytes (limits.document)"
    assert letter["source"]["offset"] == 3
    assert len(letter["payload"]) < 2_200
    assert desk.unique.read_text() == "".join(there), "what follows is read again"


def test_a_quote_that_swallows_the_file_is_reported_and_costs_no_more_memory_than_a_document_may(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    path = csv(desk.path / "in.csv", f'id,text\n1,"{TEXTS[1]}\n{LARGE}')
    assert main([*desk.arguments(path), "--set", "limits.document=2KiB"]) == 65
    assert f"{path}: row 2 has a quote that nothing ends" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty: the first row of CSV names its columns"),
        (b'"id,text\n1,x\n', "its first row cannot be read: a quote is opened in it"),
        (b"id,text\r1,x\r2,y\r", "`tr '\\r' '\\n'`"),
        (b"id,text,text\n1,x,y\n", "has 2 columns named 'text'"),
        ("id,text\n1,x\n".encode("utf-16"), "is UTF-16, and CSV is read as UTF-8"),
        (b'"key";"body"\n1;x\n', "has no column text; it has key, body\n"),
    ],
)
def test_what_is_no_csv_is_reported_before_anything_is_judged(desk, content, said, capsys):
    path = desk.path / "in.csv"
    path.write_bytes(content)
    assert desk.run(path) == 65
    assert said in capsys.readouterr().err
    assert not desk.unique.exists()


def test_csv_comes_compressed_and_from_standard_input(desk, monkeypatch):
    path = write_csv(desk.path / "in.csv", stories(100))
    assert desk.run(path) == 0
    kept, withheld = desk.unique.read_bytes(), len(desk.records(desk.duplicates))
    packed = desk.path / "in.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    desk.clear()
    assert desk.run(packed) == 0
    assert desk.unique.read_bytes() == kept
    desk.clear()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    monkeypatch.setattr(sys.stdin.buffer, "fileno", path.open("rb").fileno, raising=False)
    assert desk.run("-", format="csv") == 0
    assert desk.unique.read_bytes() == kept
    assert len(desk.records(desk.duplicates)) == withheld


def test_whole_rows_are_no_text(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_csv(desk.path / "in.csv", stories(3))
    assert main([*desk.arguments(path), "--set", "input.format=text"]) == 78
    assert "input.format: got text; a row is no text" in capsys.readouterr().err
    assert desk.run(path, id="key") == 78
    assert "a row has no key and headers" in capsys.readouterr().err
