"""An open RocksDB database: column families of sorted bytes, read by list and written by batch.

All code that touches rocksdict's objects is here. They have three traits to know. An iterator ends
silently at a corrupt block: only its status shows the error. RocksDB's lock is held as long as any
handle or iterator exists. A list of keys is read without the interpreter's lock (GIL).
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

from rocksdict import (
    AccessType,
    Checkpoint,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from streamfilter.index.errors import IndexDamaged, IndexFault, rocks_errors
from streamfilter.index.format import Entries
from streamfilter.index.journal import STANDING, StoredProgress, decode_standing
from streamfilter.index.rocks.column_families import META, Families, families_of, keep_ids
from streamfilter.index.rocks.forks import Holder, abandon_in_children, begin_threads, never_freed
from streamfilter.index.rocks.options import Memory, Tuning, tuned
from streamfilter.killpoints import kill_point

FLUSH_FILES_MAX = 16  # from 20 files in the newest level on, RocksDB slows down writes

STAMP = b"\0"  # the key that each write sets to the same rising number: see `Database`

CHECKPOINT = "checkpoint"  # directory with the files of a backup that is being uploaded

_SUMMED = (
    "estimate-num-keys", "live-sst-files-size", "cur-size-all-mem-tables",
    "estimate-pending-compaction-bytes", "estimate-table-readers-mem", "num-files-at-level0",
    "num-immutable-mem-table",
)  # fmt: skip
_SHARED = (
    "background-errors", "is-write-stopped", "actual-delayed-write-rate", "num-running-compactions",
    "num-running-flushes", "block-cache-usage", "block-cache-pinned-usage",
)  # fmt: skip


class Database:
    """One open database directory. Only reads may come from several threads.

    RocksDB flushes each family on its own. If the MANIFEST lost its end, RocksDB opens the
    database without an error, and one family is older than another: full progress, no buckets.
    So each write puts the same stamp into all families. Families with different stamps are refused.

    The stored progress says which windows are alive. Families of other windows are left over from
    a crash while a window was created or dropped. They are dropped at opening.
    """

    def __init__(
        self,
        path: Path,
        *,
        memory: Memory,
        create: bool,
        notes: Path | None = None,
        windows: Sequence[int] = (0,),
        ids: bool = False,
        logged: bool = True,
    ) -> None:
        """Open *path*; with *create*, make a new database with *windows* and, if wanted, *ids*.

        A write that is not *logged* is lost when the process ends, however it ends.

        With *notes*, an empty directory for RocksDB's own notes, it is opened read-only, without
        its lock, while another process may write it. Reads return the state at opening. Raises
        `IndexFault`: the database is locked, damaged or missing, or a forked child opens it.
        """
        begin_threads(path)
        self.path = path
        self._tuning = tuned(memory, create=create)
        access = AccessType.read_write()
        if notes is None:
            shutil.rmtree(path / CHECKPOINT, ignore_errors=True)  # of an upload that a kill ended
        else:
            access = AccessType.secondary(str(notes))
            # The owner deletes files that it has merged; a file that is open can still be read.
            self._tuning.database.set_max_open_files(-1)
        with rocks_errors(path):
            names = families_of(windows, ids=ids) if create else stored_families(path)
            options = {name: options_of(name, self._tuning) for name in names}
            database = Rdict(str(path), self._tuning.database, options, access)
            self._opened = {name: database.get_column_family(name) for name in names}
            self._handles = {name: database.get_column_family_handle(name) for name in names}
        if not logged:
            unlogged: Any = WriteOptions()  # the stub has a method of this name
            unlogged.disable_wal = True  # half of a write's time
            database.set_write_options(unlogged)
        self._database, self.holder, self._logged = database, Holder(str(path)), logged
        self._batch = partial(WriteBatch, raw_mode=True)
        abandon_in_children(self)
        self.ids = keep_ids(names)
        self._retired: list[str] = []
        self._half_made: set[str] = set()  # of a failed `add_window`, not dropped yet (full disk)
        self._unsure = True  # whether a power cut may bring back the retired families' state
        try:
            self.stamp = self._settled(windows if create else None, writes=notes is None)
            """The number of the last write."""
        except BaseException:
            self.close()
            raise

    def _settled(self, windows: Sequence[int] | None, *, writes: bool) -> int:
        """Drop the families of windows that are not alive; return the stamp of the others."""
        numbers = windows or [each.number for each in self.standing.windows]
        alive = families_of(numbers, ids=self.ids)
        if not self._families.keys() >= set(alive):
            raise IndexDamaged(f"{self.path}: a part of the database is missing")
        stamps = {self.get(name, [STAMP])[0] for name in alive}
        if len(stamps) > 1:
            raise IndexDamaged(f"{self.path}: a part of the database is older than the rest of it")
        self._retired = [name for name in self._families if name not in alive]
        while writes and self._retired:
            self.drop_retired()
        return int.from_bytes(stamps.pop() or b"", "big")

    @property
    def _families(self) -> dict[str, Rdict]:
        """Return the open families. Every use goes through here, to refuse a forked child."""
        self.holder.refuse_child()
        return self._opened

    def abandon(self) -> None:
        """In a forked child: keep the objects alive, so that they are neither used nor closed."""
        for each in (*self._opened.values(), *self._handles.values(), self._database):
            never_freed(each)

    @property
    def standing(self) -> StoredProgress:
        stored = self.get(META, [STANDING])[0]
        return decode_standing(stored) if stored is not None else StoredProgress()

    def add_window(self, number: int) -> None:
        """Make the families of a window that is about to begin, if they do not exist."""
        self._drop_half_made()
        names = Families.of(number, ids=self.ids).names
        made = [name for name in names if name not in self._families]
        batch = self._batch()
        try:
            with rocks_errors(self.path):
                for name in made:
                    options = options_of(name, self._tuning)
                    self._families[name] = self._database.create_column_family(name, options)
                    self._handles[name] = self._database.get_column_family_handle(name)
                    batch.set_default_column_family(self._handles[name])
                    batch.put(STAMP, self.stamp.to_bytes(8, "big"))
                self._database.write(batch)
                for name in made:
                    self._families[name].flush(True)  # `wal_gaps` needs all logs from here on
        except IndexFault:
            self._half_made |= self._families.keys() & made  # they must not pass for complete ones
            with suppress(IndexFault):
                self._drop_half_made()
            raise

    def _drop_half_made(self) -> None:
        for name in sorted(self._half_made):
            self._drop(name)
            self._half_made.remove(name)

    def retire(self, number: int) -> None:
        """Queue the families of a window that is not alive any more for `drop_retired`."""
        self._retired += Families.of(number, ids=self.ids).names
        self._unsure = True

    def drop_retired(self) -> None:
        """Drop a retired family (milliseconds), or until less than a window's are left."""
        if not self._retired:
            return
        if self._unsure:  # the progress that retired the window must survive a power cut
            with rocks_errors(self.path):
                self._database.flush_wal(True)
            self._unsure = False
        left = min(len(self._retired), len(Families.of(0, ids=self.ids).names)) - 1
        while len(self._retired) > left:
            self._drop(self._retired[-1])
            kill_point("window.dropped")
            self._retired.pop()

    def _drop(self, name: str) -> None:
        with rocks_errors(self.path):
            self._database.drop_column_family(name)
        del self._handles[name], self._families[name]

    def get(self, family: str, keys: list[bytes]) -> list[bytes | None]:
        """Return the values of *keys* (rising order is fastest), None for absent keys."""
        if not keys:
            return []
        with rocks_errors(self.path):
            found = self._families[family].get(cast("Any", keys))  # the stub wants a mixed list
        return cast("list[bytes | None]", found)

    def write(self, entries: Entries, *, sync: bool = False) -> None:
        """Write all of *entries* atomically, or none.

        Without *sync*, a power cut may lose the last writes, whole writes from the end. The
        changelog has them, and the stored progress says where to continue.
        """
        batch, stamp = self._batch(), self.stamp + 1
        for family in self._families:
            batch.set_default_column_family(self._handles[family])
            batch.put(STAMP, stamp.to_bytes(8, "big"))
            for begin, end in entries.ranges.get(family, ()):
                batch.delete_range(begin, end, self._handles[family])
            keys, values = entries.keys.get(family, ()), entries.values.get(family, ())
            deque(map(batch.put, keys, values), maxlen=0)
            deque(map(batch.delete, entries.deleted.get(family, ())), maxlen=0)
        with rocks_errors(self.path):
            self._database.write(batch)
            self.stamp = stamp
            if sync:
                self._database.flush_wal(True)

    def items(self, family: str, start: bytes = STAMP + b"\0") -> Iterator[tuple[bytes, bytes]]:
        """Yield all entries of *family* from *start* on, in order, or raise `IndexDamaged`."""
        iterator = self._families[family].iter()
        try:
            with rocks_errors(self.path):
                iterator.seek(start)  # after the stamp, which sorts before all keys
            while iterator.valid():
                yield iterator.key(), iterator.value()
                iterator.next()
            with rocks_errors(self.path):
                iterator.status()
        finally:
            del iterator  # see `last_key`

    def keys(self, family: str, start: bytes, count: int) -> tuple[list[bytes], bool]:
        """Return the next *count* keys, and whether no more follow, or raise `IndexDamaged`."""
        reading: Any = ReadOptions()  # the stub lacks the argument
        reading.fill_cache(False)  # blocks that are read once must not evict blocks in use
        found: Any = None
        behind = self._families[family].iter()
        try:
            with rocks_errors(self.path):
                found = self._families[family].keys(from_key=start, read_opt=reading)
                keys = cast("list[bytes]", list(islice(found, count)))
                # That call ends silently at an unreadable block: the status of a seek there shows.
                behind.seek(keys[-1] + b"\0" if keys else start)
                behind.status()
            return keys, not behind.valid()
        finally:
            del found, behind  # see `last_key`

    def cursor(self, family: str) -> Cursor:
        """Return a cursor, for several searches near given keys."""
        return Cursor(self._families[family].iter(), self.path)

    def last_key(self, family: str) -> bytes | None:
        """Return the greatest key of *family*, or None if it is empty."""
        iterator = self._families[family].iter()
        try:
            with rocks_errors(self.path):
                iterator.seek_to_last()
                iterator.status()
            key = iterator.key() if iterator.valid() else None
        finally:
            # A pending exception keeps this frame alive, and with it the iterator, which holds
            # RocksDB's lock. The index could then not be recreated.
            del iterator
        return None if key == STAMP else key

    def properties(self) -> dict[str, float]:
        """Return RocksDB's own figures by name: summed over the families, or of the database."""
        figures = {
            name: sum(self.figure(family, name) for family in self._families) for name in _SUMMED
        }
        figures |= {name: self.figure(META, name) for name in _SHARED}
        figures["write-buffer-usage"] = float(self._tuning.buffers.get_usage())
        return figures

    def figure(self, family: str, name: str) -> float:
        """Return one of RocksDB's own figures of *family*; keys are estimated."""
        with rocks_errors(self.path):
            return float(self._families[family].property_int_value(f"rocksdb.{name}") or 0)

    def flush(self) -> None:
        """Write the buffers in RAM into table files. Unlike `close`, it may raise `DiskFull`."""
        with rocks_errors(self.path):
            for family in self._families.values():
                family.flush(True)

    def close(self) -> None:
        """Release the database and its lock; later calls, and a forked child's, do nothing."""
        if self.holder.forked or not self._opened:
            return
        with suppress(IndexFault), rocks_errors(self.path):
            newest = max(self.figure(name, "num-files-at-level0") for name in self._families)
            if newest >= FLUSH_FILES_MAX or not self._logged:
                # A flush would wait until compaction has caught up, for most of a minute.
                self._database.flush_wal(True)
                self._database.cancel_all_background(True)
        # A handle that exists keeps the lock, so all handles are dropped before the database.
        # Closing also flushes. If that fails (disk full), the log still has the data, and the
        # changelog has what the log lost. So the lock is released in any case.
        self._handles = {}
        opened, self._opened = self._opened, {}
        for handle in (*opened.values(), self._database):
            with suppress(IndexFault), rocks_errors(self.path):
                handle.close()


