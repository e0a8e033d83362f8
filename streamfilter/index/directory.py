"""The index's directory: ours alone, locked, and marked as ours.

    state/              0700, no symbolic link
      lock              held (flock) as long as an index is open; names the process
      index.json        the marker: identity and bucket cap; says that a database must be here
      rocksdb/          the database

The marker stands beside the database so that "files are missing" and "there never was one" are
different things: RocksDB itself opens an emptied directory as a new database.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streamfilter.index.errors import (
    CURRENT,
    IndexDamaged,
    IndexLocked,
    IndexRefused,
    IndexRemoved,
)
from streamfilter.index.forks import abandon_in_children

LOCK_NAME = "lock"
MARKER_NAME = "index.json"
DATABASE_NAME = "rocksdb"
OURS = frozenset({LOCK_NAME, MARKER_NAME, MARKER_NAME + ".new", DATABASE_NAME})
MARKER_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Marker:
    """What the marker file says."""

    identity: bytes
    """As `identity.Identity.encode` wrote it."""
    bucket_cap: int
    complete: bool
    """False while the database is being made: a crash then leaves nothing worth keeping."""
    ids: bool = False
    """Whether documents are found by their ids; one of before does not say it, and has none."""


class Lock:
    """The right to use a directory. One holder on this machine, in this process or another."""

    def __init__(self, path: Path) -> None:
        """Take the lock of the directory *path*.

        Raises:
            IndexLocked: somebody else has it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path / LOCK_NAME, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise IndexLocked(
                f"{path}: process {holder or 'unknown'} has this index open; "
                "give each process a directory of its own, or stop the other one"
            ) from error
        with suppress(OSError):  # no room: who is locked out will not hear by whom, that is all
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        abandon_in_children(self)

    def release(self) -> None:
        """Give the lock back; the file stays, since removing it would race with others.

        A child that was forked without Python knowing has the same open file, and the lock with
        it: to close ours is not enough while it lives.
        """
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            finally:
                os.close(descriptor)

    def abandon(self) -> None:
        """Close a forked child's copy: the parent keeps the lock, and takes it along at its end."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def claim(path: Path) -> None:
    """Make the directory *path* if it is missing, and make sure that it is ours to use.

    Raises:
        IndexRefused: it is a link, no directory, another user's, or holds what we never wrote.
    """
    if not path.is_symlink() and not path.exists():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_ours(path)
    if stat.S_IMODE(path.stat().st_mode) != 0o700:
        path.chmod(0o700)  # it is our user's, and it will hold the seed


def refuse_link(path: Path) -> None:
    """Refuse a *path* that is a link: what is written, narrowed and wiped would lie elsewhere."""
    if os.path.islink(path):
        raise IndexRefused(f"{path}: is a symbolic link; name the directory itself")


def refuse_inside(path: Path, directory: Path, *, what: str) -> None:
    """Refuse a *path* in the *directory* of an index (*what*): nothing else may lie there.

    Raises:
        IndexRefused: it does; the index would be refused for it at its next start.
    """
    if path.resolve().is_relative_to(directory.resolve()):
        raise IndexRefused(
            f"{path}: lies in {directory}, {what}, which may hold nothing else; "
            "name a directory elsewhere"
        )


def check_ours(path: Path) -> None:
    """Refuse an existing *path* that is not ours to read, write or wipe.

    Raises:
        IndexRefused: it is a link, no directory, another user's, or holds what we never wrote.
    """
    refuse_link(path)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise IndexRefused(f"{path}: is no directory; name another one")
    if status.st_uid != os.geteuid():
        raise IndexRefused(
            f"{path}: belongs to user {status.st_uid}, this process runs as {os.geteuid()}; "
            "name a directory of its own inside it"
        )
    for entry in os.scandir(path):
        if entry.name not in OURS or entry.is_symlink():
            raise IndexRefused(
                f"{path}: holds {entry.name!r}, which no index of ours wrote; "
                "move that elsewhere, or name an empty directory"
            )


def read_marker(path: Path) -> Marker | None:
    """Return what the marker in *path* says, or None if there is none.

    Raises:
        IndexDamaged: there is one, and it cannot be read.
    """
    try:
        descriptor = os.open(path / MARKER_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MARKER_BYTES_MAX)
    try:
        fields = json.loads(data)
        return Marker(
            identity=canonical(fields["identity"]),
            bucket_cap=int(fields["bucket_cap"]),
            ids=fields.get("ids") is True,
            complete=fields["complete"] is True,
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        raise IndexDamaged(f"{path / MARKER_NAME}: cannot be read as a marker") from None


def write_marker(path: Path, marker: Marker) -> None:
    """Put *marker* in place whole and durably: a crash leaves the old one or the new one."""
    fields = {
        "about": "streamfilter index; delete only together with the directory",
        "identity": json.loads(marker.identity),
        "bucket_cap": marker.bucket_cap,
        "ids": marker.ids,
        "complete": marker.complete,
    }
    new = path / (MARKER_NAME + ".new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
        file.write(json.dumps(fields, indent=1).encode())
        file.flush()
        os.fsync(file.fileno())
    new.replace(path / MARKER_NAME)
    sync_directory(path)


def canonical(fields: object) -> bytes:
    """Return *fields* as the one JSON text that `identity.Identity.encode` also writes."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def sync_directory(path: Path) -> None:
    """Have the names in the directory *path* on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clear(path: Path) -> None:
    """Delete the marker and the database; the caller holds the lock.

    The marker goes last: a crash in between leaves a database that is missing, not a fresh start
    that forgets to be loud.
    """
    while (path / DATABASE_NAME).exists():
        with suppress(FileNotFoundError):  # somebody else removes it, too
            shutil.rmtree(path / DATABASE_NAME)  # follows no links
    for name in (MARKER_NAME + ".new", MARKER_NAME):
        (path / name).unlink(missing_ok=True)
    sync_directory(path)


def space_of(path: Path) -> tuple[int, int]:
    """Return the bytes that a database's files in *path* occupy, and those that are left for us.

    Raises:
        IndexRemoved: there is no such directory, or not its main file.
    """
    total, names = 0, set()
    try:
        for entry in os.scandir(path):
            names.add(entry.name)
            with suppress(FileNotFoundError):  # a compaction has just removed it
                total += entry.stat(follow_symlinks=False).st_size
        free = shutil.disk_usage(path).free
    except FileNotFoundError:
        raise IndexRemoved(f"{path}: was removed while it was open") from None
    if CURRENT not in names:
        raise IndexRemoved(f"{path}: its files were removed while it was open")
    return total, free
