"""The index's directory: it has one owner, a lock and a marker.

    state/              0700, no symbolic link
      lock              held (flock) as long as an index is open; names the process
      index.json        the marker: identity and bucket cap; says that a database must be here
      rocksdb/          the database

The marker is stored beside the database, to distinguish "files are missing" from "there never was
a database". RocksDB itself opens an emptied directory as a new database.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.index.errors import IndexDamaged, IndexLocked, IndexRefused
from streamfilter.index.format import FORMAT
from streamfilter.index.rocks.forks import abandon_in_children
from streamfilter.similarity.scheme import widths_of

LOCK_NAME = "lock"
MARKER_NAME = "index.json"
DATABASE_NAME = "rocksdb"
PARTITION = "partition-"  # and a number: the directory of one of several indexes
OURS = frozenset({LOCK_NAME, MARKER_NAME, MARKER_NAME + ".new", DATABASE_NAME})
MARKER_BYTES_MAX = 1 << 20
LAYOUT = 3
"""Version of the tables on disk. 3 has buckets in runs; 2 has a row for each, and is converted. The
marker has it where a version that knows only 2 looks for the format, so that refuses the index."""
IDS_WITHOUT_SCOPES = "an older version made it, which finds documents by id without their scopes"


class Marker(Struct, frozen=True):
    """The content of the marker file."""

    identity: bytes  # the bytes that `identity.Identity.encode` wrote
    bucket_cap: int
    complete: bool  # False while the database is made: after a crash nothing is worth keeping
    ids: bool = False  # whether documents are found by id. Markers of older versions lack it: False
    older: bool = False  # whether the directory has the layout before `LAYOUT`


def ids_in(identity: dict[str, Any]) -> bool | str:
    """Return how a marker says that documents are found by their ids; in scopes, if there are any.

    The first version with scopes knew an id in all of them, and wrote True.
    """
    return "in scopes" if widths_of(0, identity["scheme"].get("digests", ())).scoped else True


def finds_ids(fields: dict[str, Any]) -> bool:
    """Return whether a marker says that documents are found by id as in this version."""
    return bool(fields.get("ids")) and fields["ids"] == ids_in(fields["identity"])


def marker_fields(marker: Marker) -> dict[str, Any]:
    """Return what *marker* says about the index, for a marker file or a backup's manifest."""
    identity = json.loads(marker.identity)
    ids = ids_in(identity) if marker.ids else False
    if identity["format"] == FORMAT:
        identity["format"] = LAYOUT
    return {"identity": identity, "bucket_cap": marker.bucket_cap, "ids": ids}


def marker_of(fields: dict[str, Any]) -> Marker:
    """Return the marker of an unfinished index that `marker_fields` describes.

    Fields of another shape raise an error of any kind.
    """
    layout = fields["identity"]["format"]
    shown = {"format": FORMAT} if layout == LAYOUT else {}
    return Marker(
        identity=canonical(fields["identity"] | shown),
        bucket_cap=int(fields["bucket_cap"]),
        complete=False,
        ids=finds_ids(fields),
        older=layout == FORMAT,
    )


class Lock:
    """The right to use a directory. One holder on this machine, in this process or another."""

    def __init__(self, path: Path, *, named: bool = True) -> None:
        """Take the lock of *path*; raise `IndexLocked` if another index holds it.

        It is *named* by this process's number; otherwise nothing in the file changes.
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
        if named:
            with suppress(OSError):  # disk full: the next process's error then names no holder
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        abandon_in_children(self)

    def release(self) -> None:
        """Release the lock. The file stays, because removing it would race with other processes.

        It is unlocked before it is closed: a child that was forked outside of Python shares the
        open file.
        """
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            finally:
                os.close(descriptor)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def abandon(self) -> None:
        """Close a forked child's copy. The parent keeps the lock until it releases it or ends."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)


def claim(path: Path) -> None:
    """Make *path* if it is missing; raise `IndexRefused` if it may not be used (`check_ours`)."""
    if not path.is_symlink() and not path.exists():
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_ours(path)
    if stat.S_IMODE(path.stat().st_mode) != 0o700:
        path.chmod(0o700)  # it belongs to our user, and it will hold the seed


def refuse_link(path: Path) -> None:
    """Refuse a *path* that is a link: writes, chmod and deletion would happen elsewhere."""
    if os.path.islink(path):
        raise IndexRefused(f"{path}: is a symbolic link; name the directory itself")


def refuse_inside(path: Path, directory: Path, *, what: str) -> None:
    """Refuse a *path* in the *directory* of an index (*what*): the next start would refuse it."""
    if path.resolve().is_relative_to(directory.resolve()):
        raise IndexRefused(
            f"{path}: lies in {directory}, {what}, which may hold nothing else; "
            "name a directory elsewhere"
        )


def check_ours(path: Path) -> None:
    """Refuse an existing *path* that we may not read, write or wipe (`IndexRefused`)."""
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
        if entry.name.startswith(PARTITION) and entry.is_dir(follow_symlinks=False):
            raise IndexRefused(
                f"{path}: holds {entry.name!r}, an index of index.scope: partition; "
                "set that scope, or name an empty directory, into which the changelog is restored"
            )
        if entry.name not in OURS or entry.is_symlink():
            raise IndexRefused(
                f"{path}: holds {entry.name!r}, which no index of ours wrote; "
                "move that elsewhere, or name an empty directory"
            )


def read_marker(path: Path) -> Marker | None:
    """Return the marker in *path*, or None if there is none, or raise `IndexDamaged`."""
    try:
        descriptor = os.open(path / MARKER_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MARKER_BYTES_MAX)
    try:
        fields = json.loads(data)
        return replace(marker_of(fields), complete=fields["complete"] is True)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise IndexDamaged(f"{path / MARKER_NAME}: cannot be read as a marker") from None


def write_marker(path: Path, marker: Marker) -> None:
    """Write *marker* atomically and durably: after a crash it is the old or the new one."""
    about = "streamfilter index; delete only together with the directory"
    fields = {"about": about, **marker_fields(marker), "complete": marker.complete}
    write_whole(path / MARKER_NAME, [json.dumps(fields, indent=1).encode()])


def write_whole(path: Path, blocks: Iterable[bytes], *, suffix: str = ".new") -> None:
    """Write *blocks* to *path*, durably; under its name and *suffix* until all are there."""
    new = path.with_name(path.name + suffix)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def canonical(fields: object) -> bytes:
    """Return *fields* as the same JSON text that `identity.Identity.encode` writes."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def sync_directory(path: Path) -> None:
    """Write the directory *path* itself, its names, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clear(path: Path) -> None:
    """Delete the marker and the database; the caller holds the lock.

    The marker is deleted last. After a crash in between, the next start finds a missing database
    and logs that, instead of silently starting anew.
    """
    while (path / DATABASE_NAME).exists():
        with suppress(FileNotFoundError):  # another process removes it too
            shutil.rmtree(path / DATABASE_NAME)  # follows no links
    for name in (MARKER_NAME + ".new", MARKER_NAME):
        (path / name).unlink(missing_ok=True)
    sync_directory(path)
