"""Disks: what of an index survives a crash, a power cut, a careless operator.

An index is production's, with its runs and merges, on a database of dictionaries. Runs are so small
that they are full after a few documents. The port is `assembly.IndexDirectory`; a handle dies
with its process, and a lock is held as RocksDB's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from streamfilter.index.bands.buckets import copies
from streamfilter.index.directory.identity import Identity, decode_identity, differences, mismatch
from streamfilter.index.errors import DiskFull, FormatError, IndexDamaged, IndexLocked
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Applied, Buckets, Changes, Copies, Documents, Meets, Usage
from streamfilter.index.rocks.options import Memory
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.model import BatchMark, Window
from streamfilter.similarity.columns import I64, U8, U64, Flags, Widths
from tests.simulator.dictionaries import Between, DictionaryDatabase, Files
from tests.simulator.world import Crash, Life, World

CRASHES, CRASHES_MOST = 10, 0.1
"""How much more often a process dies at a step of a write than before another call."""


class Disk:
    """One index directory."""

    def __init__(self, name: str, *, widths: Widths, cap: int, memory: Memory) -> None:
        self.name, self._widths, self._cap, self._memory = name, widths, cap, memory
        self.holder: Life | None = None
        self.forget()

    def forget(self) -> None:
        """Delete everything."""
        self.identity: Identity | None = None
        self.damaged = False
        self.facts: dict[str, bytes] = {}
        """Survive a power cut: `remember` waits for the disk."""
        self.files = Files()

    def open(self, files: Files, between: Between = lambda step: None) -> RocksIndex:
        """Return the index in *files*, as a start of a process reads it."""
        return RocksIndex(
            DictionaryDatabase(self.name, files, between),
            widths=self._widths,
            bucket_cap=self._cap,
            memory=self._memory,
        )

    @property
    def index(self) -> RocksIndex:
        """Return what a start would find now."""
        return self.open(self.files.copy())

    def cut(self, rng: random.Random) -> int:
        """Lose some of the latest writes; return how many."""
        writes = self.files.writes
        kept = rng.randrange(len(writes)) if writes else 0
        if writes:
            self.files.cut(writes[kept])
        return len(writes) - len(self.files.writes)

    @property
    def used(self) -> bool:
        return self.index.progress.changelog_offset >= 0


class SimStore:
    """`assembly.IndexDirectory` on a `Disk`."""

    def __init__(self, world: World, life: Life, disk: Disk) -> None:
        self._world, self._life, self._disk = world, life, disk

    @property
    def where(self) -> str:
        return self._disk.name

    def identity(self) -> Identity | None:
        self._world.port(self._life, "store.identity")
        self._check()
        return self._disk.identity

    def _check(self) -> None:
        if self._disk.damaged:
            raise IndexDamaged(f"{self.where}: damaged")

    def decode(self, encoded: bytes) -> Identity:
        return decode_identity(encoded)

    def open(self, identity: Identity) -> SimIndex:
        self._world.port(self._life, "store.open")
        disk = self._disk
        self._check()
        if self._world.chance("disk_full"):
            self._world.tell(self._life.name, "the disk is full at an opening")
            raise DiskFull(f"{disk.name}: full")
        if disk.holder is self._life:
            self._world.fail("locked", f"{disk.name} is opened twice by {self._life.name}")
        if disk.holder is not None and not disk.holder.dead:
            raise IndexLocked(f"{disk.name}: open in {disk.holder.name}")
        if disk.identity is None:
            disk.identity = identity
        if named := differences(disk.identity, identity):
            raise mismatch(disk.name, named)
        index = SimIndex(self._world, self._life, disk)
        disk.holder = self._life
        return index

    def wipe(self) -> None:
        self._world.port(self._life, "store.wipe")
        if self._disk.holder is self._life:
            self._world.fail("locked", f"{self._disk.name} is wiped while open")
        self._disk.forget()


class SimIndex:
    """`index.protocol.Index` on a `Disk`, as long as the process lives."""

    def __init__(self, world: World, life: Life, disk: Disk) -> None:
        self._world, self._life, self._disk = world, life, disk
        self._open, self._full = True, False
        self._index: RocksIndex | None = None
        try:
            self._index = disk.open(disk.files, self._between)
        except (IndexDamaged, FormatError) as error:
            world.fail("state", f"{disk.name} cannot be opened: {error}")

    def _between(self, step: str) -> None:
        """Stand at a step of a write: there is no room for it, or the process dies."""
        world = self._world
        if self._full and (step == "write" or world.writes.random() < 0.3):
            raise Exception("No space left on device")  # as rocksdict does
        rate = min(CRASHES_MOST, CRASHES * world.shape.rates["crash"])
        if rate and not world.calm and world.writes.random() < rate:
            world.tell(self._life.name, f"CRASHES {self._work}: {step}")
            world.kill(self._life)
            raise Crash

    @property
    def _work(self) -> str:
        """Return what is being written."""
        windows = self._index._runs if self._index is not None else []
        merges = [each for runs in windows for each in runs._merges]
        if any(len(each.sources) > 1 for each in merges):
            return "merging runs"
        return "writing a run" if merges else "writing a batch"

    def _port(self, name: str) -> RocksIndex:
        self._world.port(self._life, name)
        if not self._open or self._index is None:
            self._world.fail("locked", f"{self._disk.name} is used after close")
        assert self._index is not None
        return self._index

    def drop_owed(self) -> None:
        assert self._index is not None
        if self._index._owed is not None:
            self._world.tell(self._life.name, "reads again what found no room")
        self._index.drop_owed()

    @property
    def bucket_cap(self) -> int:
        return self._own.bucket_cap

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        index = self._port("index.probe")
        if not self._life.rotted and self._world.chance("rot"):
            self._world.tell(self._life.name, f"reads a broken block of {self._disk.name}")
            self._life.rotted = self._disk.damaged = True
            raise IndexDamaged(f"{self._disk.name}: block checksum mismatch")
        found = index.probe(keys, present, signatures)
        if len(found.deeper) > 1 and found.deeper[1].counts.any():
            self._world.tell(self._life.name, "matches a document under a key of the second split")
        return found

    def copies(self, keys: U64, asked: Flags, fingerprints: U8, meets: Meets) -> Copies:
        return copies(self, keys, asked, fingerprints, meets)

    @property
    def ids(self) -> bool:
        return self._own.ids

    def named(self, names: Sequence[bytes], most: int, since: int = 0) -> list[I64]:
        return self._port("index.named").named(names, most, since)

    def fetch(self, ordinals: I64) -> Documents:
        return self._port("index.fetch").fetch(ordinals)

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        return self._port("index.marks").marks_covering(partitions, offsets)

    def mark(self, number: int) -> BatchMark | None:
        return self._port("index.mark").mark(number)

    def apply(self, changes: Changes) -> Applied:
        """Write all of it, or nothing; a crash at any step finds one of both."""
        index = self._port("index.apply")
        other = index._owed is not None and index._owed[0] != changes.progress
        self._full = not other and self._world.chance("disk_full")
        if not other and not self._full:
            self._world.checks.written(self._disk.name, changes)
        busy = {each.window for each in index._tables if each.runs._merges}
        try:
            applied = index.apply(changes)
        except DiskFull:
            self._world.tell(self._life.name, f"the disk is full, {self._work}")
            raise
        finally:
            self._full = False
        if busy - set(index.windows):
            self._world.tell(self._life.name, "drops a window whose runs are being merged")
        if applied.longer:
            self._world.tell(self._life.name, f"goes on under {applied.longer} longer keys")
        return applied

    def prepare(self) -> None:
        self._port("index.prepare").prepare()

    @property
    def _own(self) -> RocksIndex:
        assert self._index is not None
        return self._index

    @property
    def windows(self) -> tuple[Window, ...]:
        return self._own.windows

    @property
    def progress(self) -> Progress:
        return self._own.progress

    def __len__(self) -> int:
        return len(self._own)

    def fact(self, name: str) -> bytes | None:
        return self._disk.facts.get(name)

    def remember(self, name: str, value: bytes) -> None:
        self._port("index.remember")
        self._disk.facts[name] = value

    def usage(self) -> Usage:
        return Usage(0, 0)

    def close(self) -> None:
        if self._open and self._disk.holder is self._life:
            self._disk.holder = None
        self._open = False
