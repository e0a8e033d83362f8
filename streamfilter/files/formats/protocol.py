"""Stretches: consecutive records of one input; and the interface of an input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from streamfilter.files.outputs import OutputFile, Writer
from streamfilter.model import Record

READ_RECORDS, READ_BYTES = 1_000, 1 << 22  # records and bytes read at a time by default
BLANK_MAX = 100_000  # of a stretch: an interruption is only obeyed between stretches


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive records of one input."""

    records: list[Record]
    start: int  # number of the first line or row, blank or not
    end: int  # number of the line or row after the last one
    blank: int  # how many lines or rows are not records
    bytes_read: int  # stored (maybe compressed) bytes of the input read so far
    digest: str  # digest of everything before ``end``; "" if none was requested


class Input(Protocol):
    """One file, read once from its beginning."""

    format: str  # a value of `input.file_format`
    path: str
    name: str  # name of the input in the index

    def stretches(
        self,
        *,
        documents: int,
        size: int,
        boundary: int = 0,
        summed: bool = False,
        like: str = "",
    ) -> Iterator[Stretch]:
        """Yield at most *documents* records at a time; *size* bytes close a stretch earlier.

        No stretch crosses the line or row *boundary*. If *summed*, each has a digest of what was
        read, of the same kind as the digest *like*. A damaged file raises `BrokenInput`, which
        says how far it can be read.
        """
        ...

    def writer(self, output: OutputFile) -> Writer:
        """Return a writer of records of this file, and of files with the same schema."""
        ...

    def differs(self, other: Input) -> str | None:
        """Return why one file cannot hold records of both, None if it can."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def stretches_of(
    rows: Iterable[tuple[Record | None, int]],
    read: Callable[[], tuple[int, str]],
    *,
    documents: int,
    size: int,
    boundary: int,
) -> Iterator[Stretch]:
    """Cut *rows* (each with its size in bytes; None: no record) by the rules of `Input.stretches`.

    *read* returns the stored bytes read so far, and their digest.
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
    """Yield the records in chunks; *advanced* gets the stored bytes read since its last call."""
    read = 0
    for stretch in input_.stretches(documents=READ_RECORDS, size=READ_BYTES):
        yield stretch.records
        advanced(stretch.bytes_read - read)
        read = stretch.bytes_read


def records_of(input_: Input) -> Iterator[Record]:
    """Yield all records of an input, one after the other."""
    return chain.from_iterable(some_of(input_))
