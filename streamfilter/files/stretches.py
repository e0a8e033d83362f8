"""Stretches: consecutive records of one input, and what an input is: where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from streamfilter.files.outputs import OutputFile, Writer
from streamfilter.model import Record


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive records of one input."""

    records: list[Record]
    start: int
    """Number of the first line or row, a record or not."""
    end: int
    """Number of the one after the last."""
    blank: int
    """How many of them are no records."""
    bytes_read: int
    """How far the input has been read, in bytes as stored (compressed if it is)."""
    digest: str
    """Of all before ``end``, in hexadecimal."""


class Input(Protocol):
    """One file, read once from its beginning."""

    format: str
    """As `input.file_format` calls it."""
    path: str
    name: str
    """What the index knows it by."""

    def stretches(self, *, documents: int, size: int, boundary: int = 0) -> Iterator[Stretch]:
        """Yield at most *documents* records at a time; *size* bytes of them close one earlier.

        None reaches over the line or row *boundary*.

        Raises:
            BrokenInput: it is damaged; says how far it can be read.
        """
        ...

    def writer(self, output: OutputFile) -> Writer:
        """Return what writes records of this file, and of those that are like it."""
        ...

    def differs(self, other: Input) -> str | None:
        """Return why one file cannot hold records of both, None if it can."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Cutter:
    """Cuts the records of an input into stretches, as they come."""

    def __init__(self, documents: int, size: int, boundary: int) -> None:
        self._documents, self._size, self._boundary = documents, size, boundary
        self._start = self._end = 1
        self._begin()

    def _begin(self) -> None:
        self._start = self._end
        self._records: list[Record] = []
        self._held = self._blank = 0

    def add(self, record: Record | None, size: int) -> bool:
        """Add the next line or row, None if it is blank; return whether to cut behind it."""
        self._end += 1
        if record is None:
            self._blank += 1
        else:
            self._records.append(record)
            self._held += size
        full = len(self._records) >= self._documents or self._held >= self._size
        return full or self._end == self._boundary

    def off(self, bytes_read: int, digest: str) -> Stretch:
        """Cutter off what was added since the last time."""
        cut = Stretch(self._records, self._start, self._end, self._blank, bytes_read, digest)
        self._begin()
        return cut

    def __bool__(self) -> bool:
        return self._end > self._start
