"""CSV: the first row names the columns, each other one is a record; as spreadsheets count them.

Cells are parted by the first of comma, semicolon, tab and bar by which the first row has the
columns that are read. Quotes are those of RFC 4180, and strict: a quote that is not closed before
its neighbour's cell would else swallow rows, and nobody would hear of it. A row with more or fewer
cells than the first is broken. Rows that are kept come out byte for byte. Of a row that is larger
than a document may be, the rest is passed over: lines inside of its quotes are no rows.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import chain, count, islice
from typing import Any

from streamfilter.documents.pointers import Path, Unreadable
from streamfilter.documents.reader import Reader
from streamfilter.documents.rows import Row
from streamfilter.documents.selecting import DOCUMENT_LIMIT
from streamfilter.files.formats.columns import check_columns, lacks
from streamfilter.files.layout import BOM
from streamfilter.files.lines import InputFile
from streamfilter.files.outputs import OutputFile
from streamfilter.files.stretches import Input, Stretch, stretches_of
from streamfilter.model import ErrorCode, Malformed, Source
from streamfilter.stops import BrokenInput

DELIMITERS = ",;\t|"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class CsvTable:
    """One CSV file, read once from its beginning."""

    format = "csv"

    def __init__(self, path: str, reader: Reader, name: str | None) -> None:
        """Open *path*, known to the index as *name*, and read its first row.

        Raises:
            Stop: it cannot be opened, or has not the columns that *reader* reads.
        """
        limit = reader.limits.document_bytes
        self._file = InputFile(path, name=name, limit=limit)
        self.path, self.name = path, self._file.name
        # The module's own, for the whole process: nobody else here reads CSV.
        csv.field_size_limit(limit)
        raws = self._file.raw_lines()
        seen: list[bytes] = []
        self.header, self.delimiter, lines = self._first_row(raws, seen, reader.needed, limit)
        self.first = b"".join(seen[:lines])
        self._file.sum(self.first)
        self._row_lines = RowLines(chain(seen[lines:], raws), self._file, self.delimiter, limit)
        check_columns(path, self.header, reader)
        self._wanted = {
            key: self.header.index(key)
            for key in {path[0] for path in reader.paths if path}
            if key in self.header
        }

    def _first_row(
        self,
        raws: Iterator[bytes],
        seen: list[bytes],
        needed: Sequence[Sequence[Path]],
        limit: int,
    ) -> tuple[list[str], str, int]:
        """Return the first row's cells, what parts them, and how many lines of *seen* it has.

        Every delimiter has its own first row: of a cell in quotes another one sees no end.
        """
        rows: list[tuple[list[str], str, int]] = []
        trouble = None
        for delimiter in DELIMITERS:
            reader = csv.reader(_begun(raws, seen, limit), delimiter=delimiter, strict=True)
            try:
                row = next(reader)
            except StopIteration:
                message = f"{self.path} is empty: the first row of CSV names its columns"
                raise BrokenInput(message) from None
            except csv.Error as error:
                trouble = trouble or error
                continue
            rows.append((row, delimiter, reader.line_num))
            if not lacks(row, needed):
                return rows[-1]
        if seen[0].startswith(UTF_16):
            raise BrokenInput(
                f"{self.path} is UTF-16, and CSV is read as UTF-8\n    cure: convert it, such as "
                "by `iconv -f UTF-16 -t UTF-8`"
            )
        if not rows:
            message = f"{self.path} is no CSV: its first row cannot be read: {_in_words(trouble)}"
            raise BrokenInput(message)
        return max(rows, key=lambda each: len(each[0]))

    def stretches(
        self, *, documents: int, size: int, boundary: int = 0, summed: bool = False
    ) -> Iterator[Stretch]:
        """Yield at most *documents* rows at a time; *size* bytes of them close one earlier.

        None reaches over the row *boundary*. Each bears a digest if they are *summed*.
        """
        self._file.summed = summed
        return stretches_of(
            self._rows(), self._file.read_so_far, documents=documents, size=size, boundary=boundary
        )

    def _rows(self) -> Iterator[tuple[Row | None, int]]:
        yield None, 0  # the first row
        for number, (raw, cells, trouble) in enumerate(self._parsed(), 2):
            line = raw.removesuffix(b"\n")
            source = Source(self.name, 0, number)
            blank = not cells and trouble is None
            yield None if blank else self._row(source, line, cells, trouble), len(line)

    def _parsed(self) -> Iterator[tuple[bytes, list[str], Malformed | None]]:
        """Yield each row's bytes, its cells, and why it has none."""
        lines = self._row_lines
        rows = csv.reader(lines, delimiter=self.delimiter, strict=True)
        while True:
            cells, trouble = [], None
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                trouble = Malformed(ErrorCode.SCHEMA_DECODE, _in_words(error))
            except Unreadable as error:
                trouble = error.reading
            yield lines.end_row(), cells, trouble

    def _row(self, source: Source, raw: bytes, cells: list[str], trouble: Malformed | None) -> Row:
        if trouble is None and len(cells) != len(self.header):
            message = f"the row has {len(cells)} cells, the first one {len(self.header)}"
            trouble = Malformed(ErrorCode.SCHEMA_DECODE, message)
        if trouble is not None:
            return Row(source, raw, trouble=trouble)
        named = {key: cells[at] for key, at in self._wanted.items()}
        broken = None if raw.isascii() else _no_utf_8(named)
        return Row(source, raw, named=named, trouble=broken)

    def writer(self, output: OutputFile) -> CsvWriter:
        """Return what writes rows, after the first one."""
        return CsvWriter(output, self.first)

    def differs(self, other: Input) -> str | None:
        """Return what else the other file's first row says."""
        same = isinstance(other, CsvTable) and (self.header, self.delimiter) == (
            other.header,
            other.delimiter,
        )
        return None if same else "their first rows name different columns"

    def close(self) -> None:
        """Close the file."""
        self._file.close()


