"""Parquet: read and written in batches of rows, never as a whole.

The columns that pointers name become Python values (`arrow_values`). All other columns are copied
unchanged to the output of kept rows. A row has no bytes of its own, so it is written as JSON in the
evidence of a duplicate and in a dead letter.

The number of rows in a batch is computed from the sizes that the file states for its row groups. A
text that is stored once for many rows unpacks to more than that: such a batch ends early. Known
limit: an output's row group has as many rows, whatever they unpack to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from io import BufferedReader
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamfilter.documents.fields.pointers import Faulty, tree_of
from streamfilter.documents.fields.selecting import DOCUMENT_LIMIT, check_size
from streamfilter.documents.reader import Reader
from streamfilter.documents.rows import Columns, Row, Rows
from streamfilter.files.formats.arrow_values import named_values, without_views
from streamfilter.files.formats.lines import STDIN, InputFile
from streamfilter.files.formats.protocol import Input, Stretch, check_columns
from streamfilter.files.outputs import OutputFile
from streamfilter.files.s3_paths import is_s3, object_at
from streamfilter.matching.verdict import envelope
from streamfilter.model import Record, Source
from streamfilter.stops import BrokenInput, ExitCode, Stop

BUFFER_BYTES = 1 << 17  # of a column; without it its whole row group would be read
ROWS_AT_ONCE = 256  # unpacked before their size is known; all may share one large text
GROUP_BYTES = 64 * 1024 * 1024  # about, of a row group: held in memory until complete
_OFFSETS = {pa.string(): np.int32, pa.large_string(): np.int64}
"""Type of the offsets in a text column, by the column's type."""
_PLAIN = {pa.string(): str, pa.large_string(): str, pa.int32(): int, pa.int64(): int}
"""Python type of a column's values if it has no nulls."""
_ARROW = {str: pa.string(), float: pa.float64(), bool: pa.bool_()}
"""Type of a column of an answer, by the Python type of its values."""
_FLAT = {*_PLAIN, pa.float32(), pa.float64(), pa.bool_()}  # types whose values are cheap to convert


class BatchColumns(Columns, frozen=True):
    """The columns that the rows of a batch share."""

    batch: Any
    cells: list[tuple[str, Callable[[int], Any]]]
    """Each column's name, and a function from a row number to a JSON value; filled on first use."""

    def as_dict(self, at: int) -> dict[str, Any]:
        if not self.cells:
            for name, column in zip(self.batch.schema.names, self.batch.columns, strict=True):
                values = self.named[name] if name in self.plain else _flat(column)
                cell = partial(_cell, column) if values is None else values.__getitem__
                self.cells.append((name, cell))
        return {name: cell(at) for name, cell in self.cells}


class ParquetRow(Row):
    """A row of a batch; its values are read from the columns on demand."""

    __slots__ = ("at", "columns")
    columns: BatchColumns
    at: int
    named = None
    trouble = None

    def __init__(self, source: Source, columns: BatchColumns, at: int) -> None:
        """Set the fields; a frozen class needs `object.__setattr__` for it."""
        put = object.__setattr__
        put(self, "source", source)
        put(self, "columns", columns)
        put(self, "at", at)

    def content(self) -> Any:
        """Return the values of the columns that pointers name."""
        return {key: values[self.at] for key, values in self.columns.named.items()}

    def refuse_larger(self, limit: int) -> None:
        """Raise `Unreadable`, TOO_LARGE, if the row's columns have more than *limit* bytes."""
        if self.columns.size > limit:  # cheap check first: a row is at most its batch
            size = self.columns.batch.slice(self.at, 1).nbytes
            check_size("the row", size, "bytes", limit, DOCUMENT_LIMIT)

    @property
    def value(self) -> bytes:
        return envelope.encode(self.columns.as_dict(self.at))


