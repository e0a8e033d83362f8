"""The index on RocksDB: a cache of the committed changelog that survives the process.

A probe reads the sorted, distinct keys of a whole micro-batch with one read per window. An apply is
one WriteBatch over all families: buckets, documents, marks and progress together. So after a crash
the database holds the effect of a prefix of the changelog, and the progress says which prefix.

The same WriteBatch says which windows are alive. After it, the families of a window that is not
alive any more are dropped, one with each later write. After a crash in between, families remain
that the stored progress does not name. They are dropped when the index is opened again.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from streamfilter.index.bands.bloom_filter import passing
from streamfilter.index.errors import CURRENT, DiskFull, IndexFault, IndexRemoved
from streamfilter.index.format import Entries, decode_documents
from streamfilter.index.journal import encode_standing, fact_key
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Applied, Changes, Usage
from streamfilter.index.rocks.column_families import META
from streamfilter.index.rocks.database import Database, checkpoint_of
from streamfilter.index.rocks.index_write import encoded
from streamfilter.index.rocks.options import Memory
from streamfilter.index.rocks.run_filters import fit_filters, load_filters
from streamfilter.index.rocks.stored_index import StoredIndex
from streamfilter.index.rocks.window_runs import WindowRuns
from streamfilter.index.rocks.window_tables import WindowTables
from streamfilter.index.windows import Windows, after
from streamfilter.killpoints import kill_point
from streamfilter.similarity.columns import Widths


class RocksIndex(StoredIndex):
    """`streamfilter.index.protocol.Index` on a database that it alone writes."""

    def __init__(
        self,
        store: Database,
        *,
        widths: Widths,
        bucket_cap: int,
        memory: Memory,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """Read what is in *store*, and own it; `opening.open_index` also checks its identity.

        *on_close* is called once, after the database has been released.
        """
        self._widths = widths
        self.bucket_cap = bucket_cap
        self._store = store
        self._on_close: Callable[[], None] | None = on_close
        self._owed: tuple[Progress, IndexFault] | None = None
        try:
            self._standing = self._store.standing
            self._memory = memory
            self._tables: Sequence[WindowTables] = []
            self._tables = self._tables_of(self.windows)
            load_filters(self.paged, memory.front_bytes)
            self._highest = max(tables.highest() for tables in self._tables)
            if not self._standing.held:  # older versions did not store it: count once
                held = tuple(each.stored(0, self._highest + 1) for each in self._tables)
                self._standing = replace(self._standing, held=held)
        except BaseException:
            self._release()
            raise

    def _tables_of(self, alive: Windows) -> list[WindowTables]:
        known = {each.window: each for each in self._tables}
        return [known.get(each) or WindowTables(self._store, each, self._memory) for each in alive]

    @property
    def _runs(self) -> list[WindowRuns]:
        return [each.runs for each in self._tables]

    @property
    def tables(self) -> Sequence[WindowTables]:
        """Return the tables of each window, unless a write must be applied before all reads."""
        self._refuse_while_owing()
        return self._tables

    def apply(self, changes: Changes) -> Applied:
        """Write *changes* atomically. Applying an ordinal that is known adds nothing.

        After `DiskFull` nothing was written, and reads are refused until the same changes are
        applied or given up (`drop_owed`). The next verdict must see every batch that is committed
        in Kafka.
        """
        if self._owed is not None and self._owed[0] != changes.progress:
            self._refuse_while_owing()
        alive = after(self.windows, self.progress, changes)
        if changes.removals is not None:
            kill_point("forget.begun")
        try:
            self._store.drop_retired()
            tables = self._tables if alive == self.windows else self._begun(alive)
            dropped = [each for each in self._tables if each.window not in alive]
            entries, applied, standing = encoded(
                changes, self._standing, dropped=dropped, alive=tables,
                highest=self._highest, cap=self.bucket_cap,
            )  # fmt: skip
            self._store.write(entries)
        except IndexFault as fault:
            self._owed = changes.progress, fault
            raise
        self._owed = None
        if changes.additions is not None:
            added = changes.additions.documents.ordinals
            self._highest = max(self._highest, int(added.max(initial=-1)))
        self._standing = standing
        for each in tables:
            each.runs.written()
        begun, self._tables = tables is not self._tables, tables
        fit_filters(self.paged, self._memory.front_bytes)
        if begun:
            for each in dropped:
                self._store.retire(each.window.number)
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
        self._store.add_window(self.windows[-1].number + 1)

    def drop_owed(self) -> None:
        self._owed = None

    def _refuse_while_owing(self) -> None:
        if self._owed is not None:
            _, fault = self._owed
            raise type(fault)(f"the last write failed and must be applied before all else: {fault}")

    def dump(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield (kind, key, value) of all but the identity, in order, or raise `IndexDamaged`."""
        for tables in self._tables:
            yield from tables.dump()
        yield "progress", b"", encode_standing(self._standing)

    def remember(self, name: str, value: bytes) -> None:
        entries = Entries()
        entries.put(META, [fact_key(name)], [value])
        self._store.write(entries, sync=True)

    def checkpoint(self) -> Path:
        self._refuse_while_owing()
        return checkpoint_of(self._store)

    def usage(self) -> Usage:
        figures = self._store.properties() | self._figures()
        named = {name.replace("-", "_"): value for name, value in figures.items()}
        return Usage(*_space_of(self._store.path), self._oldest_timestamp(), named)

    def _figures(self) -> dict[str, float]:
        filters = [each for runs in self._runs for each in runs.filters]
        made = [each for each in filters if each is not None]
        paged = self.paged
        written = sum(map(len, paged))
        bits = sum(8 * run.filter.size for run in paged if run.filter is not None)
        return {
            **({"front-density": bits / written} if written else {}),
            "front-bytes": float(sum(each.size for each in made)),
            "front-keys": float(sum(each.keys for each in made)),
            "front-pass-rate": passing(each.pass_rate if each else 1.0 for each in filters),
        }

    def _oldest_timestamp(self) -> int:
        """Return the first document's timestamp in milliseconds; -1: unknown, or no document."""
        for tables in self._tables:
            for _, value in tables.entries(self.progress.horizon):
                documents = decode_documents(np.zeros(1, np.int64), [value], self._widths)
                return int(documents.timestamps[0])
        return -1

    def close(self) -> None:
        if self._on_close is not None and not self._store.holder.forked:
            self._release()

    def _release(self) -> None:
        on_close, self._on_close = self._on_close, None
        try:
            self._store.close()
        finally:
            if on_close is not None:
                on_close()


def end_full_runs(index: RocksIndex) -> None:
    """Write and list what is a full run in memory just after a start, in two writes.

    Its write begins again after each start. So processes that end, or are killed, after a few
    batches would never end it: all buckets would stay in memory, and each start would read them.
    """
    newest = index._tables[-1]
    with suppress(DiskFull):  # the next write meets it, and waits for space
        for each in index._tables:
            while each.runs.full(newest_window=each is newest):
                entries = Entries()
                each.runs.advance(entries, 0, newest_window=each is newest, starting=True)
                index._store.write(entries)
                each.runs.written()
    fit_filters(index.paged, index._memory.front_bytes)


def _space_of(path: Path) -> tuple[int, int]:
    """Return the bytes of a database's files, and the free ones, or raise `IndexRemoved`."""
    total, names = 0, set()
    try:
        for entry in os.scandir(path):
            names.add(entry.name)
            with suppress(FileNotFoundError):  # a compaction has just removed it
                total += entry.stat(follow_symlinks=False).st_size
        free = shutil.disk_usage(path).free
    except FileNotFoundError:
        raise IndexRemoved(f"{path}: was removed while it was open") from None
    if CURRENT not in names:
        raise IndexRemoved(f"{path}: its files were removed while it was open")
    return total, free
