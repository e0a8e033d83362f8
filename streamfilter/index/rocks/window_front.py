"""The front of a window: which keys are surely not in the database.

After an orderly end, the front is loaded from its file. After a crash it is made again from the
keys in the database, a piece with each write. The front answers for the keys that were read; all
keys behind them go to RocksDB. So opening never waits. A written key is never called absent: it was
read from the database, or added to the front before it was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from streamfilter.index.errors import file_errors
from streamfilter.index.protocol import WINDOWS_MAX
from streamfilter.index.rocks import front_file
from streamfilter.index.rocks.bloom_filter import Front
from streamfilter.index.rocks.column_families import Families
from streamfilter.index.rocks.database import Database
from streamfilter.model import EVER, Window
from streamfilter.similarity.columns import U64, Flags

OPENING_KEYS = 1 << 17  # read before opening returns, .1 s: a small index needs no file
PIECE_KEYS = 1 << 13  # read with each write, some milliseconds: 10,000 batches for 5 million


class Fronts:
    """The fronts of the windows that are alive, one each: they share the memory."""

    def __init__(self, store: Database, bytes_max: int) -> None:
        self._store, self._bytes_max = store, bytes_max
        self.made: dict[Window, WindowFront] = {}  # those of the last write

    def of(self, alive: Sequence[Window]) -> dict[Window, WindowFront]:
        """Return the fronts of the windows *alive*. Once they are `made`, writes update them.

        Each front may use its share of the memory. The only window of a new index may use all
        of it. If that front is larger than a share later, it is made again, as after a crash.
        """
        share = self._bytes_max if tuple(alive) == (EVER,) else self._bytes_max // WINDOWS_MAX
        keys = PIECE_KEYS if self.made else OPENING_KEYS
        kept = {window: one for window, one in self.made.items() if one.filter.bytes <= share}
        return {
            window: kept.get(window)
            or WindowFront(self._store, window.number, bytes_max=share, at_once=keys)
            for window in alive
        }

    def properties(self) -> dict[str, float]:
        """Return the fronts' figures, for the metrics."""
        fronts = self.made.values()
        return {
            "front-bytes": float(sum(each.filter.bytes for each in fronts)),
            "front-keys": float(sum(each.filter.keys for each in fronts)),
            "front-pass-rate": 1 - prod(1 - each.pass_rate for each in fronts),
        }


class WindowFront:
    """Shows which keys of one window were never written, without a read from the database."""

    def __init__(
        self, store: Database, window: int, *, bytes_max: int, at_once: int = OPENING_KEYS
    ) -> None:
        """Load the front that the last run saved, or begin to make one; raise `IndexFault`."""
        self._store, self._bands = store, Families.of(window).bands
        self._file = front_file.file_of(store.path, window)
        with file_errors(store.path):
            layers = front_file.take(self._file, stamp=store.stamp, bytes_max=bytes_max)
        expected = int(store.figure(self._bands, "estimate-num-keys")) if layers is None else 0
        self.filter = Front(bytes_max, keys_expected=expected, layers=layers)
        self._unread: int | None = None if layers is not None or not bytes_max else 0
        """The key from which on the database has not been read; None if there is none."""
        self.catch_up(at_once)

    def may_hold(self, keys: U64) -> Flags:
        """Return False for each of *keys* (any shape) that was surely never written."""
        unread = self._unread  # before the front: another thread may probe during a write
        answer = self.filter.may_hold(keys)
        return answer if unread is None else answer | (keys >= np.uint64(unread))

    def add(self, keys: U64) -> None:
        """Add *keys*, distinct and rising, before they are written."""
        self.filter.add(keys)

    def catch_up(self, count: int) -> None:
        """Read the next *count* keys of the database, if any are left, or raise `IndexDamaged`."""
        if self._unread is None:
            return
        names, ended = self._store.keys(self._bands, self._unread.to_bytes(8, "big"), count)
        keys = np.frombuffer(b"".join(names), ">u8").astype(np.uint64)
        self.filter.add(keys)
        self._unread = None if ended else int(keys[-1]) + 1

    def save(self) -> None:
        """Save the front for the next run, if reading the keys again would take longer."""
        if self._unread is None and self.filter.keys > OPENING_KEYS:
            front_file.save(self._file, self.filter.layers, stamp=self._store.stamp)

    @property
    def pass_rate(self) -> float:
        """Return the share of unwritten keys that it does not recognise."""
        share = 1.0 if self._unread is None else self._unread / (1 << 64)
        return 1 - share * (1 - self.filter.pass_rate)
