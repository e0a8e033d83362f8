"""Parquet: columns, read a batch of rows at a time and written as they are, never as a whole.

What pointers name becomes the values of rows (`arrow_values`); all else is carried along as it
stands, to the file of what is kept. A row has no bytes of its own: where somebody wants them (the
evidence of a duplicate, a dead letter), it is told as JSON.

Residue: how many rows a batch may have follows from what the file says of its row groups. Texts
that are stored once and mean many rows unpack to more than it says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamfilter.documents.pointers import Faulty, tree_of
from streamfilter.documents.reader import Reader
from streamfilter.documents.rows import Columns, Row, Rows
from streamfilter.documents.selecting import DOCUMENT_LIMIT, check_size
from streamfilter.files.formats.arrow_values import named_values, without_views
from streamfilter.files.formats.columns import check_columns
from streamfilter.files.lines import STDIN, InputFile
from streamfilter.files.outputs import OutputFile
from streamfilter.files.stretches import Input, Stretch
from streamfilter.matching import envelope
from streamfilter.model import Record, Source
from streamfilter.stops import BrokenInput, ExitCode, Stop

BUFFER_BYTES = 1 << 17
"""Of a column that is read: else its whole row group is."""
GROUP_BYTES = 64 * 1024 * 1024
"""Of a row group that we write, about; one waits in memory until it is whole."""
_OFFSETS = {pa.string(): np.int32, pa.large_string(): np.int64}
"""How it is said where texts end, by their type."""
_PLAIN = {pa.string(): str, pa.large_string(): str, pa.int32(): int, pa.int64(): int}
"""What values of a column are, where no row has none."""
_FLAT = {*_PLAIN, pa.float32(), pa.float64(), pa.bool_()}
"""Of values that are had for little."""


@dataclass(frozen=True, slots=True)
class BatchColumns(Columns):
    """What the rows of a batch share."""

    batch: Any
    cells: list[tuple[str, Callable[[int], Any]]]
    """Each column's name, and what tells a row's value of it as JSON can; none before somebody
    asks."""

    def as_dict(self, at: int) -> dict[str, Any]:
        """Return the row *at*, as JSON can tell it."""
        if not self.cells:
            for name, column in zip(self.batch.schema.names, self.batch.columns, strict=True):
                values = self.named[name] if name in self.plain else _flat(column)
                cell = partial(_cell, column) if values is None else values.__getitem__
                self.cells.append((name, cell))
        return {name: cell(at) for name, cell in self.cells}


class ParquetRow(Row):
    """A row of a batch; what it holds is taken out of the columns when somebody asks for it."""

    __slots__ = ("at", "columns")
    columns: BatchColumns
    at: int
    named = None
    trouble = None

    def __init__(self, source: Source, columns: BatchColumns, at: int) -> None:
        """Set what is there: a frozen class has no shorter way."""
        put = object.__setattr__
        put(self, "source", source)
        put(self, "columns", columns)
        put(self, "at", at)

    def content(self) -> Any:
        """Return the values that pointers lead into."""
        return {key: values[self.at] for key, values in self.columns.named.items()}

    def refuse_larger(self, limit: int) -> None:
        """Raise `Unreadable`, TOO_LARGE, if the row's columns have more than *limit* bytes."""
        if self.columns.size > limit:  # no row is larger than its batch, which is measured once
            size = self.columns.batch.slice(self.at, 1).nbytes
            check_size("the row", size, "bytes", limit, DOCUMENT_LIMIT)

    @property
    def value(self) -> bytes:
        """Return the whole row as JSON."""
        return envelope.encode(self.columns.as_dict(self.at))


