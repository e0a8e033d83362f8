"""CSV: the first row names the columns, each other one is a record; as spreadsheets count them.

Cells are parted by the first of comma, semicolon, tab and bar by which the first row has the
columns that are read. Quotes are those of RFC 4180, and strict: a quote that is not closed before
its neighbour's cell would else swallow rows, and nobody would hear of it. A row with more or fewer
cells than the first is broken. Rows that are kept come out byte for byte.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from typing import Any

from streamfilter.documents.pointers import Path
from streamfilter.documents.reader import Reader
from streamfilter.documents.rows import Row
from streamfilter.files.formats.columns import check_columns, lacks
from streamfilter.files.lines import InputFile
from streamfilter.files.outputs import OutputFile
from streamfilter.files.stretches import Input, Stretch, stretches_of
from streamfilter.model import ErrorCode, Malformed, Source
from streamfilter.stops import BrokenInput

DELIMITERS = ",;\t|"
BOM = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class CsvTable:
    """One CSV file, read once from its beginning."""

    format = "csv"

    def __init__(self, path: str, reader: Reader, name: str | None) -> None:
        """Open *path*, known to the index as *name*, and read its first row.

        Raises:
            Stop: it cannot be opened, or has not the columns that *reader* reads.
        """
        self._file = InputFile(path, name=name)
        self.path, self.name = path, self._file.name
        # The module's own, for the whole process: nobody else here reads CSV.
        csv.field_size_limit(reader.limits.document_bytes)
        self._raw: list[bytes] = []
        """The lines of the row that is being read."""
        raws = self._file.raw_lines()
        seen: list[bytes] = []
        self.header, self.delimiter, lines = self._first_row(raws, seen, reader.needed)
        self.first = b"".join(seen[:lines])
        self._file.digest.update(self.first)
        self._lines = self._tapped(chain(seen[lines:], raws))
        check_columns(path, self.header, reader)
        self._wanted = {
            key: self.header.index(key)
            for key in {path[0] for path in reader.paths if path}
            if key in self.header
        }

    def _tapped(self, raws: Iterable[bytes]) -> Iterator[str]:
        for raw in raws:
            self._raw.append(raw)
            # Undecodable bytes stay visible, so that the row they are in is told from others.
            yield raw.decode("utf-8", "surrogateescape")

    def _first_row(
        self, raws: Iterator[bytes], seen: list[bytes], needed: Sequence[Sequence[Path]]
    ) -> tuple[list[str], str, int]:
        """Return the first row's cells, what parts them, and how many lines of *seen* it has.

        Every delimiter has its own first row: of a cell in quotes another one sees no end.
        """
        rows: list[tuple[list[str], str, int]] = []
        trouble = None
        for delimiter in DELIMITERS:
            reader = csv.reader(_begun(raws, seen), delimiter=delimiter, strict=True)
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
            message = f"{self.path} is no CSV: its first row cannot be read: {trouble}"
            raise BrokenInput(message)
        return max(rows, key=lambda each: len(each[0]))

    def stretches(self, *, documents: int, size: int, boundary: int = 0) -> Iterator[Stretch]:
        """Yield at most *documents* rows at a time; *size* bytes of them close one earlier.

        None reaches over the row *boundary*.
        """
        return stretches_of(
            self._rows(), self._file.read_so_far, documents=documents, size=size, boundary=boundary
        )

    def _rows(self) -> Iterator[tuple[Row | None, int]]:
        yield None, 0  # the first row
        for number, (raw, cells, trouble) in enumerate(self._parsed(), 2):
            line = raw.removesuffix(b"\n")
            self._file.digest.update(line + b"\n")
            source = Source(self.name, 0, number)
            blank = not cells and trouble is None
            yield None if blank else self._row(source, line, cells, trouble), len(line)

    def _parsed(self) -> Iterator[tuple[bytes, list[str], str | None]]:
        """Yield each row's bytes, its cells, and why it has none."""
        rows = csv.reader(self._lines, delimiter=self.delimiter, strict=True)
        while True:
            cells, trouble = [], None
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                trouble = str(error)
            yield b"".join(self._raw), cells, trouble
            self._raw.clear()

    def _row(self, source: Source, raw: bytes, cells: list[str], trouble: str | None) -> Row:
        if trouble is None and len(cells) != len(self.header):
            trouble = f"the row has {len(cells)} cells, the first one {len(self.header)}"
        if trouble is not None:
            malformed = Malformed(ErrorCode.SCHEMA_DECODE, trouble)
            return Row(source, None, raw, trouble=malformed)
        named = {key: cells[at] for key, at in self._wanted.items()}
        broken = None if raw.isascii() else _no_utf_8(named)
        return Row(source, None, raw, named=named, trouble=broken)

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


def _begun(raws: Iterator[bytes], seen: list[bytes]) -> Iterator[str]:
    """Yield the lines of a file from its first one on: those *seen*, then *raws*, seen thereby."""
    for at in count():
        if at == len(seen):
            seen.extend(islice(raws, 1))
        if at == len(seen):
            return
        raw = seen[at] if at else seen[at].removeprefix(BOM)
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
