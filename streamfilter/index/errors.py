"""The exceptions of an index; their messages say what to do.

rocksdict raises bare ``Exception`` with RocksDB's text. Only this module reads that text, so that
all other code can catch an exception class instead of comparing strings.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamfilter.stops import NoRoom, SchemeMismatch, Stop, Temporary, no_room

ROOM_BYTES = 256 << 20  # free space that repairs a full disk: two write buffers, their compaction


def _left(path: Path | None) -> str:
    """Return in words how much is free on the file system of *path*; empty if that is unknown."""
    for place in (path, *path.parents) if path else ():
        with suppress(OSError):
            return f" ({shutil.disk_usage(place).free >> 20} are left)"
    return ""


class IndexFault(Exception):
    """An error of an index; the message is for the operator."""


class IndexRefused(IndexFault):
    """The directory may not be used: a symbolic link, another user's, or another program's."""


class IndexLocked(IndexFault):
    """Another process has the index open."""


class IndexForked(IndexFault):
    """A forked child uses an index of its parent, or opens one after its parent opened one."""


class IndexDamaged(IndexFault):
    """The database cannot be trusted: wipe it, log that, and restore it from the changelog."""


class IndexMismatch(IndexFault):
    """The index was built with another scheme or format; `differences` lists what differs."""

    def __init__(self, fact: str, differences: tuple[str, ...] = (), *, ways: str = "") -> None:
        super().__init__(fact + ways)
        self.fact, self.differences, self._ways = fact, differences, ways

    def with_ways(self, ways: str) -> IndexMismatch:
        """Return the same error with these *ways* out in the place of a service's ways out."""
        return IndexMismatch(self.fact, self.differences, ways=ways if self._ways else "")


class IndexUnavailable(IndexFault):
    """The system refused; the data may be undamaged. Never wipe the index for this error."""


class IndexRemoved(IndexDamaged):
    """The directory of an open index was removed: by a person or a program, not by a bad disk."""


CURRENT = "CURRENT"  # RocksDB's file that names the valid MANIFEST: every database has it


class DiskFull(IndexFault):
    """A write found no space, and nothing of it is visible. Apply the same changes again later.

    The message is for a service, which waits, and for a program with a `Deduplicator`. Commands
    that end use `fact` with their own words.
    """

    def __init__(self, fact: str, path: Path | None = None) -> None:
        wanted = f"at least {ROOM_BYTES >> 20} MiB{_left(path)}"
        repeated = "a service then goes on by itself, and a call can be repeated in ten seconds"
        super().__init__(f"{fact}; free some space, {wanted}: {repeated}")
        self.fact = fact


def as_stop(fault: IndexFault, ways: str = "", *, stays: str = "", cure: str = "") -> Stop:
    """Return the end of the process for *fault*, which nothing in the process can repair.

    A directory in use, a full disk or a refusal by the system may be gone at the next start, so a
    supervisor should retry. All other faults need a person. *ways* are the ways out of a mismatch,
    if they are not a service's. A full disk leaves *stays* as it was; with room, *cure* helps.
    """
    if isinstance(fault, DiskFull) and stays:
        return NoRoom(fault.fact, stays=stays, cure=cure)
    if isinstance(fault, DiskFull | IndexLocked | IndexUnavailable):
        return Temporary(str(fault))
    if isinstance(fault, IndexMismatch) and ways:
        fault = fault.with_ways(ways)
    return SchemeMismatch(str(fault))


class FormatError(ValueError):
    """Bytes that this version did not write: truncated, garbage, or of another format."""


_FULL = ("no space left", "disk quota exceeded", "enospc", "space limit reached")
_LOCKED = ("lock file", "lock hold by current process")
_REFUSED = ("too many open files", "permission denied", "cannot allocate memory")
_DAMAGED = ("corruption", "no such file", "column family not found", "does not exist")


def translated(error: Exception, path: Path) -> IndexFault:
    """Return the fault for RocksDB's text in *error*; its message names *path*."""
    text = str(error)
    lowered = text.replace(str(path), "").lower()  # words of a directory's name say nothing
    if any(phrase in lowered for phrase in _FULL):
        return DiskFull(f"{path}: the disk is full ({text})", path)
    if any(phrase in lowered for phrase in _LOCKED):
        return IndexLocked(f"{path}: another process has this index open ({text})")
    # RocksDB sometimes reports a refusal by the system as "Corruption: IO error: ...". So refusals
    # are checked first, and only texts that clearly mean the data count as damage.
    refused = any(phrase in lowered for phrase in _REFUSED)
    if not refused and any(phrase in lowered for phrase in _DAMAGED):
        if not (path / CURRENT).exists():
            return IndexRemoved(f"{path}: was removed while it was open ({text})")
        return IndexDamaged(f"{path}: the database is damaged: {text}")
    return IndexUnavailable(f"{path}: the database cannot be used now: {text}")


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn errors of the operating system inside the block into faults that name *path*."""
    try:
        yield
    except OSError as error:
        if no_room(error):
            raise DiskFull(f"{path}: the disk is full ({error})", path) from error
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM):
            raise IndexUnavailable(f"{path}: cannot be used now: {error}") from error
        raise IndexRefused(f"{path}: cannot be used: {error}") from error


@contextmanager
def rocks_errors(path: Path) -> Iterator[None]:
    """Turn rocksdict's errors inside the block into faults that name *path*."""
    try:
        yield
    except (IndexFault, FormatError):
        raise
    except Exception as error:
        # Only rocksdict raises the bare class, and, for a file of its own, an OSError that has its
        # number in its text alone. All else is a bug of ours and is raised unchanged. That
        # includes DbClosedError: an index was used after it was closed.
        own_file = type(error) is OSError and error.errno is None
        if type(error) is not Exception and not own_file:
            raise
        raise translated(error, path) from error
