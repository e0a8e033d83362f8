"""Rows: records that were decoded on their way here, because their file is no sequence of bytes.

A line is read from its bytes. Rows of a table come as columns, or as values of the one schema at
the beginning of their file: whoever reads the file has decoded what pointers name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamfilter.documents.pointers import Unreadable
from streamfilter.documents.selecting import check_size
from streamfilter.model import Malformed, Record


@dataclass(frozen=True, slots=True)
class Row(Record):
    """A record of which all that pointers name is decoded."""

    named: Any = None
    """What pointers lead into."""
    trouble: Malformed | None = None
    """Why this is no row, or None."""

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
        check_size("the row", len(self.value or b""), "bytes", limit)


def place_of(record: Record) -> str:
    """Return where a record of a file stands, as a person finds it."""
    unit = "row" if isinstance(record, Row) else "line"
    return f"{record.source.topic}, {unit} {record.source.offset}"
