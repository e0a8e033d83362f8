"""The index as plain dictionaries: what RocksDB's is judged by, and all that a test needs.

Nothing here is clever on purpose. It keeps the same promises as `rocks.RocksIndex`, to the
byte of `dump`, and no more of them: it is gone with the process.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from streamfilter.index.format import Lists, decode_documents, encode_buckets, encode_documents
from streamfilter.index.journal import StoredProgress, encode_mark, encode_standing, span_entries
from streamfilter.index.longer import DEPTH, STEPS, cap_at, longer
from streamfilter.index.protocol import (
    FAINT_BELOW,
    I64,
    U8,
    U64,
    Additions,
    Applied,
    Buckets,
    Changes,
    Deeper,
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

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        """Return the buckets of *keys* (n, c), and with *signatures* what full ones turned away."""
        counts = np.zeros(keys.shape, np.uint8)
        full = np.zeros(keys.shape, np.bool_)
        ordinals: list[int] = []
        deeper: list[list[tuple[int, list[int]]]] = [[] for _ in STEPS]
        bands = keys.shape[1] - 1
        for place, key in np.ndenumerate(keys):
            if present is None or present[place]:
                bucket = self._buckets.get(int(key), [])
                counts[place] = len(bucket)
                full[place] = int(key) in self._overflows
                ordinals += bucket
                if signatures is not None and full[place] and place[1] < bands:
                    cell = place[0] * keys.shape[1] + place[1]
                    trail = _trail(key, signatures[place[0]], place[1], bands)
                    for depth, longer_key in enumerate(islice(trail, 1, None)):
                        deeper[depth].append((cell, self._buckets.get(longer_key, [])))
                        if longer_key not in self._overflows:
                            break
        levels = tuple(
            Deeper(
                np.array([cell for cell, _ in level], np.int64),
                np.array([len(bucket) for _, bucket in level], np.int64),
                np.array([ordinal for _, bucket in level for ordinal in bucket], np.int64),
            )
            for level in deeper
            if level
        )
        return Buckets(counts, np.array(ordinals, np.int64), full, levels)

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
        encode_standing(StoredProgress(changes.progress, len(self)))
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
        bands = removals.keys.shape[1] - removals.always
        for row, ordinal in enumerate(removals.ordinals.tolist()):
            removed += self._documents.pop(ordinal, None) is not None
            for column, key in enumerate(removals.keys[row]):
                self._unlist(_trail(key, removals.signatures[row], column, bands), ordinal)
        return removed

    def _unlist(self, trail: Iterator[int], ordinal: int) -> None:
        """Take *ordinal* out of the first bucket of *trail* that lists it."""
        for key in trail:
            if ordinal in self._buckets.get(key, ()):
                self._buckets[key].remove(ordinal)
                if not self._buckets[key] and key not in self._overflows:
                    del self._buckets[key]
                return
            if key not in self._overflows:
                return

    def _add(self, additions: Additions, values: list[bytes]) -> Applied:
        told = Counter[str]()
        bands = additions.keys.shape[1] - additions.always
        documents = additions.documents
        for i, ordinal in enumerate(documents.ordinals.tolist()):
            if ordinal in self._documents:
                continue
            self._documents[ordinal] = values[i]
            signed = bool(documents.set_sizes[i])
            away: set[int] = set()
            depths = [
                self._list(_trail(key, documents.signatures[i], column, bands), ordinal, away)
                for column, key in enumerate(additions.keys[i])
                if signed or column >= bands
            ]
            in_bands = sum(depth is not None for depth in depths[:bands])
            told["documents"] += 1
            told["longer"] += sum(bool(depth) for depth in depths)
            told["overflows"] += depths.count(None)
            told["faint"] += signed and in_bands < min(FAINT_BELOW, bands)
            told["unlisted"] += signed and not in_bands
        return Applied(**told)

    def _list(self, trail: Iterator[int], ordinal: int, away: set[int]) -> int | None:
        """Add *ordinal* to the first bucket of *trail* that has room; return how far down.

        *away* are the buckets that have turned this document away, each of which counts it once.
        """
        for depth, key in enumerate(trail):
            bucket = self._buckets.setdefault(key, [])
            if ordinal not in bucket:
                if len(bucket) >= cap_at(self._cap, depth):
                    if key not in away:
                        self._overflows[key] = self._overflows.get(key, 0) + 1
                        away.add(key)
                    continue
                insort(bucket, ordinal)
            return depth
        return None

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
        yield "progress", b"", encode_standing(StoredProgress(self._progress, len(self)))

    def drop_owed(self) -> None:
        """Do nothing: no write fails here."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _trail(key: np.uint64, signature: U8, column: int, bands: int) -> Iterator[int]:
    """Yield *key* and, if its *column* is of a band, all longer ones."""
    yield int(key)
    trail = np.array([key])
    for depth in range(1, DEPTH + 1) if column < bands else ():
        trail = longer(trail, signature[None], np.array([column]), bands=bands, depth=depth)
        yield int(trail[0])
