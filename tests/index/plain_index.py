"""An index of plain dictionaries: the reference that the real one is held to, byte for byte.

The code is simple on purpose, and shares none with `RocksIndex` but the formats.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from streamfilter.index.bands.bucket_overflow import DEPTH, cap_at, longer
from streamfilter.index.bands.buckets import copies
from streamfilter.index.bands.overflow_pages import page_cap, page_keys
from streamfilter.index.bucket_levels import Level
from streamfilter.index.format import (
    BUCKET_CAP,
    Lists,
    decode_documents,
    encode_buckets,
    encode_documents,
    id_keys,
    names_of,
)
from streamfilter.index.journal import (
    StoredProgress,
    encode_mark,
    encode_standing,
    span_entries,
)
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import (
    FAINT_BELOW,
    Additions,
    Applied,
    Buckets,
    Changes,
    Copies,
    Documents,
    Meets,
    Removals,
)
from streamfilter.index.windows import Windows, after, owner
from streamfilter.model import EVER, BatchMark, Window
from streamfilter.similarity.columns import I64, U8, U64, Flags, Widths
from tests.support.values import replace


class PlainIndex:
    """What `streamfilter.index.protocol.Index` says of probes, reads and writes, and a `dump`."""

    def __init__(self, widths: Widths, *, bucket_cap: int = BUCKET_CAP, ids: bool = False) -> None:
        self._widths = widths
        self.bucket_cap, self.ids = bucket_cap, ids
        self.progress, self._remembered = Progress(), 0
        self._parts = {EVER: _Part(bucket_cap, ids=ids)}  # the windows that are alive, in order

    @property
    def windows(self) -> tuple[Window, ...]:
        return tuple(self._parts)

    def __len__(self) -> int:
        return self._remembered

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        """Return the buckets of *keys* (n, c), and with *signatures* what full ones turned away."""
        parts = self._parts.values()
        *older, newest = (part.probe(keys, present, signatures) for part in parts)
        return newest.after(older)

    def copies(self, keys: U64, asked: Flags, fingerprints: U8, meets: Meets) -> Copies:
        """Return stored documents that have one of n texts, word for word."""
        return copies(self, keys, asked, fingerprints, meets)

    def fetch(self, ordinals: I64) -> Documents:
        """Return the documents stored under *ordinals* (distinct, rising); absent ones left out."""
        there: list[int] = []
        values: list[bytes] = []
        for ordinal in ordinals.tolist():
            if (part := self._holding(ordinal)) is not None:
                there.append(ordinal)
                values.append(part.documents[ordinal])
        return decode_documents(np.array(there, np.int64), values, self._widths)

    def _holding(self, ordinal: int) -> _Part | None:
        return next((part for part in self._parts.values() if ordinal in part.documents), None)

    def named(self, names: Sequence[bytes], most: int, since: int = 0) -> list[I64]:
        """Return the ordinals, from *since* on, of the *most* oldest documents of each name."""
        assert self.ids, "this index was made without ids"
        parts = self._parts.values()
        return [
            np.array([o for part in parts for o in part.named(name) if o >= since][:most], np.int64)
            for name in names
        ]

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        """Return for each (partition, offset) the mark of the batch that first judged it."""
        places = zip(partitions.tolist(), offsets.tolist(), strict=True)
        found = [[part.mark_covering(*at) for part in self._parts.values()] for at in places]
        return [next((mark for mark in marks if mark is not None), None) for marks in found]

    def mark(self, number: int) -> BatchMark | None:
        """Return the mark of a batch, None if its window is gone."""
        found = (part.mark(number) for part in self._parts.values())
        return next((mark for mark in found if mark is not None), None)

    def apply(self, changes: Changes) -> Applied:
        """Write *changes* atomically. Applying an ordinal that is known adds nothing."""
        # Encode first: data that cannot be stored raises before anything has changed.
        values = encode_documents(changes.additions.documents) if changes.additions else []
        alive = after(self.windows, self.progress, changes)
        encode_standing(StoredProgress(changes.progress, len(self), alive))
        for mark in changes.marks:
            encode_mark(mark)
        for window in alive:
            self._parts.setdefault(window, _Part(self.bucket_cap, ids=self.ids))
        removed = self._remove(changes.removals) if changes.removals else 0
        applied, late = self._add(alive, changes.additions, values)
        for mark in changes.marks:
            if (place := owner(alive, mark.number)) >= 0:
                self._parts[alive[place]].note(mark)
        passed = range(self.progress.horizon, changes.progress.horizon)
        expired = late + sum(self._holding(ordinal) is not None for ordinal in passed)
        self._parts = {window: self._parts[window] for window in alive}
        self._remembered += applied.documents - removed - expired
        self.progress = changes.progress
        return replace(applied, removed=removed, expired=expired)

    def _remove(self, removals: Removals) -> int:
        """Forget documents; return how many of them were remembered."""
        removed = 0
        for row, ordinal in enumerate(removals.ordinals.tolist()):
            if (part := self._holding(ordinal)) is not None:
                part.remove(ordinal, removals, row)
                removed += ordinal >= self.progress.horizon
        return removed

    def _add(
        self, alive: Windows, additions: Additions | None, values: list[bytes]
    ) -> tuple[Applied, int]:
        """Add documents; return the counts, and how many lie before the present horizon."""
        counts, late = Counter[str](), 0
        if additions is None:
            return Applied(), late
        ordinals, names = additions.documents.ordinals, names_of(additions.documents)
        for row, ordinal in enumerate(ordinals.tolist()):
            window = next((each for each in reversed(alive) if each.first_ordinal <= ordinal), None)
            if window is None or ordinal in (part := self._parts[window]).documents:
                continue
            counts += part.add(additions, row, values[row], names[row])
            late += int(ordinals[row] < self.progress.horizon)
        return Applied(**counts), late

    def dump(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield (kind, key, value) of everything stored, as `RocksIndex.dump` does."""
        for part in self._parts.values():
            yield from part.dump()
        held = tuple(len(part.documents) for part in self._parts.values())
        standing = StoredProgress(self.progress, len(self), self.windows, held)
        yield "progress", b"", encode_standing(standing)