class Cursor:
    """A position in a family. Drop it soon: it keeps old files and RocksDB's lock."""

    def __init__(self, iterator: RdictIter, path: Path) -> None:
        self._iterator, self._path = iterator, path

    def at_or_before(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the entry with the greatest key that is not greater than *key*, or None."""
        with rocks_errors(self._path):
            self._iterator.seek_for_prev(key)
            self._iterator.status()
        if not self._iterator.valid() or self._iterator.key() == STAMP:
            return None
        return self._iterator.key(), self._iterator.value()

    def beginning_with(self, prefix: bytes, most: int, start: bytes = b"") -> list[bytes]:
        """Return the rests, from *start* on, of the first *most* keys with *prefix*; they rise."""
        found: list[bytes] = []
        with rocks_errors(self._path):
            self._iterator.seek(prefix + start)
            while len(found) < most and self._iterator.valid():
                if not (key := self._iterator.key()).startswith(prefix):
                    break
                found.append(key[len(prefix) :])
                self._iterator.next()
            self._iterator.status()
        return found


def checkpoint_of(database: Database) -> Path:
    """Return a directory with links to the files of *database* as they are now.

    It is inside the database's own, which RocksDB ignores; there is one at a time.
    """
    path = database.path / CHECKPOINT
    shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(path.with_suffix(".tmp"), ignore_errors=True)  # RocksDB's, after a kill
    database.holder.refuse_child()
    with rocks_errors(database.path):
        Checkpoint(database._database).create_checkpoint(str(path))
    return path


def stored_families(path: Path) -> list[str]:
    """Return all families of the database at *path*, including those of dead windows."""
    with rocks_errors(path):
        names = Rdict.list_cf(str(path))
    return [META, *sorted(set(names) - {META, "default"})]


def options_of(name: str, tuning: Tuning) -> Options:
    kind = name.partition("-")[0]
    large = {"bands": tuning.bands, "documents": tuning.documents, "ids": tuning.ids}
    return large.get(kind, tuning.small)
