"""Backups of an index: made while a process works on it, checked, and restored.

    target/
      backup.json       what is in it: every file's size and sum; written last
      index/            the index, or partition-0/ and so on: as the state directory had it

The copy is written anew from a view of the index (`read_only_view.py`), entry by entry. That checks
every block's checksum, does not disturb the running process, and gives the state of one moment.
RocksDB's own checkpoint cannot be used on a view: it silently leaves out data that is only in the
log. A restored copy is an older index, and the changelog's tail adds the rest, as after any stop.
The copy holds the seed, like the index: keep it private.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from streamfilter.index.directory.backup_manifest import CONTENTS_NAME, Copied, contents, encoded
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    Lock,
    Marker,
    claim,
    refuse_inside,
    write_marker,
)
from streamfilter.index.directory.read_only_view import IndexView, viewed
from streamfilter.index.errors import IndexDamaged, IndexRefused, file_errors
from streamfilter.index.format import Entries
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.options import MIB, Memory

CHUNK = 5_000
_NOT_DATA = ("LOCK", "LOG")


def back_up(state: Path, target: Path, *, seed: bytes | None = None) -> list[Copied]:
    """Copy every index in *state*, which may be in use, into *target*, which must be new or empty.

    *seed* is what ``index.seed_file`` holds, if it is set. Raises `IndexFault`: there is no index,
    it is damaged, or *target* is not usable.
    """
    sources = indexes_in(state)
    if any(path == state / "index" for path in sources):
        raise IndexRefused(
            f"{state}: belongs to `filter`, which keeps more than an index there\n"
            "    cure: copy the directory while no filter runs on it"
        )
    with file_errors(target):
        refuse_inside(target, state, what="the index")
        _make_new(target)
        names = ["index" if path == state else path.name for path in sources]
        copies = [_copied(*each, target, seed) for each in zip(sources, names, strict=True)]
        _write_durably(target / CONTENTS_NAME, encoded(copies))
    return copies


def _make_new(target: Path) -> None:
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise IndexRefused(f"{target}: is not empty; name a new directory")


def _copied(path: Path, name: str, target: Path, seed: bytes | None) -> Copied:
    copy = target / name
    with viewed(path, seed=seed) as view:
        marker = Marker(view.identity.encode(), view.bucket_cap, complete=False, ids=view.ids)
        claim(copy)
        write_marker(copy, marker)
        _write_anew(view, copy / DATABASE_NAME)
        write_marker(copy, replace(marker, complete=True))
        return Copied(
            name=name,
            index_id=view.identity.index_id,
            documents=len(view),
            progress=view.progress,
            marker=marker,
            sums=_sums(copy / DATABASE_NAME),
        )


def _write_anew(view: IndexView, path: Path) -> None:
    memory = Memory(cache_bytes=32 * MIB, memtable_bytes=64 * MIB, front_bytes=0)
    numbers = [window.number for window in view.windows]
    store = Database(path, memory=memory, create=True, windows=numbers, ids=view.ids)
    try:
        for family in view.families:  # the progress, which describes all others, comes last
            source = view.entries(family)
            while chunk := list(islice(source, CHUNK)):
                entries = Entries()
                entries.put(family, [key for key, _ in chunk], [value for _, value in chunk])
                store.write(entries)
        store.flush()
    finally:
        store.close()


def _sums(database: Path) -> dict[str, tuple[int, str]]:
    """Return size and sum of every file that the database needs, and sync them to the disk."""
    found = {}
    for file in sorted(database.iterdir()):
        if not file.name.startswith(_NOT_DATA):
            with file.open("rb") as stream:
                total = hashlib.file_digest(stream, "blake2b").hexdigest()
                os.fsync(stream.fileno())
            found[file.name] = file.stat().st_size, total
    return found


def size_of(backup: Path) -> int:
    """Return the bytes that a restore of *backup* copies, or raise `IndexFault`."""
    return sum(copied.bytes for copied in contents(backup))


def restore(
    backup: Path, state: Path, *, advanced: Callable[[int], None] = lambda _: None
) -> list[Copied]:
    """Restore the indexes in *backup* into the directory *state*, which must be new or empty.

    All sums are checked before an index is marked complete. *advanced* gets the bytes of each file.
    Raises `IndexFault`: it is no backup, not a whole one, or *state* is not usable.
    """
    copies = contents(backup)
    with file_errors(state):
        refuse_inside(state, backup, what="the backup")
        _make_new(state)
        for copied in copies:
            target = state if copied.name == "index" else state / copied.name
            _bring_back(backup / copied.name / DATABASE_NAME, target, copied, advanced)
    return copies


def _bring_back(source: Path, path: Path, copied: Copied, advanced: Callable[[int], None]) -> None:
    claim(path)
    with Lock(path):
        write_marker(path, copied.marker)
        (path / DATABASE_NAME).mkdir(mode=0o700)
        for name, (size, total) in copied.sums.items():
            _bring_back_file(source / name, path / DATABASE_NAME / name, size, total)
            advanced(size)
        write_marker(path, replace(copied.marker, complete=True))


def _bring_back_file(source: Path, path: Path, size: int, total: str) -> None:
    """Copy one file, and refuse it if it is not what the backup wrote."""
    summed, written = hashlib.blake2b(), 0
    # A file may have been replaced by a link after the contents were checked: do not follow it.
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream, path.open("xb") as copy:
        while written <= size and (block := stream.read(MIB)):
            summed.update(block)
            written += copy.write(block)
        copy.flush()
        os.fsync(copy.fileno())
    if (written, summed.hexdigest()) != (size, total):
        raise IndexDamaged(f"{source}: is not what the backup wrote; take another backup")


def _write_durably(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    with new.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
