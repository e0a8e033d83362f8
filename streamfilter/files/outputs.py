"""Atomic outputs: each is written to a temporary file beside its name, and renamed when complete.

A reader never sees half a file, and a run that dies leaves the previous outputs unchanged. The
outputs are renamed one after the other. After a crash between two renames, run again. Outputs that
are no regular files (a pipe, ``/dev/null``, standard output ``-``, a descriptor of the shell) are
written directly.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from streamfilter.files.formats.compression import ZSTANDARD, packing_of, zstandard
from streamfilter.files.s3_paths import is_s3, upload_to
from streamfilter.model import Record
from streamfilter.stops import ExitCode, NoRoom, Stop, Temporary, no_room

STDOUT = "-"
PARTIAL = ".partial"
AS_THEY_WERE = "the outputs are as they were (of a pipe or a device: not whole)"
_OPEN_ALREADY = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
"""Path of an open descriptor of this process, as shells pass for ``>(gzip > file)``."""
_BUFFER_BYTES = 1 << 17  # large: the file is read only when complete


_DIRECTORY = "is its directory there, and ours?"
_WRONG = dict.fromkeys(
    (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS), _DIRECTORY
) | {errno.EISDIR: "name a file in it", errno.EMFILE: "raise the limit of open files (ulimit -n)"}
"""What is probably wrong with the path of an output that cannot be opened."""


class OutputFile:
    """One output; compressed if its name has such a suffix, for example ``.gz``."""

    def __init__(self, path: str) -> None:
        """Open the output, or raise `Stop`: (temporary) if another run is writing it."""
        packing = packing_of(path)
        if packing is ZSTANDARD:
            zstandard()
        # A symbolic link stays: its target is replaced.
        self._target = Path(os.path.realpath(path))
        self._partial: Path | None = None
        self._name = "standard output" if path == STDOUT else path
        self._upload = upload_to(path) if is_s3(path) else None
        try:
            self._file = self._open(path)
        except OSError as error:
            if no_room(error):
                raise self._full(error) from None
            wrong = (
                "its name is empty: an unset variable?"
                if not path
                else _WRONG.get(error.errno or 0)
            )
            message = f"cannot write {path}: {error.strerror}" + (f"; {wrong}" if wrong else "")
            raise Stop(message, exit_code=ExitCode.USAGE) from None
        self._stream: Any = self._file if packing is None else packing.writer(self._file)

    def _open(self, path: str) -> Any:
        if self._upload is not None:
            return self._upload
        if path == STDOUT:
            if sys.stdout is None:
                raise OSError(errno.EBADF, "standard output is closed")
            return sys.stdout.buffer
        open_already = _OPEN_ALREADY.fullmatch("/dev/fd/1" if path == "/dev/stdout" else path)
        if open_already is not None:  # duplicated: reopening could undo a shell's >>
            return os.fdopen(os.dup(int(open_already[1])), "wb")
        if self._target.exists() and not self._target.is_file():
            return open(self._target, "wb")
        partial = self._target.with_name(self._target.name + PARTIAL)
        # Emptied only under the lock: another run may be writing it.
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        file = os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), os.stat(partial)):
                raise FileNotFoundError  # renamed by the other run since we opened it
        except (BlockingIOError, FileNotFoundError):
            file.close()
            raise Temporary(
                f"another run is writing {path}; wait for it, or name another"
            ) from None
        file.truncate()
        self._partial = partial
        return file

    def write(self, line: bytes) -> None:
        """Add *line*, which has no line feed, or raise `NoRoom`."""
        self.append(line + b"\n")

    def append(self, data: bytes) -> None:
        """Add *data* as it is, or raise `NoRoom`."""
        with self._room():
            self._stream.write(data)

    @property
    def closed(self) -> bool:
        """Return whether nothing can be added any more."""
        return bool(self._file.closed)

    def complete(self) -> None:
        """Finish the content, or raise `NoRoom`: after this, only the renaming can fail."""
        with self._room():
            if self._stream is not self._file:
                self._stream.close()
            if self._upload is not None:
                self._upload.complete()
                return
            self._file.flush()
            if self._partial is not None:
                os.fsync(self._file.fileno())

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if no_room(error):
                raise self._full(error) from None
            raise

    def _full(self, error: OSError) -> NoRoom:
        return NoRoom(f"cannot write {self._name}: {error.strerror}", stays=AS_THEY_WERE)

    def _close(self) -> None:
        if sys.stdout is None or self._file is not sys.stdout.buffer:
            self._file.close()

    def publish(self) -> None:
        """Rename the completed file to its final name, or make the object appear."""
        if self._upload is not None:
            self._upload.publish()
        if self._partial is not None:
            os.replace(self._partial, self._target)
            self._partial = None
        self._close()  # releases the lock: only after the rename

    def discard(self) -> None:
        """Remove the temporary file, or what was uploaded, if it has not been published."""
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)  # while it is locked: it is still ours
        with suppress(OSError):  # a full disk or a closed pipe no longer matters
            self._close()

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.complete()
                self.publish()
        finally:
            self.discard()


def write_whole(path: Path, content: bytes) -> None:
    """Write *content*, the file of an answer, atomically, or raise `Stop`."""
    with OutputFile(str(path)) as output:
        output.append(content)


class Writer(Protocol):
    """Writes records to an output, in its file's format."""

    def add(self, records: Sequence[Record]) -> None:
        """Write *records* as they came."""
        ...

    def finish(self) -> None:
        """Write what the format needs after the last record."""
        ...


class LinesWriter:
    """Writes a line for each record."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output

    def add(self, records: Sequence[Record]) -> None:
        self._output.append(b"\n".join([*(each.value or b"" for each in records), b""]))

    def finish(self) -> None:
        """Write nothing: lines need no footer."""


class Outputs:
    """All outputs of a run. Leaving the context without `publish` discards them."""

    def __init__(
        self,
        unique: str,
        duplicates: str,
        dead_letter: str | None = None,
        *,
        writer: Callable[[OutputFile], Writer] = LinesWriter,
    ) -> None:
        """Open the outputs; *writer* writes the kept records."""
        opened: list[OutputFile] = []
        try:
            for path in (unique, duplicates, dead_letter):
                if path is not None:
                    opened.append(OutputFile(path))
            self.unique = writer(opened[0])
        except BaseException:
            for output in opened:
                output.discard()
            raise
        self._all = opened
        self.duplicates = opened[1]
        self.dead_letter = opened[2] if dead_letter is not None else None

    def publish(self) -> None:
        self.unique.finish()
        for output in self._all:
            output.complete()
        for output in self._all:
            output.publish()

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *error: object) -> None:
        for output in self._all:
            output.discard()
