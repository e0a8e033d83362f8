"""A copy of a closed index on the same file system, to go back to it later.

RocksDB never changes a table file. So the copy has hard links to the table files, and needs no
space until compaction replaces the index's own files. All other files are copied.
"""

import os
import shutil
from pathlib import Path

from msgspec.structs import replace

from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    MARKER_NAME,
    Lock,
    clear,
    read_marker,
    sync_directory,
    write_marker,
)
from streamfilter.index.errors import IndexDamaged, file_errors

TABLE = ".sst"


def copy_closed(path: Path, target: Path) -> None:
    """Copy a closed index into the empty directory *target*, or raise `IndexFault`.

    Nothing in *path* changes.
    """
    with file_errors(target), Lock(path, named=False):
        _copy_database(path, target)
        shutil.copyfile(path / MARKER_NAME, target / MARKER_NAME)
        sync_directory(target)


def bring_back(copy: Path, path: Path) -> None:
    """Replace the index in *path* by its *copy*.

    After a crash in between, `is_whole` returns False. Call `bring_back` again then. Raises
    `IndexFault`: another process has it open, there is no room, or *copy* is none.
    """
    with file_errors(path):
        marker = read_marker(copy)
        if marker is None:
            raise IndexDamaged(f"{copy}: is no copy of an index; remove it")
        with Lock(path):
            write_marker(path, replace(marker, complete=False))
            clear(path)
            _copy_database(copy, path)
            write_marker(path, marker)


def is_whole(path: Path) -> bool:
    """Return whether *path* has a complete index, not the rest of a crashed `bring_back`."""
    marker = read_marker(path)
    return marker is not None and marker.complete


def _copy_database(source: Path, target: Path) -> None:
    database = target / DATABASE_NAME
    database.mkdir(mode=0o700)
    for file in sorted((source / DATABASE_NAME).iterdir()):
        if file.is_file():
            _copy_file(file, database / file.name)
    sync_directory(database)


def _copy_file(source: Path, target: Path) -> None:
    if source.suffix == TABLE:
        try:
            os.link(source, target)
            return
        except OSError:  # a file system without links: the copy takes its room at once
            pass
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())
