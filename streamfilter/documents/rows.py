"""Rows: records of a file that the file's reader has already decoded (CSV, Parquet, Avro).

A line of text or JSON is decoded here, from its bytes. For a row, the reader of the file has
already decoded all fields that pointers name. Rows of a Parquet file come with their columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from streamfilter.documents.fields.pointers import Unreadable
from streamfilter.documents.fields.selecting import DOCUMENT_LIMIT, check_size
from streamfilter.model import Malformed, Record, Source


class Row(Record):
    """A record whose fields are decoded, as far as pointers name them."""

    __slots__ = ("named", "trouble")
    named: Any  # the decoded value, into which pointers lead
    trouble: Malformed | None  # why this is not a valid row, or None
    # Class attributes, because all rows share them: setting them costs more than reading a column.
    key = None
    headers = ()
    timestamp = -1
    headers_error = None

    def __init__(
        self, source: Source, value: bytes, *, named: Any = None, trouble: Malformed | None = None
    ) -> None:
        """Set the fields: a frozen class has no shorter way."""
        put = object.__setattr__
        put(self, "source", source)
        put(self, "value", value)
        put(self, "named", named)
        put(self, "trouble", trouble)

    def content(self) -> Any:
        """Return the decoded value, into which pointers lead; raise `Unreadable` for a bad row."""
        if self.trouble is not None:
            raise Unreadable(self.trouble.code, self.trouble.message)
        return self.named

    def refuse_larger(self, limit: int) -> None:
        """Raise `Unreadable`, TOO_LARGE, if the row has more than *limit* bytes."""
        check_size("the row", len(self.value or b""), "bytes", limit, DOCUMENT_LIMIT)


class Columns(Struct, frozen=True):
    """The values of adjacent rows, column by column, as far as pointers name them."""

    named: Mapping[str, Sequence[Any]]
    plain: Mapping[str, type]  # columns of only UTF-8 strings, or of only integers
    size: int  # bytes of all the rows together: so no row has more


class Rows(list[Record]):
    """A list of adjacent rows, with their columns: a caller may read a column at once."""

    def __init__(self, columns: Columns, rows: Iterable[Record]) -> None:
        super().__init__(rows)
        self.columns = columns


def place_of(record: Record) -> str:
    """Return where a record is in its file, for a message: ``PATH, row N`` or ``PATH, line N``."""
    unit = "row" if isinstance(record, Row) else "line"
    return f"{record.source.topic}, {unit} {record.source.offset}"