class ParquetTable:
    """One Parquet file, read once from its beginning."""

    format = "parquet"

    def __init__(self, path: str, reader: Reader, name: str | None) -> None:
        """Open *path*, known to the index as *name*, and read its metadata, or raise `Stop`."""
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
        source: Any = path
        if is_s3(path):
            raw = object_at(path, seeking=True)
            source, self._size = BufferedReader(raw), raw.size
        with self._damage():
            self._file = pq.ParquetFile(
                source, buffer_size=BUFFER_BYTES, pre_buffer=False, memory_map=False
            )
            self.schema = self._file.schema_arrow
            metadata = self._file.metadata
            self.groups = [metadata.row_group(each) for each in range(metadata.num_row_groups)]
            """Metadata of each row group."""
        check_columns(path, self.schema.names, reader)
        _refuse_list_views(path, self.schema)
        plain = [each.with_type(without_views(each.type)) for each in self.schema]
        self._plain = None if [*self.schema] == plain else pa.schema(plain)
        # pyarrow cannot write every view type inside lists: nested views become plain types.
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
        self, *, documents: int, size: int, boundary: int = 0, summed: bool = False, like: str = ""
    ) -> Iterator[Stretch]:
        self._summed = summed
        with self._damage():
            rows = self._file.metadata.num_rows
            count = min(documents, self.rows_of(size))
            for batch in self._batches(count, size):
                for part in _cut(batch, boundary - self._end):
                    start = self._end
                    self._end += part.num_rows
                    records = self._rows(part, start)
                    read = self._size * (self._end - 1) // max(rows, 1)
                    yield Stretch(records, start, self._end, 0, read, self._digest())

    def _batches(self, count: int, size: int) -> Iterator[Any]:
        """Yield batches of at most *count* rows; *size* unpacked bytes end one earlier."""
        parts: list[Any] = []
        rows = held = 0
        at_once = min(count, ROWS_AT_ONCE)
        for part in self._file.iter_batches(batch_size=at_once, use_threads=False):
            parts.append(part if self._plain is None else part.cast(self._plain))
            rows += part.num_rows
            held += part.nbytes
            if rows + at_once > count or held >= size:
                yield from _joined(parts)
                parts, rows, held = [], 0, 0
        yield from _joined(parts)

    def rows_of(self, size: int) -> int:
        """Return how many rows fit in *size* unpacked bytes, by the group with the largest rows."""
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
        """Return a digest of the rows read so far, independent of batches and row groups."""
        if not self._summed:
            return ""
        parts = b"".join(each.digest() for each in self._digests)
        return blake2b(parts, digest_size=16).hexdigest()

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Turn errors of a damaged file into `BrokenInput`, which says how far it can be read."""
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            where = f"after row {self._end - 1}" if self._end > 1 else "at its beginning"
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BrokenInput(f"{self.path}: damaged Parquet data {where}: {why}") from None

    def writer(self, output: OutputFile) -> RowGroups:
        return RowGroups(output, self)

    def packing(self) -> tuple[str | dict[str, str], int]:
        """Return the codec of each column, and the most rows of a group."""
        if not self.groups:
            return "snappy", 1
        columns = [self.groups[0].column(each) for each in range(self.groups[0].num_columns)]
        codecs = {each.path_in_schema: each.compression for each in columns}
        packing = {name: "none" if codec == "UNCOMPRESSED" else codec
                   for name, codec in codecs.items()}  # fmt: skip
        rows = max(1, *(each.num_rows for each in self.groups))
        return packing, min(rows, self.rows_of(GROUP_BYTES))

    def differs(self, other: Input) -> str | None:
        same = isinstance(other, ParquetTable) and self.schema.equals(other.schema)
        return None if same else "their columns, or the types of these, differ"

    def close(self) -> None:
        self._file.close()


table = ParquetTable


class ColumnDigest:
    """Digest of the values of a column, independent of batches and row groups."""

    def __init__(self) -> None:
        self._sizes, self._data = blake2b(digest_size=16), blake2b(digest_size=16)

    def add(self, column: Any, values: Sequence[Any]) -> None:
        width = _OFFSETS.get(column.type)
        if width is None or column.buffers()[2] is None:
            self._data.update(("\n".join(map(str, values)) + "\n").encode())
            return
        # Arrow stores the texts in one buffer, so it is hashed without a copy.
        _, offsets, data = column.buffers()
        at = column.offset * np.dtype(width).itemsize
        ends = np.frombuffer(offsets, width, len(column) + 1, at)
        sizes = np.diff(ends).astype(np.int64)
        if column.null_count:
            sizes[column.is_null().to_numpy(zero_copy_only=False)] = -1
        self._sizes.update(sizes.tobytes())
        self._data.update(memoryview(data)[ends[0] : ends[-1]])

    def digest(self) -> bytes:
        return self._sizes.digest() + self._data.digest()


class RowGroups:
    """Writes rows unchanged, in row groups of about the input's size."""

    def __init__(self, output: OutputFile, like: ParquetTable) -> None:
        packing, self._rows_max = like.packing()
        self._schema = like.written
        self._writer = pq.ParquetWriter(_Sink(output), like.written, compression=packing)
        self._batch: Any = None
        self._at: list[int] = []
        self._parts: list[Any] = []
        self._rows = 0

    def add(self, records: Sequence[Record]) -> None:
        for record in records:
            assert isinstance(record, ParquetRow)
            if record.columns.batch is not self._batch:
                self._take()
                self._batch = record.columns.batch
            self._at.append(record.at)

    def _take(self) -> None:
        """Add the kept rows of the current batch to the waiting ones."""
        if self._at:
            part = self._batch.take(pa.array(self._at, pa.int32()))
            self._parts.append(part)
            self._rows += part.num_rows
            self._at = []
        # Groups have an exact number of rows, so equal rows give equal bytes for any batches.
        while self._rows >= self._rows_max:
            self._write(self._rows_max)

    def _write(self, count: int) -> None:
        waiting = pa.Table.from_batches(self._parts)
        group = waiting.slice(0, count).combine_chunks().cast(self._schema)
        self._writer.write_table(group, row_group_size=count)
        self._parts = waiting.slice(count).to_batches()
        self._rows -= count

    def finish(self) -> None:
        self._take()
        if self._rows:
            self._write(self._rows)
        self._writer.close()


