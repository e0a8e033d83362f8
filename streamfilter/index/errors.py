"""What can go wrong with an index, as exceptions that say what to do about it.

rocksdict raises bare ``Exception`` with RocksDB's text. This is the one place that reads that
text, so that everyone else can catch a kind of trouble instead of comparing strings.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamfilter.stops import no_room

ROOM_BYTES = 256 << 20
"""To be free before a full disk counts as mended: two write buffers and what merges them."""


def _left(path: Path | None) -> str:
    """Return what is left on the file system of *path*, in words, if anybody knows."""
    for place in (path, *path.parents) if path else ():
        with suppress(OSError):
            return f" ({shutil.disk_usage(place).free >> 20} are left)"
    return ""


class IndexFault(Exception):
    """Trouble with an index; the message is for the person who runs it."""


class IndexRefused(IndexFault):
    """The directory is not ours to use: a symbolic link, another user's, another program's."""


class IndexLocked(IndexFault):
    """Another process has the index open."""


class IndexForked(IndexFault):
    """A forked child uses what its parent opened, or opens an index after its parent did."""


class IndexDamaged(IndexFault):
    """The database cannot be trusted: wipe it and restore it from the changelog, loudly."""


class IndexMismatch(IndexFault):
    """The index was built with another scheme or format; `differences` names what differs."""

    def __init__(self, fact: str, differences: tuple[str, ...] = (), *, ways: str = "") -> None:
        super().__init__(fact + ways)
        self.fact, self.differences, self._ways = fact, differences, ways

    def with_ways(self, ways: str) -> IndexMismatch:
        """Return the same for who has no service: with these *ways* out, in the place of its."""
        return IndexMismatch(self.fact, self.differences, ways=ways if self._ways else "")


class IndexUnavailable(IndexFault):
    """The system refused (open files, permission, input/output): the data may well be whole.

    Never a reason to wipe: stop, let a person look, start again.
    """


class IndexRemoved(IndexDamaged):
    """Somebody removed the directory of an open index: a person's deed, and no disk's fault."""


CURRENT = "CURRENT"
"""RocksDB's file that says which of its files are the database: always there."""


class DiskFull(IndexFault):
    """A write found no space. Nothing of it is visible; apply the same changes again later.

    The message is a service's, which waits; who ends has other words for the same `fact`.
    """

    def __init__(self, fact: str, path: Path | None = None) -> None:
        """Say the *fact*, and with the index's *path* how much is left there and wanted."""
        wanted = f"at least {ROOM_BYTES >> 20} MiB{_left(path)}"
        super().__init__(f"{fact}; free some space, {wanted}, and it goes on by itself")
        self.fact = fact


class FormatError(ValueError):
    """Bytes that this version did not write: truncated, garbage, or of another format."""


_FULL = ("no space left", "disk quota exceeded", "enospc", "space limit reached")
_LOCKED = ("lock file", "lock hold by current process")
_REFUSED = ("too many open files", "permission denied", "cannot allocate memory")
_DAMAGED = ("corruption", "no such file", "column family not found", "does not exist")


def translated(error: Exception, path: Path) -> IndexFault:
    """Return the fault that RocksDB's text in *error* speaks of, naming *path*."""
    text = str(error)
    lowered = text.lower()
    if any(phrase in lowered for phrase in _FULL):
        return DiskFull(f"{path}: the disk is full ({text})", path)
    if any(phrase in lowered for phrase in _LOCKED):
        return IndexLocked(f"{path}: another process has this index open ({text})")
    # RocksDB wraps what the system refused into "Corruption: IO error: ..." at times, so that is
    # looked for first; and only what surely speaks of the data is called damage.
    refused = any(phrase in lowered for phrase in _REFUSED)
    if not refused and any(phrase in lowered for phrase in _DAMAGED):
        if not (path / CURRENT).exists():
            return IndexRemoved(f"{path}: was removed while it was open ({text})")
        return IndexDamaged(f"{path}: the database is damaged: {text}")
    return IndexUnavailable(f"{path}: the database cannot be used now: {text}")


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system raises inside the block into faults that name *path*."""
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
    """Turn what rocksdict raises inside the block into faults that name *path*."""
    try:
        yield
    except (IndexFault, FormatError):
        raise
    except Exception as error:
        # Only rocksdict raises the bare class. Anything narrower is a bug of ours and rises as
        # itself; DbClosedError is one too: somebody used an index after closing it.
        if type(error) is not Exception:
            raise
        raise translated(error, path) from error