class _Part:
    """One window: an index of its own documents."""

    def __init__(self, bucket_cap: int, *, ids: bool) -> None:
        self._cap = bucket_cap
        self._ids: dict[bytes, list[int]] | None = {} if ids else None
        self._buckets: dict[int, list[int]] = {}
        self._overflows: dict[int, int] = {}
        self.documents: dict[int, bytes] = {}
        self._marks: dict[int, BatchMark] = {}
        self._spans: dict[int, dict[int, tuple[int, int]]] = {}

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        asked: list[list[tuple[int, int]]] = [[] for _ in range(DEPTH + 1)]
        columns = keys.shape[1]
        for place, key in np.ndenumerate(keys):
            if present is None or present[place]:
                trail = iter([int(key)])
                if signatures is not None:
                    trail = _trail(key, signatures[place[0]], place[1], columns - 1)
                for depth, each in enumerate(trail):
                    asked[depth].append((place[0] * columns + place[1], each))
                    if each not in self._overflows:
                        break
        levels = [self._level(depth, each) for depth, each in enumerate(asked)]
        shortest, deeper = levels[0], tuple(level for level in levels[1:] if len(level.cells))
        found = np.zeros((3, keys.size), np.int64)
        found[:, shortest.cells] = shortest.counts, shortest.starts, shortest.overflows
        counts, starts, overflows = found.reshape(3, *keys.shape)
        return Buckets(counts.astype(np.uint8), starts, shortest.pool, overflows, deeper)

    def _level(self, depth: int, asked: list[tuple[int, int]]) -> Level:
        """Return what is listed under the key that was asked for in each cell."""
        buckets = [self._buckets.get(key, []) for _, key in asked]
        counts = np.array([len(bucket) for bucket in buckets], np.int64)
        return Level(
            depth,
            np.array([cell for cell, _ in asked], np.int64),
            np.cumsum(counts) - counts,
            counts,
            np.array([ordinal for bucket in buckets for ordinal in bucket], np.int64),
            np.array([self._overflows.get(key, 0) for _, key in asked], np.int64),
        )

    def named(self, name: bytes) -> list[int]:
        """Return which of its documents have this name; without a scope, those of all scopes."""
        named = self._ids or {}
        if name in named:
            return named[name]
        return sorted(o for own, those in named.items() if own.startswith(name) for o in those)

    def note(self, mark: BatchMark) -> None:
        self._marks[mark.number] = mark
        for span in mark.spans:
            if span.start < span.end:
                self._spans.setdefault(span.partition, {})[span.start] = span.end, mark.number

    def mark(self, number: int) -> BatchMark | None:
        return self._marks.get(number)

    def mark_covering(self, partition: int, offset: int) -> BatchMark | None:
        spans = self._spans.get(partition, {})
        starts = sorted(spans)
        place = bisect_right(starts, offset)
        if not place:
            return None
        end, number = spans[starts[place - 1]]
        return self._marks[number] if offset < end else None

    def remove(self, ordinal: int, removals: Removals, row: int) -> None:
        bands = removals.keys.shape[1] - removals.always
        del self.documents[ordinal]
        if self._ids is not None:
            for name in removals.names[row]:
                self._ids[name].remove(ordinal)
        for column, key in enumerate(removals.keys[row]):
            if column < bands:
                trail = _trail(key, removals.signatures[row], column, bands)
            else:  # the bucket of its whole text, and that bucket's pages
                pages = -(-self._overflows.get(int(key), 0) // page_cap(self._cap))
                trail = iter([int(key), *(_page(int(key), n) for n in range(1, pages + 1))])
            self._unlist(trail, ordinal)

    def _unlist(self, trail: Iterator[int], ordinal: int) -> None:
        """Take *ordinal* out of the first bucket of *trail* that lists it."""
        for key in trail:
            if ordinal in self._buckets.get(key, ()):
                self._buckets[key].remove(ordinal)
                if not self._buckets[key] and key not in self._overflows:
                    del self._buckets[key]
                return

    def add(
        self, additions: Additions, row: int, value: bytes, names: Sequence[bytes]
    ) -> Counter[str]:
        """Add one new document; return the counts of `Applied`."""
        bands = additions.keys.shape[1] - additions.always
        documents, contents = additions.documents, additions.documents.contents
        ordinal, signed = int(documents.ordinals[row]), bool(contents.set_sizes[row])
        self.documents[ordinal] = value
        if self._ids is not None:
            for name in names:
                insort(self._ids.setdefault(name, []), ordinal)
        away: set[int] = set()
        depths = [
            self._list(_trail(key, contents.splitters[row], column, bands), ordinal, away)
            if column < bands
            else self._list_whole(int(key), ordinal, away)
            for column, key in enumerate(additions.keys[row])
            if signed or column >= bands
        ]
        in_bands = sum(depth is not None for depth in depths[:bands])
        return Counter(
            documents=1,
            longer=sum(bool(depth) for depth in depths),
            overflows=depths.count(None),
            faint=int(signed and in_bands < min(FAINT_BELOW, bands)),
            unlisted=int(signed and not in_bands),
        )

    def _list(self, trail: Iterator[int], ordinal: int, away: set[int]) -> int | None:
        """Add *ordinal* to the first bucket with room; full ones count it once, and are *away*."""
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

    def _list_whole(self, key: int, ordinal: int, away: set[int]) -> int:
        """Add *ordinal* to the bucket of its whole text, or to a page."""
        bucket = self._buckets.setdefault(key, [])
        if ordinal in bucket:
            return 0
        turned_away = self._overflows.get(key, 0)
        if not turned_away and len(bucket) < self._cap:
            insort(bucket, ordinal)
            return 0
        if key not in away:
            self._overflows[key] = turned_away + 1
            away.add(key)
            page = _page(key, 1 + turned_away // page_cap(self._cap))
            insort(self._buckets.setdefault(page, []), ordinal)
        return 0

    def dump(self) -> Iterator[tuple[str, bytes, bytes]]:
        keys = sorted(self._buckets)
        lists = Lists(
            np.array([len(self._buckets[key]) for key in keys], np.int64),
            np.array([ordinal for key in keys for ordinal in self._buckets[key]], np.int64),
            np.array([self._overflows.get(key, 0) for key in keys], np.int64),
        )
        for key, value in zip(keys, encode_buckets(lists), strict=True):
            yield "bucket", key.to_bytes(8, "big"), value
        for ordinal, value in sorted(self.documents.items()):
            yield "document", ordinal.to_bytes(8, "big"), value
        for name in sorted(self._id_keys()):
            yield "id", name, b""
        for number, mark in sorted(self._marks.items()):
            yield "batch", number.to_bytes(8, "big"), encode_mark(mark)
        marks = self._marks.values()
        for start, end in sorted(entry for mark in marks for entry in span_entries(mark)):
            yield "span", start, end

    def _id_keys(self) -> Iterator[bytes]:
        for name, ordinals in (self._ids or {}).items():
            yield from id_keys([(name,)] * len(ordinals), ordinals)


def _page(key: int, number: int) -> int:
    return int(page_keys(np.array([key], np.uint64), np.array([number]))[0])


def _trail(key: np.uint64, signature: U8, column: int, bands: int) -> Iterator[int]:
    """Yield *key* and, if its *column* is of a band, all longer ones."""
    yield int(key)
    trail = np.array([key])
    for depth in range(1, DEPTH + 1) if column < bands else ():
        trail = longer(trail, signature[None], np.array([column]), bands=bands, depth=depth)
        yield int(trail[0])
