"""The index on RocksDB: a cache of the committed changelog that survives the process.

A probe is one read of the sorted, distinct keys of a whole micro-batch. An apply is one
WriteBatch over all families: buckets, documents, marks and progress together, so that after a
crash the database holds the effect of a prefix of the changelog and knows which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from streamfilter.index.absence import PIECE_KEYS, Absence
from streamfilter.index.buckets import (
    Grouped,
    descended,
    encoded_integers,
    found,
    spread,
    taken,
    written,
)
from streamfilter.index.errors import IndexFault
from streamfilter.index.format import (
    Lists,
    decode_buckets,
    decode_documents,
    encode_documents,
)
from streamfilter.index.journal import (
    STANDING,
    StoredProgress,
    decode_mark,
    decode_standing,
    encode_mark,
    encode_standing,
    fact_key,
    numbers_covering,
    span_entries,
)
from streamfilter.index.listing import listed
from streamfilter.index.options import Memory
from streamfilter.index.protocol import (
    I64,
    U8,
    U64,
    Additions,
    Applied,
    Buckets,
    Changes,
    Documents,
    Flags,
    Progress,
    Removals,
)
from streamfilter.index.selection import subset
from streamfilter.index.store import BANDS, BATCHES, DOCUMENTS, META, SPANS, Database, Entries
from streamfilter.model import BatchMark, Window


class RocksIndex:
    """`streamfilter.index.protocol.Index` on a database directory that nobody else writes."""

    def __init__(
        self,
        path: Path,
        *,
        slots: int,
        bucket_cap: int,
        memory: Memory | None = None,
        create: bool = False,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the database at *path*; `opening.open_index` also guards what it belongs to.

        Args:
            path: RocksDB's own directory.
            slots: Length of a signature.
            bucket_cap: Ordinals a bucket lists before it only counts, 1 to 255.
            memory: Bounds in bytes.
            create: Make a new database instead of refusing when there is none.
            on_close: Called once, after the database has been released.
        """
        self._slots = slots
        self.bucket_cap = bucket_cap
        memory = memory or Memory()
        self._store = Database(path, memory=memory, create=create)
        self._on_close: Callable[[], None] | None = on_close
        self._owed: tuple[Progress, IndexFault] | None = None
        try:
            self._standing, self._highest = self._stored_standing()
            self._absence = Absence(self._store, bytes_max=memory.front_bytes)
        except BaseException:
            self._release()
            raise

    def _stored_standing(self) -> tuple[StoredProgress, int]:
        """Return how far the database has come, and its highest ordinal (-1: none)."""
        stored = self._store.get(META, [STANDING])[0]
        standing = decode_standing(stored) if stored is not None else StoredProgress()
        last = self._store.last_key(DOCUMENTS)
        return standing, int.from_bytes(last, "big") if last is not None else -1

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        """Return the buckets of *keys* (n, c), and with *signatures* what full ones turned away."""
        self._refuse_while_owing()
        if present is None:
            present = np.ones(keys.shape, np.bool_)
        wanted = present & self._absence.may_hold(keys)
        grouped = Grouped.of(keys[wanted])
        lists = decode_buckets(self._store.get(BANDS, grouped.key_bytes()))
        buckets = spread(taken(lists, grouped.inverse), wanted)
        if signatures is None:
            return buckets
        return descended(buckets, keys, signatures, self._lists_at)

    def _lists_at(self, keys: U64) -> Lists:
        grouped = Grouped.of(keys)
        return taken(self._stored_lists(grouped, grouped.key_bytes()), grouped.inverse)

    def fetch(self, ordinals: I64) -> Documents:
        """Return the documents stored under *ordinals* (distinct, rising); absent ones left out."""
        self._refuse_while_owing()
        values = self._store.get(DOCUMENTS, encoded_integers(ordinals))
        there = np.fromiter((v is not None for v in values), np.bool_, len(values))
        return decode_documents(ordinals[there], [v for v in values if v is not None], self._slots)

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        """Return for each (partition, offset) the mark of the batch that first judged it."""
        self._refuse_while_owing()
        cursor = self._store.cursor(SPANS)
        numbers = numbers_covering(cursor.at_or_before, partitions, offsets)
        wanted = sorted({number for number in numbers if number is not None})
        values = self._store.get(BATCHES, encoded_integers(np.array(wanted, np.uint64)))
        marks = {
            number: decode_mark(number, value)
            for number, value in zip(wanted, values, strict=True)
            if value is not None
        }
        return [None if number is None else marks.get(number) for number in numbers]

    def apply(self, changes: Changes) -> Applied:
        """Write *changes* atomically. Applying an ordinal that is known adds nothing.

        Raises:
            DiskFull: nothing was written. Until these very changes are applied, or somebody
                reads them again (`drop_owed`), reads are refused: what Kafka has promised must be
                seen by the next verdict.
        """
        if self._owed is not None and self._owed[0] != changes.progress:
            self._refuse_while_owing()
        if changes.opens is not None or changes.progress.horizon:
            raise NotImplementedError("an index on disk does not forget yet")
        self._absence.catch_up(PIECE_KEYS)
        entries, applied = self._entries(changes)
        try:
            self._store.write(entries)
        except IndexFault as fault:
            self._owed = changes.progress, fault
            raise
        self._owed = None
        self._standing = self._after(changes, applied)
        if applied.documents:
            self._highest = max(self._highest, int.from_bytes(entries.keys[DOCUMENTS][-1], "big"))
        return applied

    def prepare(self) -> None:
        """Do nothing: windows are still to come here."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """Return the only window."""
        return self._standing.windows

    def drop_owed(self) -> None:
        """Owe nothing of a write that failed: who calls reads it again, from `progress` on."""
        self._owed = None

    def _entries(self, changes: Changes) -> tuple[Entries, Applied]:
        entries, applied = Entries(), Applied()
        additions = self._unknown(changes.additions)
        if additions is not None or changes.removals is not None:
            applied = self._put_changed(entries, additions, changes.removals)
        for mark in changes.marks:
            entries.put(BATCHES, [mark.number.to_bytes(8, "big")], [encode_mark(mark)])
            for key, value in span_entries(mark):
                entries.put(SPANS, [key], [value])
        standing = self._after(changes, applied)
        entries.put(META, [STANDING], [encode_standing(standing)])
        return entries, applied

    def _after(self, changes: Changes, applied: Applied) -> StoredProgress:
        return StoredProgress(changes.progress, len(self) + applied.documents - applied.removed)

    def _unknown(self, additions: Additions | None) -> Additions | None:
        """Return the additions that are not stored yet, in rising order; None if there are none."""
        if additions is None or not len(additions.documents):
            return None
        ordinals = additions.documents.ordinals
        rising = bool((np.diff(ordinals) > 0).all())
        if rising and ordinals[0] > self._highest:
            return additions  # the only case outside of a repeated restore: no read at all
        distinct, first = np.unique(ordinals, return_index=True)
        known = self._store.get(DOCUMENTS, encoded_integers(distinct))
        fresh = first[np.fromiter((v is None for v in known), np.bool_, len(known))]
        return subset(additions, fresh) if len(fresh) else None

    def _put_changed(
        self, entries: Entries, additions: Additions | None, removals: Removals | None
    ) -> Applied:
        first_lists = self._stored_lists
        if additions is not None and additions.buckets is not None and removals is None:
            first_lists = partial(self._probed_lists, additions.buckets, written(additions))
        applied = listed(
            entries, additions, removals, first_lists=first_lists, lists_of=self._stored_lists,
            about_to_write=self._absence.add, cap=self.bucket_cap,
        )  # fmt: skip
        if additions is not None:
            documents = additions.documents
            names = encoded_integers(documents.ordinals)
            entries.put(DOCUMENTS, names, encode_documents(documents))
        if removals is None:
            return applied
        leaving = encoded_integers(removals.ordinals)
        values = self._store.get(DOCUMENTS, leaving)
        known = [name for name, value in zip(leaving, values, strict=True) if value is not None]
        entries.delete(DOCUMENTS, known)
        return replace(applied, removed=len(known))

    def _probed_lists(
        self, buckets: Buckets, present: Flags, grouped: Grouped, names: Sequence[bytes]
    ) -> Lists:
        """Return the buckets as a probe of these very keys told them."""
        lists = taken(found(buckets, present), grouped.first)
        full = np.flatnonzero(buckets.full[present][grouped.first])
        # A probe does not tell how many a full bucket has turned away: read those few again.
        values = self._store.get(BANDS, [names[i] for i in full.tolist()])
        lists.overflows[full] = decode_buckets(values).overflows
        return lists

    def _stored_lists(self, grouped: Grouped, names: Sequence[bytes]) -> Lists:
        """Read the buckets of all keys but those that surely have none."""
        held = np.flatnonzero(self._absence.may_hold(grouped.keys)).tolist()
        values: list[bytes | None] = [None] * len(names)
        for i, value in zip(held, self._store.get(BANDS, [names[i] for i in held]), strict=True):
            values[i] = value
        return decode_buckets(values)

    def _refuse_while_owing(self) -> None:
        if self._owed is not None:
            _, fault = self._owed
            raise type(fault)(f"the last write failed and must be applied before all else: {fault}")

    @property
    def progress(self) -> Progress:
        """Return how far the index has come, as last written."""
        return self._standing.progress

    def __len__(self) -> int:
        """Return the number of documents in the index."""
        return self._standing.documents

    def dump(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield (kind, key, value) of everything stored but the identity, in a fixed order.

        Raises:
            IndexDamaged: something cannot be read.
        """
        kinds = {"bucket": BANDS, "document": DOCUMENTS, "batch": BATCHES, "span": SPANS}
        for kind, family in kinds.items():
            for key, value in self._store.items(family):
                yield kind, key, value
        yield "progress", b"", encode_standing(self._standing)

    def fact(self, name: str) -> bytes | None:
        """Return what `remember` stored under *name*."""
        return self._store.get(META, [fact_key(name)])[0]

    def remember(self, name: str, value: bytes) -> None:
        """Store a fact about the index itself, such as its identity, and wait for the disk."""
        entries = Entries()
        entries.put(META, [fact_key(name)], [value])
        self._store.write(entries, sync=True)

    def properties(self) -> dict[str, float]:
        """Return RocksDB's own figures, for the metrics."""
        return self._store.properties() | self._absence.properties()

    def disk(self) -> tuple[int, int]:
        """Return the bytes that the index occupies, and those left on its file system."""
        return self._store.disk_bytes(), self._store.disk_free_bytes()

    def oldest_timestamp(self) -> int:
        """Return the first document's timestamp in milliseconds; -1: unknown, or no document."""
        for _, value in self._store.items(DOCUMENTS):
            return int(decode_documents(np.zeros(1, np.int64), [value], self._slots).timestamps[0])
        return -1

    def compact(self) -> None:
        """Merge all levels of the database (takes time)."""
        self._store.compact()

    def close(self) -> None:
        """Release the directory and its lock; later calls do nothing."""
        if self._on_close is not None:
            self._absence.save()
            self._release()

    def _release(self) -> None:
        on_close, self._on_close = self._on_close, None
        try:
            self._store.close()
        finally:
            if on_close is not None:
                on_close()
