"""Rows: records that were decoded on their way here, because their file is no sequence of bytes.

A line is read from its bytes. Rows of a table come as columns, or as values of the one schema at
the beginning of their file: whoever reads the file has decoded what pointers name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamfilter.documents.pointers import Unreadable
from streamfilter.documents.selecting import DOCUMENT_LIMIT, check_size
from streamfilter.model import Malformed, Record, Source


class Row(Record):
    """A record of which all that pointers name is decoded."""

    __slots__ = ("named", "trouble")
    named: Any
    """What pointers lead into."""
    trouble: Malformed | None
    """Why this is no row, or None."""
    # What no row has is said once, for them all: to set it costs more than to read a column.
    key = None
    headers = ()
    timestamp = -1
    headers_error = None

    def __init__(
        self, source: Source, value: bytes, *, named: Any = None, trouble: Malformed | None = None
    ) -> None:
        """Set what is there: a frozen class has no shorter way."""
        put = object.__setattr__
        put(self, "source", source)
        put(self, "value", value)
        put(self, "named", named)
        put(self, "trouble", trouble)

    def content(self) -> Any:
        """Return what pointers lead into.

        Raises:
            Unreadable: this is no row of its file.
        """
        if self.trouble is not None:
            raise Unreadable(self.trouble.code, self.trouble.message)
        return self.named

    def refuse_larger(self, limit: int) -> None:
        """Raise `Unreadable`, TOO_LARGE, if the row has more than *limit* bytes."""
        check_size("the row", len(self.value or b""), "bytes", limit, DOCUMENT_LIMIT)


@dataclass(frozen=True, slots=True)
class Columns:
    """What rows that lie side by side share: what pointers name of them, column by column."""

    named: Mapping[str, Sequence[Any]]
    plain: Mapping[str, type]
    """Those that hold nothing but strings that are UTF-8, or nothing but integers."""
    size: int
    """Of all the rows, in bytes: none of them has more."""


class Rows(list[Record]):
    """Rows side by side, all of them, for whoever would rather look at a column than at each."""

    def __init__(self, columns: Columns, rows: Iterable[Record]) -> None:
        super().__init__(rows)
        self.columns = columns


def place_of(record: Record) -> str:
    """Return where a record of a file stands, as a person finds it."""
    unit = "row" if isinstance(record, Row) else "line"
    return f"{record.source.topic}, {unit} {record.source.offset}"
