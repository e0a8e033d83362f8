"""Disks: what of an index survives a crash, a power cut, a careless operator.

An index is a `MemoryIndex` that only whole writes reach, and the list of those writes: a power cut
takes some from the end, and what is left is what a shorter life would have written. The port is
`assembly.IndexDirectory`; a handle dies with its process, and a lock is held as RocksDB's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from streamfilter.index.bands.buckets import copies
from streamfilter.index.directory.identity import Identity, decode_identity, differences, mismatch
from streamfilter.index.errors import DiskFull, IndexDamaged, IndexLocked
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Applied, Buckets, Changes, Copies, Documents, Meets, Usage
from streamfilter.model import BatchMark, Window
from streamfilter.similarity.columns import I64, U8, U64, Flags, Widths
from tests.simulator.world import Life, World


class Disk:
    """One index directory."""

    def __init__(self, name: str, *, widths: Widths, cap: int) -> None:
        self.name, self._widths, self._cap = name, widths, cap
        self.damaged = False
        self.holder: Life | None = None
        self.forget()

    def forget(self) -> None:
        """Delete everything."""
        self.identity: Identity | None = None
        self.damaged = False
        self.facts: dict[str, bytes] = {}
        """Survive a power cut: `remember` waits for the disk."""
        self._restart([])

    def _restart(self, writes: list[Changes]) -> None:
        self.index = MemoryIndex(self._widths, bucket_cap=self._cap, ids=True)
        self.writes: list[Changes] = []
        for changes in writes:
            self.write(changes)

    def write(self, changes: Changes) -> Applied:
        self.writes.append(changes)
        return self.index.apply(changes)

    def cut(self, rng: random.Random) -> int:
        """Lose some of the latest writes; return how many."""
        kept = rng.randrange(len(self.writes)) if self.writes else 0
        lost = len(self.writes) - kept
        self._restart(self.writes[:kept])
        return lost

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
        disk.holder = self._life
        return SimIndex(self._world, self._life, disk)

    def wipe(self) -> None:
        self._world.port(self._life, "store.wipe")
        if self._disk.holder is self._life:
            self._world.fail("locked", f"{self._disk.name} is wiped while open")
        self._disk.forget()


class SimIndex:
    """`index.protocol.Index` on a `Disk`, as long as the process lives."""

    def __init__(self, world: World, life: Life, disk: Disk) -> None:
        self._world, self._life, self._disk = world, life, disk
        self._open = True
        self._owed: Progress | None = None
        """Of the write that found no room: nothing else may be done before it, as in RocksDB's."""

    def _port(self, name: str) -> MemoryIndex:
        self._world.port(self._life, name)
        if not self._open:
            self._world.fail("locked", f"{self._disk.name} is used after close")
        return self._disk.index

    def _paid(self, name: str) -> MemoryIndex:
        index = self._port(name)
        if self._owed is not None:
            raise DiskFull(f"{self._disk.name}: the last write failed")
        return index

    def drop_owed(self) -> None:
        if self._owed is not None:
            self._world.tell(self._life.name, "reads again what found no room")
        self._owed = None

    @property
    def bucket_cap(self) -> int:
        return self._disk.index.bucket_cap

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        index = self._paid("index.probe")
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
        return self._disk.index.ids

    def named(self, names: Sequence[bytes], most: int, since: int = 0) -> list[I64]:
        return self._paid("index.named").named(names, most, since)

    def fetch(self, ordinals: I64) -> Documents:
        return self._paid("index.fetch").fetch(ordinals)

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        return self._paid("index.marks").marks_covering(partitions, offsets)

    def mark(self, number: int) -> BatchMark | None:
        return self._paid("index.mark").mark(number)

    def apply(self, changes: Changes) -> Applied:
        """Write all of it, or nothing; a crash just after it finds it written."""
        self._port("index.apply")
        other = self._owed is not None and self._owed != changes.progress
        if other or self._world.chance("disk_full"):
            self._world.tell(self._life.name, "the disk is full")
            self._owed = self._owed or changes.progress
            raise DiskFull(f"{self._disk.name}: full")
        self._owed = None
        self._world.checks.written(self._disk.name, changes)
        applied = self._disk.write(changes)
        if applied.longer:
            self._world.tell(self._life.name, f"goes on under {applied.longer} longer keys")
        return applied

    def prepare(self) -> None:
        self._port("index.prepare").prepare()

    @property
    def windows(self) -> tuple[Window, ...]:
        return self._disk.index.windows

    @property
    def progress(self) -> Progress:
        return self._disk.index.progress

    def __len__(self) -> int:
        return len(self._disk.index)

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
