"""The index as plain dictionaries: what RocksDB's is judged by, and all that a test needs.

Nothing here is clever on purpose. It keeps the same promises as `rocks.RocksIndex`, to the
byte of `dump`, and no more of them: it is gone with the process.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from streamfilter.index.format import Lists, decode_documents, encode_buckets, encode_documents
from streamfilter.index.journal import Standing, encode_mark, encode_standing, span_entries
from streamfilter.index.protocol import (
    I64,
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
from streamfilter.model import BatchMark


class MemoryIndex:
    """`streamfilter.index.protocol.Index` in this process's memory."""

    def __init__(self, *, slots: int, bucket_cap: int = 8) -> None:
        """Start empty: signatures of *slots* bytes, buckets of at most *bucket_cap* ordinals."""
        self._slots = slots
        self._cap = bucket_cap
        self._buckets: dict[int, list[int]] = {}
        self._overflows: dict[int, int] = {}
        self._documents: dict[int, bytes] = {}
        self._marks: dict[int, BatchMark] = {}
        self._spans: dict[int, dict[int, tuple[int, int]]] = {}
        self._progress = Progress()

    def probe(self, keys: U64, present: Flags | None = None) -> Buckets:
        """Return the buckets of *keys* (n, c); where *present* (n, c) is False, nothing is read."""
        counts = np.zeros(keys.shape, np.uint8)
        ordinals: list[int] = []
        for place, key in np.ndenumerate(keys):
            if present is None or present[place]:
                bucket = self._buckets.get(int(key), [])
                counts[place] = len(bucket)
                ordinals += bucket
        return Buckets(counts, np.array(ordinals, np.int64))

    def fetch(self, ordinals: I64) -> Documents:
        """Return the documents stored under *ordinals* (distinct, rising); absent ones left out."""
        there = [ordinal for ordinal in ordinals.tolist() if ordinal in self._documents]
        values = [self._documents[ordinal] for ordinal in there]
        return decode_documents(np.array(there, np.int64), values, self._slots)

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        """Return for each (partition, offset) the mark of the batch that first judged it."""
        places = zip(partitions.tolist(), offsets.tolist(), strict=True)
        return [self._mark_covering(partition, offset) for partition, offset in places]

    def _mark_covering(self, partition: int, offset: int) -> BatchMark | None:
        spans = self._spans.get(partition, {})
        starts = sorted(spans)
        place = bisect_right(starts, offset)
        if not place:
            return None
        end, number = spans[starts[place - 1]]
        return self._marks[number] if offset < end else None

    def apply(self, changes: Changes) -> Applied:
        """Write *changes* atomically. Applying an ordinal that is known adds nothing."""
        # Encoded first: what cannot be stored raises before anything has changed.
        values = encode_documents(changes.additions.documents) if changes.additions else []
        encode_standing(Standing(changes.progress, len(self)))
        for mark in changes.marks:
            encode_mark(mark)
        removed = self._remove(changes.removals) if changes.removals else 0
        applied = self._add(changes.additions, values) if changes.additions else Applied()
        for mark in changes.marks:
            self._marks[mark.number] = mark
            for span in mark.spans:
                if span.start < span.end:
                    self._spans.setdefault(span.partition, {})[span.start] = span.end, mark.number
        self._progress = changes.progress
        return replace(applied, removed=removed)

    def _remove(self, removals: Removals) -> int:
        removed = 0
        for ordinal, row in zip(removals.ordinals.tolist(), removals.keys.tolist(), strict=True):
            removed += self._documents.pop(ordinal, None) is not None
            for key in row:
                if ordinal in self._buckets.get(key, ()):
                    self._buckets[key].remove(ordinal)
                    self._overflows.pop(key, None)
                    if not self._buckets[key]:
                        del self._buckets[key]
        return removed

    def _add(self, additions: Additions, values: list[bytes]) -> Applied:
        documents = overflows = 0
        signed = (additions.documents.set_sizes > 0).tolist()
        for i, ordinal in enumerate(additions.documents.ordinals.tolist()):
            if ordinal in self._documents:
                continue
            self._documents[ordinal] = values[i]
            documents += 1
            row = additions.keys[i].tolist()
            overflows += sum(
                self._list(key, ordinal)
                for key in set(row if signed[i] else row[-additions.always :])
            )
        return Applied(documents, overflows)

    def _list(self, key: int, ordinal: int) -> bool:
        """Add *ordinal* to the bucket of *key*; return True if an ordinal had to stay out."""
        bucket = self._buckets.setdefault(key, [])
        insort(bucket, ordinal)
        if len(bucket) <= self._cap:
            return False
        del bucket[-1]
        self._overflows[key] = self._overflows.get(key, 0) + 1
        return True

    @property
    def progress(self) -> Progress:
        """Return how far the index has come."""
        return self._progress

    def __len__(self) -> int:
        """Return the number of documents in the index."""
        return len(self._documents)

    def dump(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield (kind, key, value) of everything stored, as `RocksIndex.dump` does."""
        for key, bucket in sorted(self._buckets.items()):
            lists = Lists(
                np.array([len(bucket)]),
                np.array(bucket, np.int64),
                np.array([self._overflows.get(key, 0)]),
            )
            yield "bucket", key.to_bytes(8, "big"), encode_buckets(lists)[0]
        for ordinal, value in sorted(self._documents.items()):
            yield "document", ordinal.to_bytes(8, "big"), value
        for number, mark in sorted(self._marks.items()):
            yield "batch", number.to_bytes(8, "big"), encode_mark(mark)
        marks = self._marks.values()
        for start, end in sorted(entry for mark in marks for entry in span_entries(mark)):
            yield "span", start, end
        yield "progress", b"", encode_standing(Standing(self._progress, len(self)))

    def drop_owed(self) -> None:
        """Do nothing: no write fails here."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