class ParquetTable:
    """One Parquet file, read once from its beginning."""

    format = "parquet"

    def __init__(self, path: str, reader: Reader, name: str | None) -> None:
        """Open *path*, known to the index as *name*, and read what it says of itself.

        Raises:
            Stop: it cannot be opened, is none, or has not the columns that *reader* reads.
        """
        if path == STDIN or (os.path.exists(path) and not os.path.isfile(path)):
            raise Stop(
                f"{path} is read once and forwards, and Parquet is read from its end\n"
                "    cure: write it to a file, and name that",
                exit_code=ExitCode.USAGE,
            )
        opened = InputFile(path, name=name)
        self.path, self.name, self._size = path, opened.name, opened.size
        opened.close()
        self._end = 1
        with self._damage():
            self._file = pq.ParquetFile(
                path, buffer_size=BUFFER_BYTES, pre_buffer=False, memory_map=False
            )
            self.schema = self._file.schema_arrow
            metadata = self._file.metadata
            self.groups = [metadata.row_group(each) for each in range(metadata.num_row_groups)]
            """What the file says of each row group."""
        check_columns(path, self.schema.names, reader)
        plain = [each.with_type(without_views(each.type)) for each in self.schema]
        self._plain = None if [*self.schema] == plain else pa.schema(plain)
        # pyarrow does not write every view inside of lists: there its type becomes plain.
        self.written = pa.schema(
            [one if pa.types.is_nested(one.type) else each
             for one, each in zip(plain, self.schema, strict=True)],
            self.schema.metadata,
        )  # fmt: skip
        self._tree, self._id_path = tree_of(reader.paths), reader.id_path
        self._keys = [key for key in self._tree if key in self.schema.names]
        self._digests = [ColumnDigest() for _ in self._keys]
        self._summed = False

    def stretches(
        self, *, documents: int, size: int, boundary: int = 0, summed: bool = False
    ) -> Iterator[Stretch]:
        """Yield at most *documents* rows at a time, about *size* bytes of them.

        None reaches over the row *boundary*. Each bears a digest if they are *summed*.
        """
        self._summed = summed
        with self._damage():
            rows = self._file.metadata.num_rows
            count = min(documents, self.rows_of(size))
            for batch in self._file.iter_batches(batch_size=count, use_threads=False):
                batch = batch if self._plain is None else batch.cast(self._plain)
                for part in _cut(batch, boundary - self._end):
                    start = self._end
                    self._end += part.num_rows
                    records = self._rows(part, start)
                    read = self._size * (self._end - 1) // max(rows, 1)
                    yield Stretch(records, start, self._end, 0, read, self._digest())

    def rows_of(self, size: int) -> int:
        """Return how many rows *size* bytes are, unpacked, where rows are largest."""
        row = max(
            (each.total_byte_size // max(each.num_rows, 1) for each in self.groups), default=1
        )
        return max(1, size // max(row, 1))

    def _rows(self, batch: Any, start: int) -> Rows:
        named: dict[str, list[Any]] = {}
        plain = {}
        for key, digest in zip(self._keys, self._digests, strict=True):
            column = batch.column(batch.schema.get_field_index(key))
            path = self._id_path
            inside = path[1:] if path is not None and path[0] == key else None
            named[key] = named_values(column, self._tree[key], inside)
            if self._summed:
                digest.add(column, named[key])
            kind = _PLAIN.get(column.type)
            if kind is not None and not column.null_count and Faulty not in map(type, named[key]):
                plain[key] = kind
        columns = BatchColumns(named, plain, batch.nbytes, batch, cells=[])
        rows = range(batch.num_rows)
        return Rows(columns, (ParquetRow(Source(self.name, 0, start + at), columns, at)
                              for at in rows))  # fmt: skip

    def _digest(self) -> str:
        """Return a digest of what was read so far, however it lies in batches and groups."""
        if not self._summed:
            return ""
        parts = b"".join(each.digest() for each in self._digests)
        return blake2b(parts, digest_size=16).hexdigest()

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Say of what is no Parquet file how far it can be read."""
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            where = f"after row {self._end - 1}" if self._end > 1 else "at its beginning"
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BrokenInput(f"{self.path}: damaged Parquet data {where}: {why}") from None

    def writer(self, output: OutputFile) -> RowGroups:
        """Return what writes rows, under the same schema."""
        return RowGroups(output, self)

    def packing(self) -> tuple[str | dict[str, str], int]:
        """Return how each column is packed, and how many rows a group has at most."""
        if not self.groups:
            return "snappy", 1
        columns = [self.groups[0].column(each) for each in range(self.groups[0].num_columns)]
        codecs = {each.path_in_schema: each.compression for each in columns}
        packing = {name: "none" if codec == "UNCOMPRESSED" else codec
                   for name, codec in codecs.items()}  # fmt: skip
        rows = max(1, *(each.num_rows for each in self.groups))
        return packing, min(rows, self.rows_of(GROUP_BYTES))

    def differs(self, other: Input) -> str | None:
        """Return whether the other file has other columns."""
        same = isinstance(other, ParquetTable) and self.schema.equals(other.schema)
        return None if same else "their columns, or the types of these, differ"

    def close(self) -> None:
        """Close the file."""
        self._file.close()


table = ParquetTable


class ColumnDigest:
    """Sums up the values of a column, however they lie in batches and groups."""

    def __init__(self) -> None:
        self._sizes, self._data = blake2b(digest_size=16), blake2b(digest_size=16)

    def add(self, column: Any, values: Sequence[Any]) -> None:
        """Add *column*, whose values as Python has them are *values*."""
        width = _OFFSETS.get(column.type)
        if width is None or column.buffers()[2] is None:
            self._data.update(("\n".join(map(str, values)) + "\n").encode())
            return
        # Texts lie one behind the other: hashed there, and not copied together once more.
        _, offsets, data = column.buffers()
        at = column.offset * np.dtype(width).itemsize
        ends = np.frombuffer(offsets, width, len(column) + 1, at)
        sizes = np.diff(ends).astype(np.int64)
        if column.null_count:
            sizes[column.is_null().to_numpy(zero_copy_only=False)] = -1
        self._sizes.update(sizes.tobytes())
        self._data.update(memoryview(data)[ends[0] : ends[-1]])

    def digest(self) -> bytes:
        """Return the sum so far."""
        return self._sizes.digest() + self._data.digest()


class RowGroups:
    """Writes rows as they came, in row groups about as large as theirs."""

    def __init__(self, output: OutputFile, like: ParquetTable) -> None:
        packing, self._rows_max = like.packing()
        self._schema = like.written
        self._writer = pq.ParquetWriter(_Sink(output), like.written, compression=packing)
        self._batch: Any = None
        self._at: list[int] = []
        self._parts: list[Any] = []
        self._rows = 0

    def add(self, record: Record) -> None:
        """Write *record* as it came."""
        assert isinstance(record, ParquetRow)
        if record.columns.batch is not self._batch:
            self._take()
            self._batch = record.columns.batch
        self._at.append(record.at)

    def _take(self) -> None:
        """Take what is kept of a batch."""
        if self._at:
            part = self._batch.take(pa.array(self._at, pa.int32()))
            self._parts.append(part)
            self._rows += part.num_rows
            self._at = []
        # Cut at the very row: the same rows give the same bytes, whatever their batches were.
        while self._rows >= self._rows_max:
            self._write(self._rows_max)

    def _write(self, count: int) -> None:
        """Write the first *count* rows that wait as a group."""
        waiting = pa.Table.from_batches(self._parts)
        group = waiting.slice(0, count).combine_chunks().cast(self._schema)
        self._writer.write_table(group, row_group_size=count)
        self._parts = waiting.slice(count).to_batches()
        self._rows -= count

    def finish(self) -> None:
        """Write what stands at a file's end."""
        self._take()
        if self._rows:
            self._write(self._rows)
        self._writer.close()


class _Sink:
    """An output, as pyarrow writes to files."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self.closed = False

    def write(self, data: Any) -> int:
        # A writer that is dropped writes a file's end; that of a discarded output goes nowhere.
        if not self._output.closed:
            self._output.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Leave that to the output."""

    def close(self) -> None:
        self.closed = True


def _cut(batch: Any, at: int) -> Sequence[Any]:
    """Return *batch* in two parts, the first of *at* rows, if it has more."""
    return [batch.slice(0, at), batch.slice(at)] if 0 < at < batch.num_rows else [batch]


def _flat(column: Any) -> Sequence[Any] | None:
    """Return a column's values if JSON tells them as they are and none is large, else None.

    All at once they take less time than three of them, each for itself.
    """
    if column.type not in _FLAT:
        return None
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return None
    return values


def _cell(column: Any, at: int) -> Any:
    """Return the value *at* a place of *column* as JSON can tell it."""
    column = column.slice(at, 1)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    elif pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    try:
        (value,) = column.to_pylist()
    except (ValueError, pa.ArrowException):  # no UTF-8, or nested times that Python has none of
        plain = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return column.cast(pa.large_binary()).to_pylist()[0] if plain else str(kind)
    return value
