"""Lines of JSON Lines inputs, in batches: plain or packed, from a file or standard input.

Line numbers begin at 1 and include blank lines, as in an editor. Blank lines are not records.
Memory holds one batch. If a line is longer than the limit, only its beginning is kept; the rest is
skipped.
"""

import os
import select
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import blake2b
from io import BufferedReader, RawIOBase
from itertools import chain, islice
from typing import Any, cast

from xxhash import xxh3_128

from streamfilter.files.formats.compression import Damaged, packing_in, unpacked
from streamfilter.files.formats.protocol import Input, Stretch, records_of, stretches_of
from streamfilter.files.outputs import LinesWriter, OutputFile, Writer
from streamfilter.files.s3_paths import is_s3, object_at
from streamfilter.model import Record, Source
from streamfilter.process.signals import INTERRUPTION
from streamfilter.stops import BrokenInput, ExitCode, Stop

LINES_SEEN = 4
TAR_AT, TAR = 257, b"ustar"  # offset and magic bytes of a tar archive
BOM = b"\xef\xbb\xbf"
_FOREIGN = {
    b"PAR1": ("a Parquet file", "read it by --format parquet"),
    b"Obj\x01": ("an Avro container file", "read it by --format avro"),
    b"ORC": ("an ORC file", "write it as Parquet, and read it by --format parquet"),
    b"ARROW1": ("an Arrow file", "write it as Parquet, and read it by --format parquet"),
    b"\xff\xfe\0\0": ("UTF-32", "convert it, such as by `iconv -f UTF-32 -t UTF-8 IN > OUT`"),
    b"\xff\xfe": ("UTF-16", "convert it, such as by `iconv -f UTF-16 -t UTF-8 IN > OUT`"),
    b"\xfe\xff": ("UTF-16", "convert it, such as by `iconv -f UTF-16 -t UTF-8 IN > OUT`"),
}


def begun(lines: Iterator[bytes], path: str, json_values: bool) -> Iterator[bytes]:
    """Return all *lines* of the file at *path*; raise `BrokenInput` if they are no records.

    Without this check each of their lines would be a broken record. Only the first ones are seen.
    """
    first = [*islice(lines, LINES_SEEN if json_values else 1)]
    what = _foreign(first) or (_layout(first) if json_values else None)
    if what is not None:
        raise BrokenInput(f"{path} is {what[0]}, not a record on each line\n    cure: {what[1]}")
    return chain(first, lines)


def _foreign(lines: Sequence[bytes]) -> tuple[str, str] | None:
    begin = lines[0] if lines else b""
    if begin.startswith(TAR, TAR_AT):
        return "a tar archive", "unpack it, such as by `tar -xOf IN > OUT`"
    return next((what for magic, what in _FOREIGN.items() if begin.startswith(magic)), None)


def _layout(lines: Sequence[bytes]) -> tuple[str, str] | None:
    """Return the layout of JSON *lines* and the cure, or None for one value on each line.

    A value continues on the next line if its line ends with a comma, a colon or an opening bracket.
    One broken first line is not enough: it must not refuse the other lines.
    """
    stripped = [line.removeprefix(BOM).strip() for line in lines]
    first, *others = [line for line in stripped if line] or [b""]
    goes_on = first.endswith((b"{", b"[", b",", b":"))
    inside = first[1:].lstrip()[:1]
    if first.startswith(b"[") and inside in b'{["' and (goes_on or not others):
        return "one JSON array", "write a line for each element: `jq -c '.[]' IN > OUT`"
    if all(line.startswith(b"\x1e{") for line in (first, *others)):
        return "a JSON text sequence", "leave out its marks: `tr -d '\\036' < IN > OUT`"
    if first.startswith(b"{") and b"}\r{" in first and not others:
        return "lines that end with CR alone", "convert them: `tr '\\r' '\\n' < IN > OUT`"
    if first.startswith(b"{") and goes_on and others and others[0][:1] in b'"}':
        return "JSON over several lines", "write a line for each value: `jq -c . IN > OUT`"
    return None


STDIN = "-"
XXH3 = "xxh3:"
"""Begins a digest of XXH3-128; one without it is of BLAKE2b-128, from an earlier version."""
BUFFER_BYTES = 1 << 17
WAIT_MILLISECONDS = 200  # longest delay of an interruption while an input sends nothing
LINE_BYTES_MAX = 256 * 1024 * 1024  # without a reader's limit: an envelope holds a record


