"""CSV: the first row names the columns, each other row is a record; rows count as in spreadsheets.

The delimiter is the first of comma, semicolon, tab and bar that finds the needed columns in the
first row. Quoting is strict RFC 4180: otherwise an unclosed quote would silently swallow rows. A
row with more or fewer cells than the first is broken. Kept rows are written byte for byte.

If a row is larger than the document limit, its rest is skipped. Line breaks inside its quotes
do not begin a new row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import chain, count, islice

from streamfilter.documents.fields.pointers import Path, Unreadable
from streamfilter.documents.fields.selecting import DOCUMENT_LIMIT
from streamfilter.documents.reader import Reader
from streamfilter.documents.rows import Row
from streamfilter.files.formats.compression import suffix_of
from streamfilter.files.formats.lines import BOM, InputFile
from streamfilter.files.formats.protocol import Input, check_columns, lacks
from streamfilter.files.outputs import LinesWriter, OutputFile
from streamfilter.model import ErrorCode, Malformed, Source
from streamfilter.stops import BrokenInput, counted

DELIMITERS = ",;\t|"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class CsvTable(InputFile):
    """One CSV file, read once from its beginning."""

    format = "csv"

    def __init__(self, path: str, reader: Reader, name: str | None) -> None:
        """Open *path*, known to the index as *name*, and read its first row, or raise `Stop`."""
        limit = reader.limits.document_bytes
        super().__init__(path, name=name, limit=limit)
        # A limit of the csv module, for the whole process: nothing else here reads CSV.
        csv.field_size_limit(limit)
        raws = self.raw_lines()
        seen: list[bytes] = []
        self.header, self.delimiter, lines = self._first_row(raws, seen, reader.needed, limit)
        self.first = b"".join(seen[:lines])
        self.sum(self.first)
        self._row_lines = RowLines(chain(seen[lines:], raws), self, self.delimiter, limit)
        check_columns(path, self.header, reader)
        self._wanted = {
            key: self.header.index(key)
            for key in {path[0] for path in reader.paths if path}
            if key in self.header
        }

    def _first_row(
        self, raws: Iterator[bytes], seen: list[bytes], needed: Sequence[Sequence[Path]], limit: int
    ) -> tuple[list[str], str, int]:
        """Return the first row's cells, the delimiter, and the row's number of lines in *seen*.

        Each delimiter is tried on the lines from the start: it decides where a quoted cell ends,
        and so the end of the row.
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

    def _records(self) -> Iterator[tuple[Row | None, int]]:
        yield None, 0  # the first row
        for number, (raw, cells, trouble) in enumerate(self._parsed(), 2):
            line = raw.removesuffix(b"\n")
            source = Source(self.name, 0, number)
            blank = not cells and trouble is None
            yield None if blank else self._row(source, line, cells, trouble), len(line)

    def _parsed(self) -> Iterator[tuple[bytes, list[str], Malformed | None]]:
        """Yield each row's bytes, its cells, and the error if the row cannot be read."""
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
            message = f"the row has {counted(len(cells), 'cell')}, the first one {len(self.header)}"
            trouble = Malformed(ErrorCode.SCHEMA_DECODE, message)
        if trouble is not None:
            return Row(source, raw, trouble=trouble)
        named = {key: cells[at] for key, at in self._wanted.items()}
        broken = None if raw.isascii() else _no_utf_8(named)
        return Row(source, raw, named=named, trouble=broken)

    def writer(self, output: OutputFile) -> LinesWriter:
        """Return a writer of rows, which begins with the first row of this file."""
        output.write(self.first.removesuffix(b"\n"))
        return LinesWriter(output)

    def differs(self, other: Input) -> str | None:
        ours = self.header, self.delimiter
        same = isinstance(other, CsvTable) and ours == (other.header, other.delimiter)
        return None if same else "their first rows name different columns"


table = CsvTable


def write_table(
    output: OutputFile, path: str, columns: Iterable[str], rows: Iterable[Sequence[object]]
) -> None:
    """Write *columns* and *rows* to *output*, with tabs if *path* is named ``.tsv``."""
    # All texts are quoted: the module would leave a lone carriage return bare.
    writer = csv.writer(
        _Encoded(output),
        delimiter="\t" if suffix_of(path) == ".tsv" else ",",
        quoting=csv.QUOTE_NONNUMERIC,
        lineterminator="\n",
    )
    writer.writerow(columns)
    writer.writerows(rows)


class _Encoded:
    """An output with the file interface that the csv module needs: it writes whole rows."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output

    def write(self, text: str) -> None:
        self._output.append(text.encode())


class RowLines:
    """The lines of one row for the parser: at most *limit* bytes and one line are in memory."""

    def __init__(self, lines: Iterator[bytes], file: InputFile, delimiter: str, limit: int) -> None:
        self._lines, self._file, self._limit = lines, file, limit
        self._delimiter = delimiter.encode()
        self._row: list[bytes] = []
        self._held = 0
        self._rows = 1
        self._ended = True  # whether the last line, or piece of a line, ended with a line feed

    def __iter__(self) -> RowLines:
        return self

    def __next__(self) -> str:
        raw = self._taken()
        self._row.append(raw)
        self._held += len(raw)
        if self._held > self._limit:
            self._pass_over()
            message = f"the row has more than {self._limit} bytes ({DOCUMENT_LIMIT})"
            raise Unreadable(ErrorCode.TOO_LARGE, message)
        # Surrogates keep undecodable bytes, so that only the row that holds them is refused.
        return raw.decode("utf-8", "surrogateescape")

    def end_row(self) -> bytes:
        """Return the bytes of the row whose lines were read."""
        raw = b"".join(self._row)
        self._row.clear()
        self._held = 0
        self._rows += 1
        return raw

    def _taken(self) -> bytes:
        """Return the next line, or piece of a line."""
        raw = next(self._lines)
        self._ended = raw.endswith(b"\n")
        last = not self._ended and len(raw) <= self._limit
        self._file.sum(raw + b"\n" if last else raw)
        return raw

    def _pass_over(self) -> None:
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
    """Parser state at the end of a piece of a line."""

    FRESH = auto()  # before a cell: a quote opens a quoted cell
    PLAIN = auto()  # in or after an unquoted cell, in which quotes are characters
    INSIDE = auto()  # inside quotes
    CLOSED = auto()  # after a quote inside quotes: a second quote would make it an escaped quote


def _after(piece: bytes, state: _State, delimiter: bytes) -> _State:
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
    """Return the position after the closing quote, 0 if there is none; ``""`` is an escape."""
    while (at := line.find(b'"', at)) >= 0:
        if not line.startswith(b'"', at + 1):
            return at + 1
        at += 2
    return 0


def _in_words(error: csv.Error | None) -> str:
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
    """Yield all lines of a file: first those *seen*, then *raws*, which are added to *seen*.

    Raises `csv.Error` if the first row has more than *limit* bytes.
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
    """Return the error of the first cell that is not UTF-8, None if all are."""
    for key, cell in named.items():
        try:
            cell.encode()
        except UnicodeEncodeError:
            return Malformed(ErrorCode.BAD_UTF8, f"the cell of column {key} is not UTF-8")
    return None
