"""Lines of JSON Lines inputs, in batches: plain or gzip, from a file or standard input.

A line's number counts from 1 and counts every line, blank ones too, so that it is the one an
editor shows. Blank lines are no records. Memory holds one batch, or the longest line.
"""

from __future__ import annotations

import gzip
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from io import BufferedReader, RawIOBase
from typing import Any, NamedTuple, cast

from streamfilter.model import Record, Source
from streamfilter.process.signals import INTERRUPTION
from streamfilter.stops import BrokenInput, ExitCode, Stop

STDIN = "-"
BUFFER_BYTES = 1 << 17
WAIT_MILLISECONDS = 200
"""How late an interruption is heard while an input says nothing."""
_GZIP_MAGIC = b"\x1f\x8b"


class Line(NamedTuple):
    """One record of a file."""

    number: int
    raw: bytes
    """As it stood, without its line feed."""

    def record(self, name: str) -> Record:
        """Return the line as a record of the input *name*."""
        return Record(Source(name, 0, self.number), None, self.raw)


@dataclass(frozen=True, slots=True)
class Lines:
    """Consecutive lines of one input."""

    lines: list[Line]
    start: int
    """Number of the first line, blank or not."""
    end: int
    """Number of the line after the last."""
    bytes_read: int
    """How far the input has been read, in bytes as stored (compressed if it is)."""
    digest: str
    """Of all lines before ``end``, in hexadecimal."""


class InputFile:
    """One input, read once from its beginning."""

    def __init__(self, path: str, *, name: str | None = None) -> None:
        """Open *path* (``-`` is standard input), known to the index as *name*.

        Raises:
            Stop: (usage) if it cannot be opened.
        """
        self.path = path
        # A file name need not be UTF-8, but what is written about it must be.
        self.name = os.fsencode(name or path).decode("utf-8", "backslashreplace")
        self._raw = _open(path)
        self.digest = blake2b(digest_size=16)
        """Of the lines read so far, each with a line feed: a file may grow after a last line that
        had none."""

    @property
    def size(self) -> int:
        """Return the stored size in bytes, 0 if nobody can know."""
        try:
            status = os.fstat(self._raw.fileno())
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def batches(self, *, documents: int, size: int, boundary: int = 0) -> Iterator[Lines]:
        """Yield batches of at most *documents* lines; *size* bytes of lines close one earlier.

        No batch reaches over the line *boundary*.
        """
        start, end, held = 1, 1, 0
        batch: list[Line] = []
        for raw in self._lines():
            line = raw.removesuffix(b"\n")
            self.digest.update(raw if len(raw) > len(line) else raw + b"\n")
            if line and not line.isspace():
                batch.append(Line(end, line))
                held += len(line)
            end += 1
            if len(batch) >= documents or held >= size or end == boundary:
                yield Lines(batch, start, end, self._position(), self.digest.hexdigest())
                batch, start, held = [], end, 0
        if end > start:
            yield Lines(batch, start, end, self._position(), self.digest.hexdigest())

    def _lines(self) -> Iterator[bytes]:
        number = 0
        try:
            for line in self._unpacked():
                yield line
                number += 1
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            message = f"{self.path}: damaged gzip data after line {number}: {error}"
            raise BrokenInput(message) from None

    def _unpacked(self) -> BufferedReader | gzip.GzipFile:
        # Not before it is wanted: standard input may have nothing to say for a while.
        if self._raw.peek(2)[:2] == _GZIP_MAGIC:
            return gzip.GzipFile(fileobj=self._raw, mode="rb")
        return self._raw

    def _position(self) -> int:
        return self._raw.tell() if self._raw.seekable() else 0

    def close(self) -> None:
        """Close the input; standard input stays open."""
        if self.path != STDIN:
            self._raw.close()


def records_of(
    paths: Iterable[str], *, advanced: Callable[[int], None] = lambda _: None
) -> Iterator[Record]:
    """Yield the records of files, one file after the other; *advanced* hears the bytes read.

    Raises:
        Stop: one cannot be read.
    """
    for path in paths:
        with closing(InputFile(path)) as input_:
            read = 0
            for lines in input_.batches(documents=1_000, size=1 << 22):
                for line in lines.lines:
                    yield line.record(input_.name)
                advanced(lines.bytes_read - read)
                read = lines.bytes_read


class _Waiting(RawIOBase):
    """What may keep silent for ever (a pipe, a terminal), read so that an interruption is heard."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._ready = select.poll()
        self._ready.register(file.fileno(), select.POLLIN)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def readinto(self, buffer: Any) -> int | None:
        while not self._ready.poll(WAIT_MILLISECONDS):
            INTERRUPTION.obey()
        return cast(int | None, cast(Any, self._file.raw).readinto(buffer))

    def close(self) -> None:
        super().close()
        if self._file is not sys.stdin.buffer:
            self._file.close()


def _open(path: str) -> BufferedReader:
    if path == STDIN:
        return _standard_input()
    try:
        return _heard(cast(BufferedReader, open(path, "rb", buffering=BUFFER_BYTES)))
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise Stop(message, exit_code=ExitCode.USAGE) from None


def _standard_input() -> BufferedReader:
    """Return standard input; a test's own need not have a descriptor."""
    if sys.stdin is None:
        raise Stop("cannot read -: standard input is closed", exit_code=ExitCode.USAGE)
    stdin = cast(Any, sys.stdin.buffer)
    return _heard(stdin) if isinstance(stdin, BufferedReader) else BufferedReader(stdin)


def _heard(file: BufferedReader) -> BufferedReader:
    """Return *file*; one that may keep silent is read so that an interruption is heard."""
    regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    return file if regular else BufferedReader(_Waiting(file), BUFFER_BYTES)
