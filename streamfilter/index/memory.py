"""The index in this process's memory: `RocksIndex` on a sorted dictionary for each family."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path

from msgspec import Struct, field

from streamfilter.index.errors import IndexRefused
from streamfilter.index.format import BUCKET_CAP, Entries
from streamfilter.index.protocol import Usage
from streamfilter.index.rocks.column_families import Families, families_of
from streamfilter.index.rocks.database import Cursor, Database
from streamfilter.index.rocks.forks import Holder
from streamfilter.index.rocks.options import Memory
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.similarity.columns import Widths

RUN_KEYS = 1 << 16  # recent keys of a window: its filter has 256 kB, also in an empty index


class MemoryIndex(RocksIndex):
    """`streamfilter.index.protocol.Index` that does not survive the process."""

    def __init__(self, widths: Widths, *, bucket_cap: int = BUCKET_CAP, ids: bool = False) -> None:
        memory = Memory(run_keys=RUN_KEYS)
        super().__init__(
            MemoryDatabase(ids=ids), widths=widths, bucket_cap=bucket_cap, memory=memory
        )

    def usage(self) -> Usage:
        """Return 0 bytes: nothing is on a disk."""
        return Usage(0, 0)

    def checkpoint(self) -> Path:
        """Refuse: there are no files."""
        raise IndexRefused("an index in memory has no files to copy")


class _Family(Struct, frozen=True):
    rows: dict[bytes, bytes] = field(default_factory=dict)
    _names: list[bytes] = field(default_factory=list)  # the keys of the rows; they rise
    _fresh: list[bytes] = field(default_factory=list)  # keys that are not among them yet

    def put(self, name: bytes, value: bytes) -> None:
        if name not in self.rows:
            self._fresh.append(name)
        self.rows[name] = value

    @property
    def names(self) -> list[bytes]:
        """Return the keys, rising. Fresh ones nearly all go to a few places: the pages of runs."""
        self._fresh.sort()
        while self._fresh:
            place = bisect_left(self._names, self._fresh[-1])
            first = bisect_left(self._fresh, self._names[place - 1]) if place else 0
            self._names[place:place] = self._fresh[first:]
            del self._fresh[first:]
        return self._names

    def delete(self, begin: bytes, end: bytes) -> None:
        names = self.names
        low, high = bisect_left(names, begin), bisect_left(names, end)
        for name in names[low:high]:
            del self.rows[name]
        del names[low:high]


class MemoryDatabase(Database):
    """`Database` without files, threads and faults: each write just happens."""

    def __init__(self, *, ids: bool) -> None:
        self.path, self.holder, self.ids, self.stamp = Path("memory"), Holder("memory"), ids, 0
        self._retired = []
        self._in_memory = {name: _Family() for name in families_of([0], ids=ids)}

    def add_window(self, number: int) -> None:
        for name in Families.of(number, ids=self.ids).names:
            self._in_memory.setdefault(name, _Family())

    def retire(self, number: int) -> None:
        for name in Families.of(number, ids=self.ids).names:
            del self._in_memory[name]

    def get(self, family: str, keys: list[bytes]) -> list[bytes | None]:
        return [self._in_memory[family].rows.get(key) for key in keys]

    def write(self, entries: Entries, *, sync: bool = False) -> None:
        for name, family in self._in_memory.items():
            for begin, end in entries.ranges.get(name, ()):
                family.delete(begin, end)
            for key in entries.deleted.get(name, ()):
                family.delete(key, key + b"\0")
            keys, values = entries.keys.get(name, ()), entries.values.get(name, ())
            for key, value in zip(keys, values, strict=True):
                family.put(key, value)
        self.stamp += 1

    def items(self, family: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        rows, names = self._in_memory[family].rows, self._in_memory[family].names
        return iter([(name, rows[name]) for name in names[bisect_left(names, start) :]])

    def keys(self, family: str, start: bytes, count: int) -> tuple[list[bytes], bool]:
        names = self._in_memory[family].names
        begin = bisect_left(names, start)
        return names[begin : begin + count], begin + count >= len(names)

    def cursor(self, family: str) -> Cursor:
        return _MemoryCursor(self._in_memory[family])

    def last_key(self, family: str) -> bytes | None:
        return next(reversed(self._in_memory[family].names), None)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class _MemoryCursor(Cursor):
    def __init__(self, family: _Family) -> None:
        self._family = family

    def at_or_before(self, key: bytes) -> tuple[bytes, bytes] | None:
        names = self._family.names
        place = bisect_right(names, key)
        name = names[place - 1] if place else None
        return None if name is None else (name, self._family.rows[name])

    def beginning_with(self, prefix: bytes, most: int, start: bytes = b"") -> list[bytes]:
        names = self._family.names
        places = range(bisect_left(names, prefix + start), len(names))
        found = takewhile(lambda name: name.startswith(prefix), map(names.__getitem__, places))
        return [name[len(prefix) :] for name in islice(found, most)]