table = CsvTable


class RowLines:
    """The lines of a file's rows, as the parser takes them: one row, and no line of the next.

    What is kept of a row is no more than *limit* bytes and a line.
    """

    def __init__(self, lines: Iterator[bytes], file: InputFile, delimiter: str, limit: int) -> None:
        self._lines, self._file, self._limit = lines, file, limit
        self._delimiter = delimiter.encode()
        self._row: list[bytes] = []
        self._held = 0
        self._rows = 1
        self._ended = True
        """Whether the last line, or piece of one, had a line feed."""

    def __iter__(self) -> RowLines:
        return self

    def __next__(self) -> str:
        """Return the next line.

        Raises:
            Unreadable: TOO_LARGE; the rest of the row was passed over.
            BrokenInput: it has no end.
        """
        raw = self._taken()
        self._row.append(raw)
        self._held += len(raw)
        if self._held > self._limit:
            self._pass_over()
            message = f"the row has more than {self._limit} bytes ({DOCUMENT_LIMIT})"
            raise Unreadable(ErrorCode.TOO_LARGE, message)
        # Undecodable bytes stay visible, so that the row they are in is told from others.
        return raw.decode("utf-8", "surrogateescape")

    def end_row(self) -> bytes:
        """Return the bytes of the row whose lines were taken."""
        raw = b"".join(self._row)
        self._row.clear()
        self._held = 0
        self._rows += 1
        return raw

    def _taken(self) -> bytes:
        """Return the next line, or piece of one."""
        raw = next(self._lines)
        self._ended = raw.endswith(b"\n")
        last = not self._ended and len(raw) <= self._limit
        self._file.sum(raw + b"\n" if last else raw)
        return raw

    def _pass_over(self) -> None:
        """Take lines up to that with which the row ends."""
        state = _State.FRESH
        for raw in self._row:
            state = _after(raw, state, self._delimiter)
        try:
            while state is _State.INSIDE or not self._ended:
                state = _after(self._taken(), state, self._delimiter)
        except StopIteration:
            if state is not _State.INSIDE:
                return
            raise BrokenInput(
                f"{self._file.path}: row {self._rows + 1} has a quote that nothing ends, and more "
                f"than {self._limit} bytes\n    cure: end the quote, or raise limits.document"
            ) from None


class _State(Enum):
    """Where in a row a piece of a line ends."""

    FRESH = auto()
    """Before a cell, which a quote would open."""
    PLAIN = auto()
    """In or behind a cell, in which quotes are characters."""
    INSIDE = auto()
    """Inside of quotes."""
    CLOSED = auto()
    """Behind a quote: another one would be the second of two, which are one in the cell."""


def _after(piece: bytes, state: _State, delimiter: bytes) -> _State:
    """Return the state behind *piece*, which begins in *state*."""
    at = 0
    if state is _State.CLOSED and piece.startswith(b'"'):
        state, at = _State.INSIDE, 1
    while True:
        if state is _State.FRESH and piece.startswith(b'"', at):
            state, at = _State.INSIDE, at + 1
        if state is _State.INSIDE:
            at = _behind_quote(piece, at)
            if at == 0:
                return state
            if at == len(piece):
                return _State.CLOSED
        at = piece.find(delimiter, at) + 1
        if at == 0:
            return _State.PLAIN
        state = _State.FRESH
        if at == len(piece):
            return state


def _behind_quote(line: bytes, at: int) -> int:
    """Return the place behind the quote that ends a cell, 0 if none does; two are one in it."""
    while (at := line.find(b'"', at)) >= 0:
        if not line.startswith(b'"', at + 1):
            return at + 1
        at += 2
    return 0


def _in_words(error: csv.Error | None) -> str:
    """Return what the parser says, for whoever sees the file and not the parser."""
    said = str(error)
    if said == "unexpected end of data":
        return "a quote is opened in it that nothing ends"
    if "expected after" in said:
        return "more stands behind the quote that ends a cell (a quote in a cell is written twice)"
    if "new-line character" in said:
        return (
            "a carriage return stands in it without a line feed (if all rows end so: "
            "`tr '\\r' '\\n'`)"
        )
    return said


def _begun(raws: Iterator[bytes], seen: list[bytes], limit: int) -> Iterator[str]:
    """Yield the lines of a file from its first one on: those *seen*, then *raws*, seen thereby.

    Raises:
        csv.Error: the first row has more than *limit* bytes.
    """
    held = 0
    for at in count():
        if at == len(seen):
            seen.extend(islice(raws, 1))
        if at == len(seen):
            return
        raw = seen[at] if at else seen[at].removeprefix(BOM)
        held += len(raw)
        if held > limit:
            raise csv.Error(f"it has more than {limit} bytes")
        yield raw.decode("utf-8", "replace")


def _no_utf_8(named: Mapping[str, str]) -> Malformed | None:
    """Return the trouble of the cell that is none, as one of another encoding is not."""
    for key, cell in named.items():
        try:
            cell.encode()
        except UnicodeEncodeError:
            return Malformed(ErrorCode.BAD_UTF8, f"the cell of column {key} is not UTF-8")
    return None


class CsvWriter:
    """Writes rows as they came."""

    def __init__(self, output: OutputFile, first: bytes) -> None:
        self._output = output
        output.write(first.removesuffix(b"\n"))

    def add(self, record: Any) -> None:
        """Write *record* as it came."""
        self._output.write(record.value or b"")

    def finish(self) -> None:
        """Write nothing: a row ends with itself."""
