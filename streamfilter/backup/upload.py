"""Take a backup: upload the files that the store lacks, then publish the manifest, then prune.

A kill at any step leaves files that no manifest names, and the next backup uses or removes them.
Two owners may upload at once (one is about to be fenced): their files have their sums as names, so
neither changes the other's. After the manifest is out, all its files are looked for once more.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.backup import manifest
from streamfilter.backup.manifest import FILES, Copied
from streamfilter.backup.stores import BLOCK, NEW, Store, Stored, StoreUnreachable
from streamfilter.index.errors import IndexDamaged, IndexFault, IndexRefused, file_errors
from streamfilter.killpoints import kill_point

ROUNDS = 3  # checks of the store after the manifest: another process may prune files meanwhile
GRACE_SECONDS = 3600.0
"""A file that no manifest names is kept so long: another owner may be about to name it."""
_NOT_DATA = ("LOCK", "LOG")


Advanced = Callable[[int], None]  # called with the bytes done since its last call
Stopping = Callable[[], bool]


def until_stopped(blocks: Iterable[bytes], stopping: Stopping) -> Iterator[bytes]:
    """Yield *blocks*; raise `Stopped` when the process stops."""
    for block in blocks:
        if stopping():
            raise Stopped
        yield block


class Throttle(Struct, frozen=True):
    """Limits an upload, and stops it."""

    rate: float = float("inf")  # bytes a second
    stopping: Stopping = lambda: False

    def paced(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield *blocks* at the rate; raise `Stopped` when the process stops."""
        begun, done = time.monotonic(), 0
        for block in until_stopped(blocks, self.stopping):
            yield block
            done += len(block)
            while (ahead := done / self.rate - (time.monotonic() - begun)) > 0:
                if self.stopping():
                    raise Stopped
                time.sleep(min(ahead, 1.0))


class Stopped(IndexFault):
    """The process stops, or the task moved: the backup is given up."""


class Uploaded(Struct, frozen=True):
    """One finished backup."""

    copied: Copied
    sent: int  # bytes that the store did not have yet
    notes: tuple[str, ...] = ()  # of the pruning


def sums_of(database: Path, stopping: Stopping) -> dict[str, tuple[int, str]]:
    found = {}
    with file_errors(database):
        files = [each for each in sorted(database.iterdir()) if each.is_file()]
    for file in files:
        if file.name.startswith(_NOT_DATA):
            continue
        summed, size = hashlib.blake2b(), 0
        for block in until_stopped(_blocks(file), stopping):
            summed.update(block)
            size += len(block)
        found[file.name] = size, summed.hexdigest()
    return found


def _blocks(file: Path) -> Iterator[bytes]:
    with file_errors(file), file.open("rb") as stream:
        while block := stream.read(BLOCK):
            yield block


def upload(
    store: Store, database: Path, copied: Copied, throttle: Throttle, *, keep: int | None = None
) -> Uploaded:
    """Upload a closed *database* as *copied*; then delete all but the *keep* newest backups."""
    copied = replace(copied, sums=sums_of(database, throttle.stopping))
    copied = replace(copied, place=manifest.new_place(copied))
    sent = _send_missing(store, database, copied, throttle)
    if throttle.stopping():  # the next one to open the index removes the files that we read
        raise Stopped
    kill_point("backup.uploaded")
    store.put(copied.place, [manifest.encoded(copied)])
    kill_point("backup.published")
    for _ in range(ROUNDS):
        if not (more := _send_missing(store, database, copied, throttle)):
            break
        sent += more
    else:
        store.delete(copied.place)
        raise StoreUnreachable(f"{store.where}: another process deletes what this one uploads")
    return Uploaded(copied, sent, () if keep is None else _pruned(store, copied, keep))


def _pruned(store: Store, newest: Copied, keep: int) -> tuple[str, ...]:
    """Prune; a store that refuses it is no reason to call the new backup a failure."""
    try:
        return prune(store, newest, keep)
    except IndexFault as fault:
        return (f"old backups are not deleted: {fault}",)


def _send_missing(store: Store, database: Path, copied: Copied, throttle: Throttle) -> int:
    there, sent = store.listing(f"{copied.index_id}/{FILES}"), 0
    for name, (size, total) in copied.sums.items():
        known = there.get(total)
        if known is None or known.size != size:
            file = database / name
            otherwise = f"{file}: was read twice, and differs; look at the disk"
            blocks = checked(_blocks(file), size, total, otherwise)
            store.put(copied.object_of(name), throttle.paced(blocks))
            there[total] = Stored(size, 0.0)
            sent += max(size, 1)
            kill_point("backup.file")
    return sent


def checked(blocks: Iterable[bytes], size: int, total: str, otherwise: str) -> Iterator[bytes]:
    """Yield *blocks*; at their end, or beyond *size*, raise `IndexDamaged` if they are others."""
    summed, read = hashlib.blake2b(), 0
    for block in blocks:
        summed.update(block)
        read += len(block)
        yield block
        if read > size:
            break
    if (read, summed.hexdigest()) != (size, total):
        raise IndexDamaged(otherwise)


def is_whole(copied: Copied, there: dict[str, Stored]) -> bool:
    """Return whether all files of *copied* are in the listing of its files, with their sizes."""
    return all(
        (found := there.get(total)) is not None and found.size == size
        for size, total in copied.sums.values()
    )


def prune(store: Store, newest: Copied, keep: int) -> tuple[str, ...]:
    """Delete all but the *keep* newest whole backups, and files that no manifest names.

    The files are listed before the manifests, so a manifest that comes meanwhile is read. If one
    cannot be read (of a newer version), no file is deleted, because it may name any.
    """
    folder = f"{newest.index_id}/{FILES}"
    there, listed = store.listing(folder), store.listing(newest.index_id)
    mine = listed.get(newest.place.rpartition("/")[2])
    if mine is None:
        raise StoreUnreachable(f"{store.where}/{newest.place}: was deleted by another process")
    now = mine.modified  # by the store's clock
    named = {total for _, total in newest.sums.values()}
    wholes, notes = 0, list[str]()
    for name in manifest.newest_first(listed):
        place = f"{newest.index_id}/{name}"
        if place == newest.place:
            wholes += 1
            continue
        try:
            (copied,) = manifest.read(store, place)
        except (IndexDamaged, IndexRefused) as fault:
            notes.append(f"no old file is deleted from {store.where}: {fault}")
            continue
        whole = is_whole(copied, there)
        if wholes >= keep if whole else now - listed[name].modified > GRACE_SECONDS:
            store.delete(place)
            kill_point("backup.pruned")
        else:
            wholes += whole
            named |= {total for _, total in copied.sums.values()}
    halves = {name: found for name, found in listed.items() if NEW.fullmatch(name)}
    _delete_old(store, newest.index_id, halves, now)
    if not notes:
        unnamed = {name: found for name, found in there.items() if name not in named}
        _delete_old(store, folder, unnamed, now)
    return tuple(notes)


def _delete_old(store: Store, folder: str, unused: dict[str, Stored], now: float) -> None:
    for name, found in unused.items():
        if not found.folder and now - found.modified > GRACE_SECONDS:
            store.delete(f"{folder}/{name}")
            kill_point("backup.deleted")