def write_table(
    output: OutputFile, _: str, columns: dict[str, type], rows: Iterable[Sequence[Any]]
) -> None:
    """Write *columns*, with their Python types, and *rows* to *output*."""
    schema = pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])
    values = [*zip(*rows, strict=True)] or [()] * len(columns)
    pq.write_table(pa.table([*map(pa.array, values, schema.types)], schema), _Sink(output))


class _Sink:
    """An output with the file interface that pyarrow needs."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self.closed = False

    def write(self, data: Any) -> int:
        # A writer writes a footer when it is dropped; for a discarded output it is ignored.
        if not self._output.closed:
            self._output.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: the output flushes itself."""

    def close(self) -> None:
        self.closed = True


def _refuse_list_views(path: str, schema: Any) -> None:
    """Raise `BrokenInput` for list views: pyarrow can neither convert nor write them."""
    views = [each.name for each in schema if "list_view<" in str(each.type)]
    if views:
        raise BrokenInput(
            f"{path} has list views, which pyarrow cannot convert: {', '.join(views)}\n"
            "    cure: write the file with plain lists in these columns"
        )


def _joined(parts: Sequence[Any]) -> Sequence[Any]:
    """Return the batches *parts* as one, or as few if their texts do not fit in one column."""
    if len(parts) < 2:
        return parts
    return pa.Table.from_batches(parts).combine_chunks().to_batches()  # type: ignore[no-any-return]


def _cut(batch: Any, at: int) -> Sequence[Any]:
    """Return *batch* cut after *at* rows, or whole if *at* is not inside it."""
    return [batch.slice(0, at), batch.slice(at)] if 0 < at < batch.num_rows else [batch]


def _flat(column: Any) -> Sequence[Any] | None:
    """Return the values of a cheap column, which is converted at once, or None."""
    if column.type not in _FLAT:
        return None
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return None
    return values


def _cell(column: Any, at: int) -> Any:
    """Return the value *at* a row of *column* for JSON."""
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
    except (ValueError, pa.ArrowException):  # not UTF-8, or nested times beyond Python's range
        plain = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return column.cast(pa.large_binary()).to_pylist()[0] if plain else str(kind)
    return value