class InputFile:
    """One input, read once from its beginning; without a format of rows, by lines."""

    format = "lines"

    def __init__(
        self,
        path: str,
        *,
        name: str | None = None,
        limit: int = LINE_BYTES_MAX,
        json_values: bool = False,
    ) -> None:
        """Open *path* (``-`` is standard input), known to the index as *name*, or raise `Stop`.

        Not much more than *limit* bytes of a line are kept. *json_values* means that each line
        must be JSON, so that an error can name another layout.
        """
        self.path = path
        # A file name need not be UTF-8, but what is written about it must be.
        self.name = os.fsencode(name or path).decode("utf-8", "backslashreplace")
        self._raw = _open(path)
        self._limit, self._json_values = limit, json_values
        self._packed_by = "packed"
        self.summed = True  # whether a digest is needed
        self._digest: Any = xxh3_128()
        """Digest of the lines read so far. Each counts with a line feed, because a file may grow
        after a last line that had none."""

    @property
    def size(self) -> int:
        """Return the stored size in bytes, 0 if unknown."""
        try:
            status = os.fstat(self._raw.fileno())
        except OSError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def stretches(
        self, *, documents: int, size: int, boundary: int = 0, summed: bool = False, like: str = ""
    ) -> Iterator[Stretch]:
        self.summed = summed
        if like and not like.startswith(XXH3):
            self._digest = blake2b(digest_size=16)  # as earlier versions did
        return stretches_of(
            self._records(), self.read_so_far, documents=documents, size=size, boundary=boundary
        )

    def _records(self) -> Iterator[tuple[Record | None, int]]:
        pieces = begun(self.raw_lines(), self.path, self._json_values)
        for number, raw in enumerate(pieces, 1):
            line = raw.removesuffix(b"\n")
            if self.summed:
                self._digest.update(raw)
            if len(raw) == len(line):  # the last line, or a piece of a longer one
                self._pass_over(line, pieces)
            there = line and not line.isspace()
            yield Record(Source(self.name, 0, number), None, line) if there else None, len(line)

    def _pass_over(self, piece: bytes, pieces: Iterator[bytes]) -> None:
        """Skip the rest of the line that begins with *piece*; its end counts as a line feed."""
        while len(piece) > self._limit and not piece.endswith(b"\n"):
            piece = next(pieces, b"")
            self.sum(piece)
        if not piece.endswith(b"\n"):
            self.sum(b"\n")

    def raw_lines(self) -> Iterator[bytes]:
        """Yield the lines with their line feeds; one beyond the limit comes in pieces."""
        number = 0
        try:
            read = self.unpacked().readline
            for line in iter(partial(read, self._limit + 1), b""):
                yield line
                number += line.endswith(b"\n")
        except Damaged as error:
            message = f"{self.path}: damaged {self._packed_by} data after line {number}: {error}"
            raise BrokenInput(message) from None

    def unpacked(self) -> BufferedReader:
        """Return a reader of the unpacked content; errors as in `packing_in`."""
        # Only on the first read: standard input may send nothing for a while.
        packing = packing_in(self._raw, self.path)
        if packing is None:
            return self._raw
        self._packed_by = packing.name
        content = unpacked(self._raw, packing)
        if packing_in(content, self.path) is not None:
            raise BrokenInput(f"{self.path} is packed twice\n    cure: unpack it once")
        return content

    def read_so_far(self) -> tuple[int, str]:
        """Return how many stored bytes have been read (0: unknown), and the digest if requested."""
        kind = XXH3 if self._digest.name.startswith("XXH3") else ""
        digest = kind + self._digest.hexdigest() if self.summed else ""
        return self._raw.tell() if self._raw.seekable() else 0, digest

    def sum(self, read: bytes) -> None:
        """Add what was *read* to the digest, if one is needed."""
        if self.summed:
            self._digest.update(read)

    def writer(self, output: OutputFile) -> Writer:
        return LinesWriter(output)

    def differs(self, other: Input) -> str | None:
        """Return why one file cannot hold the records of both: None, it can hold any lines."""
        return None

    def close(self) -> None:
        """Close the input; standard input stays open."""
        if self.path != STDIN:
            self._raw.close()


def lines_of(path: str) -> Iterator[Record]:
    """Yield the records of a file of lines, or raise `Stop`."""
    with closing(InputFile(path)) as input_:
        yield from records_of(input_)


class _Waiting(RawIOBase):
    """Reads a pipe or a terminal, which may block for ever, and obeys interruptions meanwhile."""

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
        if sys.stdin is None:
            raise Stop("cannot read -: standard input is closed", exit_code=ExitCode.USAGE)
        stdin = cast(Any, sys.stdin.buffer)  # in tests it may have no descriptor
        return _heard(stdin) if isinstance(stdin, BufferedReader) else BufferedReader(stdin)
    if is_s3(path):
        return BufferedReader(object_at(path), BUFFER_BYTES)
    try:
        return _heard(cast(BufferedReader, open(path, "rb", buffering=BUFFER_BYTES)))
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        if "://" in path:
            message = (
                f"cannot read {path}: an input is a file of this host, an object (s3://), or - "
                "for standard input\n"
                "    cure: copy it here, or pipe it: `curl -f https://… | streamfilter filter -`"
            )
        raise Stop(message, exit_code=ExitCode.USAGE) from None


def _heard(file: BufferedReader) -> BufferedReader:
    """Return *file*; one that may block is wrapped, so that interruptions are obeyed."""
    regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    return file if regular else BufferedReader(_Waiting(file), BUFFER_BYTES)
