"""Copies of an index: made while a process works on it, told whole from torn, and brought back.

    target/
      backup.json       what is in it: every file's size and sum; written last
      index/            the index, or partition-0/ and so on: as the state directory had it

The copy is written anew from a view of the index (`viewing.py`), entry by entry: every block's
checksum is read on the way, the running process notices nothing, and the copy is one moment.
RocksDB's own checkpoint was tried on such a view and is no way: it leaves out what only stands in
the log, family by family, without a word. A copy brought back is an older index: the changelog's
tail makes up the rest, as after any stop. It holds the seed, as the index does: keep it private.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from streamfilter.index.directory import (
    DATABASE_NAME,
    Lock,
    Marker,
    claim,
    refuse_inside,
    write_marker,
)
from streamfilter.index.entries import Entries
from streamfilter.index.errors import IndexDamaged, IndexRefused, file_errors
from streamfilter.index.options import MIB, Memory
from streamfilter.index.places import indexes_in
from streamfilter.index.protocol import Progress
from streamfilter.index.store import Database
from streamfilter.index.viewing import IndexView, viewed

CONTENTS_NAME = "backup.json"
VERSION = 1
CHUNK = 5_000
_NOT_DATA = ("LOCK", "LOG")


@dataclass(frozen=True, slots=True)
class Copied:
    """One index of a backup."""

    name: str
    """Its directory in the backup."""
    index_id: str
    documents: int
    progress: Progress
    files: int
    bytes: int


def back_up(state: Path, target: Path, *, seed: bytes | None = None) -> list[Copied]:
    """Copy every index in *state* into the directory *target*, which must be new or empty.

    Args:
        state: The service's ``index.path``; a process may be working on it.
        target: Where the copy goes.
        seed: What ``index.seed_file`` holds, or None if it is not set.

    Raises:
        IndexFault: there is no index, it is damaged, or *target* is not usable.
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
        entries = [_copied(path, target, _name_of(path, state), seed) for path in sources]
        contents = {
            "about": "streamfilter backup; holds the seed of the index: keep it private",
            "version": VERSION,
            "indexes": entries,
        }
        _write_durably(target / CONTENTS_NAME, json.dumps(contents, indent=1).encode())
    return [_as_copied(entry) for entry in entries]


def _name_of(path: Path, state: Path) -> str:
    return "index" if path == state else path.name


def _make_new(target: Path) -> None:
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise IndexRefused(f"{target}: is not empty; name a new directory")


def _copied(path: Path, target: Path, name: str, seed: bytes | None) -> dict[str, Any]:
    copy = target / name
    with viewed(path, seed=seed) as view:
        marker = Marker(view.identity.encode(), view.bucket_cap, complete=False, ids=view.ids)
        claim(copy)
        write_marker(copy, marker)
        _write_anew(view, copy / DATABASE_NAME)
        write_marker(copy, replace(marker, complete=True))
        progress = view.progress
        return {
            "name": name,
            "index_id": view.identity.index_id,
            "documents": len(view),
            "changelog_offset": progress.changelog_offset,
            "next_batch": progress.next_batch,
            "next_ordinal": progress.next_ordinal,
            "marker": json.loads((copy / "index.json").read_bytes()),
            "files": _sums(copy / DATABASE_NAME),
        }


def _write_anew(view: IndexView, path: Path) -> None:
    memory = Memory(cache_bytes=32 * MIB, memtable_bytes=64 * MIB, front_bytes=0)
    numbers = [window.number for window in view.windows]
    store = Database(path, memory=memory, create=True, windows=numbers, ids=view.ids)
    try:
        for family in view.families:  # progress, which speaks of all the rest, comes last
            source = view.entries(family)
            while chunk := list(islice(source, CHUNK)):
                entries = Entries()
                entries.put(family, [key for key, _ in chunk], [value for _, value in chunk])
                store.write(entries)
        store.flush()
    finally:
        store.close()


def _sums(database: Path) -> dict[str, list[Any]]:
    """Return size and sum of every file that the database needs, and have them on the disk."""
    found = {}
    for file in sorted(database.iterdir()):
        if not file.name.startswith(_NOT_DATA):
            with file.open("rb") as stream:
                total = hashlib.file_digest(stream, "blake2b").hexdigest()
                os.fsync(stream.fileno())
            found[file.name] = [file.stat().st_size, total]
    return found


def _as_copied(entry: dict[str, Any]) -> Copied:
    progress = Progress(
        changelog_offset=entry["changelog_offset"],
        next_batch=entry["next_batch"],
        next_ordinal=entry["next_ordinal"],
    )
    sizes = [size for size, _ in entry["files"].values()]
    return Copied(
        entry["name"], entry["index_id"], entry["documents"], progress, len(sizes), sum(sizes)
    )


def size_of(backup: Path) -> int:
    """Return the bytes that a restore of *backup* copies.

    Raises:
        IndexFault: it is no backup, or cannot be read.
    """
    entries = _contents(backup)
    return sum(int(size) for entry in entries for size, _ in entry["files"].values())


def restore(
    backup: Path, state: Path, *, advanced: Callable[[int], None] = lambda _: None
) -> list[Copied]:
    """Bring the indexes in *backup* back into the directory *state*, which must be new or empty.

    Every byte is held against its sum before an index counts as there; *advanced* hears how many.

    Raises:
        IndexFault: it is no backup, not a whole one, or *state* is not usable.
    """
    entries = _contents(backup)
    with file_errors(state):
        refuse_inside(state, backup, what="the backup")
        _make_new(state)
        for entry in entries:
            name = str(entry["name"])
            target = state if name == "index" else state / name
            _bring_back(backup / name, target, entry, advanced)
    return [_as_copied(entry) for entry in entries]


def _contents(backup: Path) -> Sequence[dict[str, Any]]:
    path = backup / CONTENTS_NAME
    with file_errors(backup):
        if not path.is_file():
            raise IndexRefused(f"{backup}: is no finished backup: it has no {CONTENTS_NAME}")
        try:
            contents = json.loads(path.read_bytes())
            entries = contents["indexes"]
            if contents["version"] != VERSION:
                raise IndexRefused(f"{path}: has version {contents['version']}, not {VERSION}")
            names = [entry["name"] for entry in entries]
            if any("/" in name or name.startswith(".") for name in names):
                raise ValueError("a name that is a path")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise IndexDamaged(f"{path}: cannot be read: {error}") from error
    return list(entries)


def _bring_back(
    source: Path, path: Path, entry: dict[str, Any], advanced: Callable[[int], None]
) -> None:
    marker = entry["marker"]
    identity = json.dumps(marker["identity"], sort_keys=True, separators=(",", ":")).encode()
    cap, ids = int(marker["bucket_cap"]), marker.get("ids") is True
    unfinished = Marker(identity, cap, complete=False, ids=ids)
    claim(path)
    lock = Lock(path)
    try:
        write_marker(path, unfinished)
        (path / DATABASE_NAME).mkdir(mode=0o700)
        for name, (size, total) in entry["files"].items():
            _bring_back_file(
                source / DATABASE_NAME / name, path / DATABASE_NAME / name, size, total
            )
            advanced(size)
        write_marker(path, replace(unfinished, complete=True))
    finally:
        lock.release()


def _bring_back_file(source: Path, path: Path, size: int, total: str) -> None:
    """Copy one file, and refuse it if it is not what the backup wrote."""
    summed, written = hashlib.blake2b(), 0
    if not source.is_file():
        raise IndexDamaged(f"{source}: the backup's file is missing")
    with source.open("rb") as stream, path.open("xb") as copy:
        while block := stream.read(MIB):
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
