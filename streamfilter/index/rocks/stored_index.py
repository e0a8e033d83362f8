"""Reads of a stored index from the tables of its windows, for its owner and for a view."""

from collections.abc import Sequence

import numpy as np

from streamfilter.index.bands.buckets import copies
from streamfilter.index.format import decode_documents
from streamfilter.index.journal import StoredProgress, fact_key
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Buckets, Copies, Documents, Meets
from streamfilter.index.rocks.column_families import META
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.paged_run import PagedRun
from streamfilter.index.rocks.window_tables import WindowTables
from streamfilter.index.windows import owner, parts_of
from streamfilter.model import BatchMark, Window
from streamfilter.similarity.columns import I64, U8, U64, Flags, Widths


class StoredIndex:
    """`streamfilter.index.protocol.Readable` on an open database."""

    bucket_cap: int
    _store: Database
    _widths: Widths
    _tables: Sequence[WindowTables]
    _standing: StoredProgress

    @property
    def windows(self) -> tuple[Window, ...]:
        return self._standing.windows

    @property
    def progress(self) -> Progress:
        """Return the index's position as last written; of a view: at its opening."""
        return self._standing.progress

    def __len__(self) -> int:
        return self._standing.documents

    @property
    def tables(self) -> Sequence[WindowTables]:
        """Return the tables of each window, the oldest first."""
        return self._tables

    @property
    def paged(self) -> list[PagedRun]:
        return [run for tables in self._tables for run in tables.runs.paged]

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        *older, newest = (each.probe(keys, present, signatures) for each in self.tables)
        return newest.after(older)

    def copies(self, keys: U64, asked: Flags, fingerprints: U8, meets: Meets) -> Copies:
        return copies(self, keys, asked, fingerprints, meets)

    def fetch(self, ordinals: I64) -> Documents:
        tables, values = self.tables, list[bytes | None]()
        parts = parts_of(self.windows, ordinals)
        for each, part in zip(tables, parts, strict=True):
            values += each.documents(ordinals[part])
        asked = ordinals[len(ordinals) - len(values) :]  # the others are of dropped windows
        there = np.fromiter((value is not None for value in values), np.bool_, len(values))
        return decode_documents(asked[there], [v for v in values if v is not None], self._widths)

    @property
    def ids(self) -> bool:
        return self._store.ids

    def named(self, names: Sequence[bytes], most: int, since: int = 0) -> list[I64]:
        found = [each.named(names, most, since) for each in self.tables]
        return [
            np.array([ordinal for part in parts for ordinal in part][:most], np.int64)
            for parts in zip(*found, strict=True)
        ]

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        found = [tables.marks_covering(partitions, offsets) for tables in self.tables]
        return [next((mark for mark in marks if mark), None) for marks in zip(*found, strict=True)]

    def mark(self, number: int) -> BatchMark | None:
        tables, place = self.tables, owner(self.windows, number)
        return tables[place].mark(number) if place >= 0 else None

    def fact(self, name: str) -> bytes | None:
        return self._store.get(META, [fact_key(name)])[0]
