"""CSV: the first row names the columns, each other one is a record; as spreadsheets count them.

Cells are parted by the first of comma, semicolon, tab and bar by which the first row has the
columns that are read. Quotes are those of RFC 4180, and strict: a quote that is not closed before
its neighbour's cell would else swallow rows, and nobody would hear of it. A row with more or fewer
cells than the first is broken. Rows that are kept come out byte for byte.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

from streamfilter.documents.pointers import Path
from streamfilter.documents.reader import Reader
from streamfilter.documents.rows import Row
from streamfilter.files.formats.columns import check_columns, lacks
from streamfilter.files.lines import InputFile
from streamfilter.files.outputs import OutputFile
from streamfilter.files.stretches import Cutter, Input, Stretch
from streamfilter.model import ErrorCode, Malformed, Source
from streamfilter.stops import BrokenInput

DELIMITERS = ",;\t|"
BOM = b"\xef\xbb\xbf"


def table(path: str, reader: Reader, *, name: str | None) -> CsvTable:
    """Open *path*, known to the index as *name*."""
    return CsvTable(path, reader, name)


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
        self._lines = self._tapped()
        self._raw: list[bytes] = []
        """The lines of the row that is being read."""
        self.header, self.delimiter = self._first_row(reader.needed)
        check_columns(path, self.header, reader)
        self._wanted = {
            key: self.header.index(key)
            for key in {path[0] for path in reader.paths if path}
            if key in self.header
        }

    def _tapped(self) -> Iterator[str]:
        for raw in self._file.raw_lines():
            self._raw.append(raw)
            # Undecodable bytes stay visible, so that the row they are in is told from others.
            yield raw.decode("utf-8", "surrogateescape")

    def _first_row(self, needed: Sequence[Sequence[Path]]) -> tuple[list[str], str]:
        try:
            next(csv.reader(self._lines, strict=True))
        except StopIteration:
            message = f"{self.path} is empty: the first row of CSV names its columns"
            raise BrokenInput(message) from None
        except csv.Error as error:
            message = f"{self.path} is no CSV: its first row cannot be read: {error}"
            raise BrokenInput(message) from None
        self.first = b"".join(self._raw)
        self._raw.clear()
        self._file.digest.update(self.first)
        text = self.first.removeprefix(BOM).decode("utf-8", "replace")
        for delimiter in DELIMITERS:
            row = next(csv.reader([text], delimiter=delimiter), [])
            if not lacks(row, needed):
                return row, delimiter
        return next(csv.reader([text]), []), DELIMITERS[0]

    def stretches(self, *, documents: int, size: int, boundary: int = 0) -> Iterator[Stretch]:
        """Yield at most *documents* rows at a time; *size* bytes of them close one earlier.

        None reaches over the row *boundary*.
        """
        digest, position = self._file.digest, self._file.position
        cut = Cutter(documents, size, boundary)
        cut.add(None, 0)  # the first row
        for number, (raw, cells, trouble) in enumerate(self._rows(), 2):
            line = raw.removesuffix(b"\n")
            digest.update(line + b"\n")
            source = Source(self.name, 0, number)
            blank = not cells and trouble is None
            row = None if blank else self._row(source, line, cells, trouble)
            if cut.add(row, len(line)):
                yield cut.off(position(), digest.hexdigest())
        if cut:
            yield cut.off(position(), digest.hexdigest())

    def _rows(self) -> Iterator[tuple[bytes, list[str], str | None]]:
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
        return Row(source, None, raw, named=named)

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
