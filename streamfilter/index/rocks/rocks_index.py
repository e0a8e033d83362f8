"""The index on RocksDB: a cache of the committed changelog that survives the process.

A probe reads the sorted, distinct keys of a whole micro-batch with one read per window. An apply is
one WriteBatch over all families: buckets, documents, marks and progress together. So after a crash
the database holds the effect of a prefix of the changelog, and the progress says which prefix.

The same WriteBatch says which windows are alive. After it, the families of a window that is not
alive any more are dropped, one with each later write. After a crash in between, families remain
that the stored progress does not name. They are dropped when the index is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from streamfilter.index.bands.buckets import copies
from streamfilter.index.directory.lock_and_marker import space_of
from streamfilter.index.errors import IndexFault
from streamfilter.index.format import decode_documents
from streamfilter.index.journal import (
    STANDING,
    HasStoredProgress,
    StoredProgress,
    encode_mark,
    encode_standing,
    fact_key,
    span_entries,
)
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import (
    Additions,
    Applied,
    Buckets,
    Changes,
    Copies,
    Documents,
    Meets,
    Removals,
)
from streamfilter.index.rocks.column_families import META
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.entries import Entries
from streamfilter.index.rocks.options import Memory
from streamfilter.index.rocks.window_front import PIECE_KEYS, Fronts
from streamfilter.index.rocks.window_tables import (
    WindowTables,
    fetch_all,
    named_in,
    probe_all,
    stored_flags,
)
from streamfilter.index.rocks.window_write import put_changed, together
from streamfilter.index.selection import chosen, removals_at, subset
from streamfilter.index.windows import Windows, after, owner, owners
from streamfilter.killpoints import kill_point
from streamfilter.model import BatchMark, Window
from streamfilter.similarity.columns import I64, U8, U64, Flags

NOTHING: I64 = np.zeros(0, np.int64)


class RocksIndex(HasStoredProgress):
    """`streamfilter.index.protocol.Index` on a database directory that it alone writes."""

    def __init__(
        self,
        path: Path,
        *,
        slots: int,
        bucket_cap: int,
        memory: Memory | None = None,
        create: bool = False,
        ids: bool = False,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the database at *path*; `opening.open_index` also checks its identity.

        Args:
            path: RocksDB's own directory.
            slots: Length of a signature.
            bucket_cap: Ordinals that a bucket lists at most, 1 to 255.
            memory: Bounds in bytes.
            create: Make a new database, instead of raising an error if there is none.
            ids: For a new database: documents can be found by id too.
            on_close: Called once, after the database has been released.
        """
        self._slots = slots
        self.bucket_cap = bucket_cap
        memory = memory or Memory()
        self._store = Database(path, memory=memory, create=create, ids=ids)
        self._on_close: Callable[[], None] | None = on_close
        self._owed: tuple[Progress, IndexFault] | None = None
        try:
            self._standing = self._store.standing
            self._fronts = Fronts(self._store, memory.front_bytes)
            self._use(self._tables_of(self.windows))
            self._highest = max(tables.highest() for tables in self._tables)
            if not self._standing.held:  # older versions did not store it: count once
                held = tuple(each.stored(0, self._highest + 1) for each in self._tables)
                self._standing = replace(self._standing, held=held)
        except BaseException:
            self._release()
            raise

    def _tables_of(self, alive: Windows) -> list[WindowTables]:
        """Return the tables of the windows that are *alive*, with their fronts."""
        fronts = self._fronts.of(alive)
        return [WindowTables(self._store, each, absence=fronts[each]) for each in alive]

    def _use(self, tables: list[WindowTables]) -> None:
        """Read and write *tables* from now on; their fronts are updated by every write."""
        self._tables = tables
        self._fronts.keep({each.window: each.absence for each in tables if each.absence})

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        """Return the buckets of *keys* (n, c); *signatures*: those of the longer keys too."""
        self._refuse_while_owing()
        return probe_all(self._tables, keys, present, signatures)

    def copies(self, keys: U64, asked: Flags, fingerprints: U8, meets: Meets) -> Copies:
        """Return stored documents whose text equals one of n texts."""
        return copies(self, keys, asked, fingerprints, meets)

    def fetch(self, ordinals: I64) -> Documents:
        """Return the documents stored under *ordinals* (distinct, rising); absent ones left out."""
        self._refuse_while_owing()
        return fetch_all(self._tables, ordinals, self._slots)

    @property
    def ids(self) -> bool:
        """Return whether the index can find documents by id."""
        return self._store.ids

    def named(self, ids: Sequence[str], most: int) -> list[I64]:
        """Return the ordinals of the *most* oldest stored documents of each of *ids*."""
        self._refuse_while_owing()
        return named_in(self._tables, ids, most)

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        """Return for each (partition, offset) the mark of the batch that first judged it."""
        self._refuse_while_owing()
        found = [tables.marks_covering(partitions, offsets) for tables in self._tables]
        return [next((mark for mark in marks if mark), None) for marks in zip(*found, strict=True)]

    def mark(self, number: int) -> BatchMark | None:
        """Return the mark of a batch, None if its window is dropped."""
        self._refuse_while_owing()
        place = owner(self.windows, number)
        return self._tables[place].mark(number) if place >= 0 else None

    def apply(self, changes: Changes) -> Applied:
        """Write *changes* atomically. Applying an ordinal that is known adds nothing.

        Raises:
            DiskFull: nothing was written. Reads are refused until the same changes are applied, or
                the caller gives them up and reads their input again (`drop_owed`). The next
                verdict must see every batch that is committed in Kafka.
            ValueError: see `protocol.Index.apply`.
        """
        if self._owed is not None and self._owed[0] != changes.progress:
            self._refuse_while_owing()
        alive = after(self.windows, self.progress, changes)
        self._fronts.catch_up(PIECE_KEYS)
        if changes.removals is not None:
            kill_point("forget.begun")
        try:
            self._store.drop_retired()
            tables = self._tables if alive == self.windows else self._begun(alive)
            entries, applied, standing = self._entries(changes, tables)
            self._store.write(entries)
        except IndexFault as fault:
            self._owed = changes.progress, fault
            raise
        self._owed = None
        if changes.additions is not None:
            added = changes.additions.documents.ordinals
            self._highest = max(self._highest, int(added.max(initial=-1)))
        self._standing = standing
        if tables is not self._tables:
            gone = {each.window for each in self._tables} - set(alive)
            self._use(tables)
            for window in gone:
                self._store.retire(window.number)
            kill_point("window.written")
        return applied

    def _begun(self, alive: Windows) -> list[WindowTables]:
        """Return the tables of the windows that are *alive*; one window may be new."""
        newest = alive[-1].number
        if newest > self.windows[-1].number:
            self._store.add_window(newest)
            kill_point("window.begun")
        return self._tables_of(alive)

    def prepare(self) -> None:
        """Make the families of the next window (70 ms), to save this time in the write."""
        self._store.add_window(self.windows[-1].number + 1)

    def drop_owed(self) -> None:
        """Give up a failed write: the caller reads its input again, from `progress` on."""
        self._owed = None

    def _entries(
        self, changes: Changes, tables: list[WindowTables]
    ) -> tuple[Entries, Applied, StoredProgress]:
        """Return the entries of *changes* for the *tables*, their counts, and the new progress."""
        entries, alive = Entries(), tuple(each.window for each in tables)
        additions, removals = self._unknown(changes, tables), self._stored(changes.removals)
        added = additions.documents.ordinals if additions else NOTHING
        removed = removals.ordinals if removals else NOTHING
        homes, old_homes = owners(alive, added), owners(alive, removed)
        written = [
            put_changed(
                entries,
                each,
                chosen(additions, homes == place) if additions else None,
                removals_at(removals, old_homes == place) if removals else None,
                cap=self.bucket_cap,
            )
            for place, each in enumerate(tables)
        ]
        for mark in changes.marks:
            if (place := owner(alive, mark.number)) >= 0:
                names = tables[place].families
                entries.put(names.batches, [mark.number.to_bytes(8, "big")], [encode_mark(mark)])
                for key, value in span_entries(mark):
                    entries.put(names.spans, [key], [value])
        begin, end = self.progress.horizon, changes.progress.horizon
        before = self._held
        held = tuple(
            before.get(window, 0) + each.documents - int((old_homes == place).sum())
            for place, (window, each) in enumerate(zip(alive, written, strict=True))
        )
        passed = self._passed(tables, end) + int((added < end).sum())
        passed -= int(((old_homes == 0) & (removed < end)).sum())
        applied = replace(together(written), removed=int((removed >= begin).sum()))
        living = sum(held) - passed
        expired = len(self) + applied.documents - applied.removed - living
        standing = StoredProgress(changes.progress, living, alive, held)
        entries.put(META, [STANDING], [encode_standing(standing)])
        return entries, replace(applied, expired=expired), standing

    @property
    def _held(self) -> dict[Window, int]:
        """Return how many documents each window holds."""
        return dict(zip(self.windows, self._standing.held, strict=True))

    def _passed(self, tables: list[WindowTables], horizon: int) -> int:
        """Return how many documents the oldest of *tables* holds that lie before *horizon*.

        A horizon may jump by tens of millions of documents after a pause, and each write waits for
        this count. So only the window that contains the horizon is read, and only the smaller side
        of it.
        """
        oldest, held = tables[0], self._held.get(tables[0].window, 0)
        begin, known = oldest.window.first_ordinal, 0
        if oldest.window == self.windows[0]:
            begin, known = max(begin, self.progress.horizon), sum(self._standing.held) - len(self)
        end = tables[1].window.first_ordinal if len(tables) > 1 else self._highest + 1
        if horizon - begin <= end - horizon:
            return known + oldest.stored(begin, horizon)
        return held - oldest.stored(horizon, end)

    def _unknown(self, changes: Changes, tables: list[WindowTables]) -> Additions | None:
        """Return the additions that are not stored yet, in rising order; None if there are none."""
        additions = changes.additions
        if additions is None or not len(additions.documents):
            return None
        ordinals = additions.documents.ordinals
        rising = bool((np.diff(ordinals) > 0).all())
        oldest = max(self._highest + 1, tables[0].window.first_ordinal)
        if rising and ordinals[0] >= oldest:
            return additions  # the only case outside of a repeated restore: nothing is read
        distinct, first = np.unique(ordinals, return_index=True)
        alive = distinct >= tables[0].window.first_ordinal
        distinct, first = distinct[alive], first[alive]
        fresh = first[~stored_flags(tables, distinct)]
        return subset(additions, fresh) if len(fresh) else None

    def _stored(self, removals: Removals | None) -> Removals | None:
        """Return the removals of documents that are stored, in rising order of ordinals."""
        if removals is None:
            return None
        order = np.argsort(removals.ordinals)
        there = stored_flags(self._tables, removals.ordinals[order])
        return removals_at(removals, order[there])

    def _refuse_while_owing(self) -> None:
        if self._owed is not None:
            _, fault = self._owed
            raise type(fault)(f"the last write failed and must be applied before all else: {fault}")

    def dump(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield (kind, key, value) of everything stored but the identity, in a fixed order.

        Raises:
            IndexDamaged: something cannot be read.
        """
        for tables in self._tables:
            yield from tables.dump()
        yield "progress", b"", encode_standing(self._standing)

    def fact(self, name: str) -> bytes | None:
        """Return the value that `remember` stored under *name*."""
        return self._store.get(META, [fact_key(name)])[0]

    def remember(self, name: str, value: bytes) -> None:
        """Store a fact about the index itself, such as its identity, and wait for the disk."""
        entries = Entries()
        entries.put(META, [fact_key(name)], [value])
        self._store.write(entries, sync=True)

    def properties(self) -> dict[str, float]:
        """Return RocksDB's own figures, for the metrics."""
        return self._store.properties() | self._fronts.properties()

    def disk(self) -> tuple[int, int]:
        """Return the bytes that the index occupies, and the bytes free on its file system."""
        return space_of(self._store.path)

    def oldest_timestamp(self) -> int:
        """Return the first document's timestamp in milliseconds; -1: unknown, or no document."""
        for tables in self._tables:
            for _, value in tables.entries(self.progress.horizon):
                documents = decode_documents(np.zeros(1, np.int64), [value], self._slots)
                return int(documents.timestamps[0])
        return -1

    def compact(self) -> None:
        """Merge all levels of the database (takes time)."""
        self._store.compact()

    def close(self) -> None:
        """Release the directory and its lock; later calls, and a forked child's, do nothing."""
        if self._on_close is not None and not self._store.holder.forked:
            self._fronts.save()
            self._release()

    def _release(self) -> None:
        on_close, self._on_close = self._on_close, None
        try:
            self._store.close()
        finally:
            if on_close is not None:
                on_close()
