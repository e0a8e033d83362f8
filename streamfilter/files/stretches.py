"""Stretches: consecutive records of one input, and what an input is: where they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from streamfilter.files.outputs import OutputFile, Writer
from streamfilter.model import Record

READ_RECORDS, READ_BYTES = 1_000, 1 << 22
"""Read at a time by whoever does not say."""
BLANK_MAX = 100_000
"""Lines or rows that are no records, in a stretch: between two of them an interruption is heard."""


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
    """Of all before ``end``, in hexadecimal, if it was asked for."""


class Input(Protocol):
    """One file, read once from its beginning."""

    format: str
    """As `input.file_format` calls it."""
    path: str
    name: str
    """What the index knows it by."""

    def stretches(
        self, *, documents: int, size: int, boundary: int = 0, summed: bool = False
    ) -> Iterator[Stretch]:
        """Yield at most *documents* records at a time; *size* bytes of them close one earlier.

        None reaches over the line or row *boundary*. Each bears a digest if they are *summed*:
        for whoever remembers what was read.

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


def stretches_of(
    rows: Iterable[tuple[Record | None, int]],
    read: Callable[[], tuple[int, str]],
    *,
    documents: int,
    size: int,
    boundary: int,
) -> Iterator[Stretch]:
    """Cut *rows* as `Input.stretches` promises.

    Args:
        rows: lines or rows, None for one that is no record, and how many bytes each has.
        read: says how far the input has been read, and the digest of that.
        documents: of a stretch, at most.
        size: bytes that close a stretch earlier.
        boundary: number of a line or row over which none reaches.
    """
    start = end = 1
    records: list[Record] = []
    held = blank = 0
    for record, length in rows:
        end += 1
        if record is None:
            blank += 1
        else:
            records.append(record)
            held += length
        if len(records) >= documents or held >= size or blank >= BLANK_MAX or end == boundary:
            yield Stretch(records, start, end, blank, *read())
            start, records, held, blank = end, [], 0, 0
    if end > start:
        yield Stretch(records, start, end, blank, *read())


def some_of(
    input_: Input, *, advanced: Callable[[int], None] = lambda _: None
) -> Iterator[list[Record]]:
    """Yield the records of an input, some at a time.

    *advanced* hears how many more stored bytes have been read.
    """
    read = 0
    for stretch in input_.stretches(documents=READ_RECORDS, size=READ_BYTES):
        yield stretch.records
        advanced(stretch.bytes_read - read)
        read = stretch.bytes_read


def records_of(input_: Input) -> Iterator[Record]:
    """Yield all records of an input, one after the other."""
    return chain.from_iterable(some_of(input_))
