"""What is surely not in the database: the front, made true at opening and kept true after.

After an orderly end the front comes from its file. After a crash it is made again from the keys
themselves, a piece at each write: up to the piece's end it answers, behind it every key goes to
RocksDB. So opening never waits, and a key that was written is never called absent: it was read
from the database, or added here before it was written.
"""

from __future__ import annotations

import numpy as np

from streamfilter.index import front_file
from streamfilter.index.errors import file_errors
from streamfilter.index.front import Front
from streamfilter.index.protocol import U64, Flags
from streamfilter.index.store import BANDS, Database

OPENING_KEYS = 1 << 17
"""Keys read before opening returns, a tenth of a second: a small index needs no file."""
PIECE_KEYS = 1 << 13
"""Keys read with each write, some milliseconds: 5 million documents take 10,000 batches."""


class Absence:
    """Tells of keys that they were never written, without asking the database."""

    def __init__(self, store: Database, *, bytes_max: int) -> None:
        """Take the front that the last run left, or begin to make one.

        Raises:
            IndexFault: the database or the file cannot be read.
        """
        self._store = store
        with file_errors(store.path):
            layers = front_file.take(store.path, stamp=store.stamp, bytes_max=bytes_max)
        expected = store.estimated_keys(BANDS) if layers is None else 0
        self._front = Front(bytes_max, keys_expected=expected, layers=layers)
        self._unread: int | None = None if layers is not None or not bytes_max else 0
        """The key from which on the database has not been read; None if there is none."""
        self.catch_up(OPENING_KEYS)

    def may_hold(self, keys: U64) -> Flags:
        """Return False for each of *keys* (any shape) that was surely never written."""
        unread = self._unread  # before the front: another thread may probe during a write
        answer = self._front.may_hold(keys)
        return answer if unread is None else answer | (keys >= np.uint64(unread))

    def add(self, keys: U64) -> None:
        """Know of *keys*, distinct and rising, that are about to be written."""
        self._front.add(keys)

    def catch_up(self, count: int) -> None:
        """Read the next *count* keys of the database, if some are left to read.

        Raises:
            IndexDamaged: they cannot be read.
        """
        if self._unread is None:
            return
        names, ended = self._store.keys(BANDS, self._unread.to_bytes(8, "big"), count)
        keys = np.frombuffer(b"".join(names), ">u8").astype(np.uint64)
        self._front.add(keys)
        self._unread = None if ended else int(keys[-1]) + 1

    def save(self) -> None:
        """Leave the front to the next run, where reading the keys again would take longer."""
        if self._unread is None and self._front.keys > OPENING_KEYS:
            front_file.save(self._store.path, self._front.layers, stamp=self._store.stamp)

    def properties(self) -> dict[str, float]:
        """Return the front's figures, for the metrics."""
        share = 1.0 if self._unread is None else self._unread / (1 << 64)
        return {
            "front-bytes": float(self._front.bytes),
            "front-keys": float(self._front.keys),
            "front-pass-rate": 1 - share * (1 - self._front.pass_rate),
        }
