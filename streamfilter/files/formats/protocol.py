"""Stretches: consecutive records of one input; and the interface of an input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from msgspec import Struct

from streamfilter.documents.fields.pointers import Path, pointer_of
from streamfilter.documents.reader import Reader
from streamfilter.files.outputs import OutputFile, Writer
from streamfilter.model import Record
from streamfilter.stops import BrokenInput, Stop

SHOWN_MAX = 12  # most columns that a message lists


def lacks(columns: Sequence[str], needed: Sequence[Sequence[Path]]) -> Sequence[Path] | None:
    """Return the first group of *needed* paths that has no path in *columns*, None if all have."""
    return next(
        (group for group in needed if not any(path and path[0] in columns for path in group)), None
    )


def check_columns(path: str, columns: Sequence[str], reader: Reader) -> None:
    """Raise `BrokenInput` if the *columns* of the file at *path* do not fit *reader*."""
    missing = lacks(columns, reader.needed)
    if missing is not None:
        raise BrokenInput(_missing(path, columns, missing))
    for key in {each[0] for each in reader.paths}:
        if columns.count(key) > 1:
            raise BrokenInput(
                f"{path} has {columns.count(key)} columns named {key!r}\n"
                "    cure: name one of them otherwise"
            )


def _missing(path: str, columns: Sequence[str], missing: Sequence[Path]) -> str:
    from difflib import get_close_matches  # only for a mistake, so that a start does not load it

    named = [each[0] if each else "the whole row" for each in missing]
    near = [each for name in named for each in get_close_matches(name, columns, cutoff=0.5)]
    guess = pointer_of((near[0] if near else columns[0] if columns else "body",))
    shown = ", ".join(columns[:SHOWN_MAX]) + (", …" if len(columns) > SHOWN_MAX else "")
    return (
        f"{path} has no column {' or '.join(named)}; it has {shown or 'none'}\n"
        f"    cure: name the columns of text and id that it has, such as --text {guess}, and "
        "--id none where there is no id"
    )


READ_RECORDS, READ_BYTES = 1_000, 1 << 22  # records and bytes read at a time by default
BLANK_MAX = 100_000  # of a stretch: an interruption is only obeyed between stretches


class Stretch(Struct, frozen=True):
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
        self, *, documents: int, size: int, boundary: int = 0, summed: bool = False, like: str = ""
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


def continued(
    input_: Input,
    known: tuple[int, str],
    *,
    documents: int,
    size: int,
    changed: Callable[[], Stop],
    summed: bool = True,
    least: int = 0,
) -> Iterator[Stretch]:
    """Yield the stretches of an input whose first lines, *known* by number and digest, are stored.

    Raises what *changed* returns: these lines differ now, or there are fewer than *least*.
    """
    (lines, digest), done = known, 0
    for stretch in input_.stretches(
        documents=documents, size=size, boundary=lines + 1, summed=summed, like=digest
    ):
        done = stretch.end - 1
        if done == lines and stretch.digest != digest:
            raise changed()
        yield stretch
    if done < max(lines, least):
        raise changed()


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
    return chain.from_iterable(some_of(input_))
