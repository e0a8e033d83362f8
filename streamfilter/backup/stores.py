"""Where backups are kept. Here: a store as such, and a directory.

An object is written whole or not at all, and its content never changes. A directory is read with
care: another user may have put links and pipes into it.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from streamfilter.index.directory.lock_and_marker import write_whole
from streamfilter.index.errors import IndexFault, IndexRefused, IndexUnavailable
from streamfilter.stops import no_room

BLOCK = 1 << 20
NEW = re.compile(r".*\.[0-9a-f]{8}\.new")
"""Name of an object that is not whole yet. A kill may leave one; `upload.prune` removes it."""


class StoreRefused(IndexRefused):
    """The store refuses us: a right, a credential, the bucket or the directory is missing."""

    reason = "refused"


class StoreFull(IndexUnavailable):
    """The store has no room, or our quota of it is used up."""

    reason = "full"


class StoreUnreachable(IndexUnavailable):
    """The store does not answer, or answers with an error of its own."""

    reason = "unreachable"


class Stored(Struct, frozen=True):
    """One entry of a folder in a store."""

    size: int
    modified: float  # Unix time, by the store's clock
    folder: bool = False


class Store(Protocol):
    """A target of backups. Names are paths with ``/``. All methods raise `IndexFault`."""

    @property
    def where(self) -> str:
        """Return the target as it is written in the configuration."""

    def listing(self, folder: str) -> dict[str, Stored]:
        """Return the entries of *folder* by name; none if it does not exist."""

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write an object whole; if *blocks* raises, it is not written."""

    def get(self, name: str) -> Iterator[bytes]:
        """Yield the blocks of an object; `MissingObject` if there is none."""

    def delete(self, name: str) -> None:
        """Delete an object, if it exists."""


class MissingObject(IndexRefused):
    """The store has no object of that name."""


class DirectoryStore:
    """A directory of a mounted disk."""

    def __init__(self, root: Path) -> None:
        self.root, self.where = root, str(root)

    def listing(self, folder: str) -> dict[str, Stored]:
        """Return the entries of *folder*; links are left out."""
        with _file_errors(self.root):
            path = self._own(folder)
            if not path.is_dir():
                return {}
            found = {}
            for each in os.scandir(path):
                with suppress(FileNotFoundError):  # another owner of the index has just deleted it
                    found[each.name] = each.stat(follow_symlinks=False)
            return {
                name: Stored(status.st_size, status.st_mtime, stat.S_ISDIR(status.st_mode))
                for name, status in found.items()
                if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
            }

    def _own(self, name: str) -> Path:
        """Return the path of *name*; refuse a folder on the way to it that is a link."""
        path = self.root
        for part in Path(name).parts:
            path = path / part
            if path.is_symlink():
                raise IndexRefused(f"{path}: is a link; no backup has one")
        return path

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write an object durably under another name, then rename it."""
        with _file_errors(self.root):
            path = self._own(name)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, blocks, suffix=f".{secrets.token_hex(4)}.new")

    def get(self, name: str) -> Iterator[bytes]:
        """Yield the blocks of a regular file; a pipe or a link is refused, and not waited for."""
        with _file_errors(self.root):
            path = self._own(name)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            try:
                file: BinaryIO = os.fdopen(os.open(path, flags), "rb")
            except FileNotFoundError:
                raise MissingObject(f"{path}: is missing") from None
            with file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise IndexRefused(f"{path}: is no file of a backup")
                while block := file.read(BLOCK):
                    yield block

    def delete(self, name: str) -> None:
        with _file_errors(self.root):
            self._own(name).unlink(missing_ok=True)


@contextmanager
def _file_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except IndexFault:
        raise
    except OSError as error:
        if no_room(error):
            raise StoreFull(
                f"{root}: the target is full ({error})\n    cure: make room there"
            ) from error
        if error.errno in _AWAY:
            raise StoreUnreachable(f"{root}: cannot be used now: {error}") from error
        cure = "make it a directory that this user may write"
        raise StoreRefused(f"{root}: cannot be used: {error}; {cure}") from error


_AWAY = frozenset({errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE,
                   errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.EBUSY})  # fmt: skip
"""Errors of a file system that may be there again later."""
