"""A database of dictionaries: the real index and its runs stand on it, and crashes are exact.

What survives is what RocksDB promises. A batch of writes is there as a whole, or not at all. A
power cut takes batches from the end, but none that a sync came after. A family that was flushed
keeps that state, even if the batches before it are lost.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from streamfilter.index.journal import STANDING
from streamfilter.index.rocks.column_families import META, families_of
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.forks import Holder

Between = Callable[[str], None]
"""Called before and after each batch, and between the steps of windows that come and go. It may
end the process, or say that the disk is full."""


class Batch:
    """`rocksdict.WriteBatch`."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, bytes, bytes | None]] = []
        """Family, key and value; without a value, the key goes."""
        self.ranges: list[tuple[str, bytes, bytes]] = []
        self.family = ""

    def set_default_column_family(self, family: str) -> None:
        self.family = family

    def put(self, key: bytes, value: bytes) -> None:
        self.changes.append((self.family, key, value))

    def delete(self, key: bytes) -> None:
        self.changes.append((self.family, key, None))

    def delete_range(self, begin: bytes, end: bytes, family: str) -> None:
        assert not any(each == family and begin <= key < end for each, key, _ in self.changes)
        self.ranges.append((family, begin, end))

    def apply(self, families: dict[str, dict[bytes, bytes]]) -> None:
        """Do it in those of *families* that exist."""
        for family, begin, end in self.ranges:
            rows = families.get(family, {})
            for key in [key for key in rows if begin <= key < end]:
                del rows[key]
        for family, key, value in self.changes:
            rows = families.get(family, {})
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value

    @property
    def whole(self) -> bool:
        """Return whether it is a write of the index, not a part of a window that begins."""
        return any((family, key) == (META, STANDING) for family, key, _ in self.changes)


@dataclass(slots=True)
class Files:
    """What a disk has of one database."""

    families: dict[str, dict[bytes, bytes]] = field(
        default_factory=lambda: {name: {} for name in families_of([0], ids=True)}
    )
    batches: list[Batch] = field(default_factory=list)
    flushed: dict[str, tuple[int, dict[bytes, bytes]]] = field(default_factory=dict)
    """Of a family: after so many batches, so it was."""
    synced: int = 0
    """So many batches are safe."""

    @property
    def writes(self) -> list[int]:
        """Return which batches are writes of the index."""
        return [number for number, batch in enumerate(self.batches) if batch.whole]

    def write(self, batch: Batch) -> None:
        self.batches.append(batch)
        batch.apply(self.families)

    def cut(self, kept: int) -> None:
        """Lose all batches but the first *kept*, and those that a sync has saved."""
        del self.batches[max(kept, self.synced) :]
        for name in self.families:
            since, rows = self.flushed.get(name, (0, {}))
            self.families[name] = dict(rows)
            for batch in self.batches[since:]:
                batch.apply({name: self.families[name]})

    def copy(self) -> Files:
        """Return another database with the same content."""
        return Files({name: dict(rows) for name, rows in self.families.items()})


class Rows:
    """`rocksdict.Rdict` of one family."""

    def __init__(self, files: Files, name: str) -> None:
        self._files, self._name = files, name

    @property
    def _rows(self) -> dict[bytes, bytes]:
        return self._files.families[self._name]

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._rows.get(key) for key in keys]

    def iter(self) -> Cursor:
        return Cursor(self._rows)

    def keys(self, from_key: bytes, read_opt: object) -> Iterator[bytes]:
        return (key for key in sorted(self._rows) if key >= from_key)

    def flush(self, wait: bool) -> None:
        self._files.flushed[self._name] = len(self._files.batches), dict(self._rows)

    def property_int_value(self, name: str) -> int:
        return 0

    def close(self) -> None:
        """Do nothing: dictionaries hold no lock."""


class Cursor:
    """`rocksdict.RdictIter`: a family as it is now."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self._rows, self._keys, self._at = dict(rows), sorted(rows), 0

    def seek(self, key: bytes) -> None:
        self._at = bisect_left(self._keys, key)

    def seek_for_prev(self, key: bytes) -> None:
        self._at = bisect_right(self._keys, key) - 1

    def seek_to_last(self) -> None:
        self._at = len(self._keys) - 1

    def valid(self) -> bool:
        return 0 <= self._at < len(self._keys)

    def key(self) -> bytes:
        return self._keys[self._at]

    def value(self) -> bytes:
        return self._rows[self.key()]

    def next(self) -> None:
        self._at += 1

    def status(self) -> None:
        """Do nothing: no block is ever broken."""


class Handle:
    """`rocksdict.Rdict` of a database."""

    def __init__(self, files: Files, between: Between) -> None:
        self._files, self._between = files, between

    def write(self, batch: Batch) -> None:
        self._between("write" if batch.whole else "stamp")
        self._files.write(batch)
        self._between("written")

    def flush_wal(self, sync: bool) -> None:
        self._between("sync")
        self._files.synced = len(self._files.batches)

    def create_column_family(self, name: str, options: object) -> Rows:
        self._between(f"create {name}")
        self._files.families[name] = {}
        return Rows(self._files, name)

    def get_column_family_handle(self, name: str) -> str:
        return name

    def drop_column_family(self, name: str) -> None:
        self._between(f"drop {name}")
        del self._files.families[name]
        self._files.flushed.pop(name, None)

    def close(self) -> None:
        """Do nothing."""


class DictionaryDatabase(Database):
    """`Database` on dictionaries; *between* is asked at each step of a write."""

    def __init__(self, name: str, files: Files, between: Between = lambda step: None) -> None:
        self.path, self.holder, self.ids = Path(name), Holder(name), True
        handle: Any = Handle(files, between)
        names = list(files.families)
        opened: Any = {name: Rows(files, name) for name in names}
        handles: Any = {name: name for name in names}
        tuning: Any = SimpleNamespace(bands=None, documents=None, ids=None, small=None)
        self._database, self._opened, self._handles, self._tuning = handle, opened, handles, tuning
        self._retired, self._half_made, self._unsure = [], set(), True
        batch: Any = Batch
        self._batch = batch
        self.stamp = self._settled(None, writes=True)
