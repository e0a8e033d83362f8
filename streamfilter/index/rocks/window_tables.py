"""Reads of one window in the database, for the owner of the index and for a view."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from streamfilter.index.bands.buckets import Grouped, descended, encoded_integers, spread
from streamfilter.index.format import Lists, encode_buckets
from streamfilter.index.journal import decode_mark, numbers_covering
from streamfilter.index.protocol import Buckets
from streamfilter.index.rocks.column_families import Families
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.options import Memory
from streamfilter.index.rocks.window_runs import WindowRuns
from streamfilter.model import BatchMark, Window
from streamfilter.similarity.columns import I64, U8, U64, Flags

COUNTED_KEYS = 10_000  # keys that are read at a time

ANY = 1 << 62  # more documents than there are


class WindowTables:
    """The tables of one window; a view has no *memory* for the filters of its buckets."""

    def __init__(self, store: Database, window: Window, memory: Memory | None = None) -> None:
        self._store, self.window = store, window
        self.families = Families.of(window.number, ids=store.ids)
        self.runs = WindowRuns(store, self.families.bands, memory)

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        """Return the buckets of *keys* (n, c); *signatures*: those of the longer keys too."""
        wanted = self.runs.may_hold(keys)
        if present is not None:
            wanted &= present
        grouped = Grouped.of(keys[wanted])
        buckets = spread(self.lists(grouped), grouped.inverse, wanted)
        if signatures is None:
            return buckets
        return descended(buckets, keys, signatures, self.lists)

    def lists(self, grouped: Grouped) -> Lists:
        """Read the buckets of all keys."""
        return self.runs.lists(grouped.keys)

    def documents(self, ordinals: I64) -> list[bytes | None]:
        """Return the records of *ordinals*, None for the absent ones."""
        return self._store.get(self.families.documents, encoded_integers(ordinals))

    def stored_flags(self, ordinals: I64) -> Flags:
        values = self.documents(ordinals)
        return np.fromiter((value is not None for value in values), np.bool_, len(values))

    def stored(self, start: int, end: int) -> int:
        """Count the documents from ordinal *start* on and before *end*: reads all their keys."""
        begin, count, ended = max(start, self.window.first_ordinal), 0, False
        while begin < end and not ended:
            # Read at most as many keys as ordinals can exist: a write that forgets waits for this.
            most = min(COUNTED_KEYS, end - begin)
            family = self.families.documents
            names, ended = self._store.keys(family, begin.to_bytes(8, "big"), most)
            count += bisect_left(names, end.to_bytes(8, "big"))
            begin = int.from_bytes(names[-1], "big") + 1 if names else end
        return count

    def highest(self) -> int:
        """Return the highest ordinal; -1: there is none."""
        last = self._store.last_key(self.families.documents)
        return int.from_bytes(last, "big") if last is not None else -1

    def entries(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        for key, value in self._store.items(self.families.documents, start.to_bytes(8, "big")):
            yield int.from_bytes(key, "big"), value

    def named(self, names: Sequence[bytes], most: int = ANY, since: int = 0) -> list[list[int]]:
        """Return the ordinals, from *since* on, of the *most* oldest documents of each of *names*.

        Without a scope, a name finds those of any scopes.
        """
        assert self.families.ids is not None, "this index was made without ids"
        cursor = self._store.cursor(self.families.ids)
        start = since.to_bytes(8, "big") if since else b""
        found = (cursor.beginning_with(each, most, start) for each in names)
        return [sorted(int.from_bytes(rest[-8:], "big") for rest in rests) for rests in found]

    def marks_covering(self, partitions: I64, offsets: I64) -> list[BatchMark | None]:
        """Return for each (partition, offset) the mark of this window that covers it."""
        cursor = self._store.cursor(self.families.spans)
        numbers = numbers_covering(cursor.at_or_before, partitions, offsets)
        wanted = sorted({number for number in numbers if number is not None})
        names = encoded_integers(np.array(wanted, np.uint64))
        values = self._store.get(self.families.batches, names)
        marks = {
            number: decode_mark(number, value)
            for number, value in zip(wanted, values, strict=True)
            if value is not None
        }
        return [None if number is None else marks.get(number) for number in numbers]

    def mark(self, number: int) -> BatchMark | None:
        """Return the mark of a batch, None if the batch is not in this window."""
        (value,) = self._store.get(self.families.batches, [number.to_bytes(8, "big")])
        return None if value is None else decode_mark(number, value)

    def dump(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield (kind, key, value) of everything stored, in a fixed order."""
        names = self.families
        for run in self.runs.all():
            rows = encode_buckets(run.lists(np.arange(len(run))))
            for key, row in zip(encoded_integers(run.keys), rows, strict=True):
                yield "bucket", key, row
        kinds = {"document": names.documents, "id": names.ids}
        for kind, family in (kinds | {"batch": names.batches, "span": names.spans}).items():
            for key, value in self._store.items(family) if family is not None else ():
                yield kind, key, value
