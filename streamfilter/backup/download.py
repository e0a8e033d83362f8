"""Choose a backup and restore it. Every file's checksum is checked before the index counts."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.backup import manifest
from streamfilter.backup.manifest import FILES, OF_VERSION_1, Copied
from streamfilter.backup.stores import DirectoryStore, MissingObject, Store
from streamfilter.backup.upload import Advanced, Stopping, checked, is_whole, until_stopped
from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    LOCK_NAME,
    Lock,
    claim,
    clear,
    refuse_inside,
    sync_directory,
    write_marker,
)
from streamfilter.index.directory.opening import wipe_index
from streamfilter.index.errors import DiskFull, IndexDamaged, IndexFault, IndexRefused, file_errors
from streamfilter.killpoints import kill_point

THREADS = 4  # that download files of one backup
CANDIDATES_MAX = 50  # backups of one index that are looked at, the newest first


class BackupsFound(Struct, frozen=True):
    """The whole backups of one index, the newest first, and why others are none."""

    whole: list[Copied]
    notes: list[str]

    @property
    def made(self) -> int:
        """Return when the newest whole backup was made, in milliseconds; 0: there is none."""
        return self.whole[0].made if self.whole else 0


def candidates(store: Store, index_id: str) -> BackupsFound:
    found, notes = list[Copied](), list[str]()
    places = manifest.places(store, index_id)[:CANDIDATES_MAX]
    there = store.listing(f"{index_id}/{FILES}") if places else {}
    for place in places:
        try:
            (copied,) = manifest.read(store, place)
        except (IndexDamaged, IndexRefused) as fault:
            notes.append(str(fault))
            continue
        if is_whole(copied, there):
            found.append(copied)
        else:
            notes.append(f"{store.where}/{place}: files of it are missing or cut")
    return BackupsFound(found, notes)


def restorable(store: Store) -> list[Copied]:
    """Return the newest whole backup of each index in *store*, or raise `IndexFault`."""
    notes, by_id = list[str](), dict[str, Copied]()
    with suppress(MissingObject):
        by_id |= {each.index_id: each for each in manifest.read(store, OF_VERSION_1)}
    for index_id in manifest.index_ids(store):
        found = candidates(store, index_id)
        notes += found.notes
        by_id |= {each.index_id: each for each in found.whole[:1]}
    newest = list(by_id.values())
    names = [each.name for each in newest]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        ids = ", ".join(each.index_id for each in newest if each.name in twice)
        raise IndexRefused(
            f"{store.where}: holds backups of several indexes ({ids})\n"
            "    cure: name one with --index-id"
        )
    if not newest:
        raise _none(store, "", notes)
    return newest


def of_index(store: Store, index_id: str) -> list[Copied]:
    known = manifest.INDEX_ID.fullmatch(index_id)
    found = candidates(store, index_id) if known else BackupsFound([], [])
    if not found.whole:
        raise _none(store, f" of {index_id!r:.60}", found.notes)
    return found.whole[:1]


def _none(store: Store, of: str, notes: list[str]) -> IndexRefused:
    return IndexRefused("\n    ".join([f"{store.where}: holds no finished backup{of}", *notes]))


def restore(
    store: Store,
    copies: list[Copied],
    state: Path,
    *,
    advanced: Advanced = lambda _: None,
) -> None:
    """Restore *copies* into the directory *state*, which must be new or empty.

    *advanced* gets the bytes of each block. Raises `IndexFault`: a backup is damaged, or *state*
    is not usable. No half of an index is left then.
    """
    with file_errors(state):
        if isinstance(store, DirectoryStore):
            refuse_inside(state, store.root, what="the backup")
        if not _holds_nothing(state):
            raise IndexRefused(f"{state}: is not empty; name a new directory")
        _refuse_small(state, sum(each.bytes for each in copies))
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = [state if each.name == "index" else state / each.name for each in copies]
    try:
        for copied, path in zip(copies, paths, strict=True):
            fetch(store, copied, path, advanced=advanced)
    except BaseException:
        for path in paths:
            with suppress(IndexFault):
                wipe_index(path)
        raise


def _holds_nothing(path: Path) -> bool:
    if not path.is_dir() or path.is_symlink():
        return not os.path.lexists(path)
    return all(
        each.name == LOCK_NAME or (each.is_dir() and _holds_nothing(each))
        for each in path.iterdir()
    )


def fetch(
    store: Store,
    copied: Copied,
    path: Path,
    *,
    advanced: Advanced = lambda _: None,
    stopping: Stopping = lambda: False,
    threads: int = THREADS,
) -> None:
    """Restore one index into the directory *path*, where there is none. Or leave none there.

    It has no rate, as an upload has one: the service waits for it.
    """
    with file_errors(path):
        _refuse_small(path, copied.bytes)
        claim(path)
        with Lock(path):
            try:
                clear(path)  # the rest of a killed one
                write_marker(path, copied.marker)
                database = path / DATABASE_NAME
                database.mkdir(mode=0o700)
                kill_point("backup.begun")
                _fetch_files(store, copied, database, advanced, stopping, threads)
                sync_directory(database)
                kill_point("backup.restored")
                write_marker(path, replace(copied.marker, complete=True))
            except BaseException:
                clear(path)
                raise


def _fetch_files(
    store: Store,
    copied: Copied,
    database: Path,
    advanced: Advanced,
    stopping: Stopping,
    threads: int,
) -> None:
    """Download the files, several at a time: a checksum, the disk and the store take turns."""
    failed: list[bool] = []
    one = partial(_fetch_file, store, copied, database, lambda: bool(failed) or stopping())
    with ThreadPoolExecutor(threads) as pool:
        try:
            done = pool.map(one, copied.sums) if threads > 1 else map(one, copied.sums)
            for (size, _), _ in zip(copied.sums.values(), done, strict=True):
                advanced(size)
                kill_point("backup.fetched")
        except BaseException:
            failed.append(True)  # the others end now, too
            raise


def _fetch_file(
    store: Store, copied: Copied, database: Path, stopping: Stopping, name: str
) -> None:
    """Download one file, and refuse it if it is not what the backup wrote."""
    source = copied.object_of(name)
    otherwise = f"{store.where}/{source}: is not what the backup wrote; take another backup"
    blocks = checked(until_stopped(store.get(source), stopping), *copied.sums[name], otherwise)
    try:
        with (database / name).open("xb") as copy:
            for block in blocks:
                copy.write(block)
            copy.flush()
            os.fsync(copy.fileno())
    except MissingObject as fault:
        raise IndexDamaged(f"{fault} from the backup; take another backup") from fault


def _refuse_small(path: Path, wanted: int) -> None:
    above = next(each for each in (path, *path.absolute().parents) if each.exists())
    free = shutil.disk_usage(above).free
    if wanted > free:
        raise DiskFull(
            f"{path}: No space left on device: the backup takes {wanted / 1e6:,.1f} MB, and the "
            f"disk has {free / 1e6:,.1f} MB left",
            path,
        )
