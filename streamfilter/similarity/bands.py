"""Band keys: a band's number and its r slots, mixed to 64 bits.

Two documents are candidates when one band key is equal, so a key must depend on the band and
on every slot: a sum or a prefix collides and was seen to give 3 to 31 % false duplicates. Keys
are made of the signature's stored bytes, so that a restore recomputes them from what the
changelog keeps; two different slots agree in 8 bits once in 256, which adds a sliver of
candidates and removes none.

With the layout ``random`` a key is made of r slots chosen at random among all, so that there may
be more keys than slots allow bands of their own (125 keys of 3 slots, of 128).
"""

from __future__ import annotations

from itertools import count

import numpy as np

from streamfilter.similarity.hashing import I64, U8, U64, WORD, constants, finalise


class Bander:
    """Makes band keys of 8-bit signatures, and folds fingerprints into one more key."""

    def __init__(
        self, bands: int, rows: int, *, seed: bytes, layout: str = "bands", slots: int = 128
    ) -> None:
        self.bands, self.rows = bands, rows
        self._chosen = None
        if layout == "random":
            self._chosen = chosen_slots(bands, rows, slots, seed=seed).reshape(-1)
        self._salts = constants(seed, "band", bands)
        self._factor, self._fold = constants(seed, "band mix", 2)

    def keys(self, signatures: U8, fingerprints: U8) -> U64:
        """Return (n, bands + 1) keys: band keys, then the folded 128-bit fingerprint."""
        n = len(signatures)
        keys = np.empty((n, self.bands + 1), np.uint64)
        keys[:, : self.bands] = self._band_keys(signatures)
        halves = np.ascontiguousarray(fingerprints).view("<u8").reshape(n, 2)
        keys[:, self.bands] = finalise(halves[:, 0] * self._fold + halves[:, 1])
        return keys

    def _band_keys(self, signatures: U8) -> U64:
        """Mix each band's bytes, eight at a time, onto the band's salt."""
        n, width = len(signatures), -(-self.rows // WORD) * WORD
        padded = np.zeros((n, self.bands, width), np.uint8)
        if self._chosen is None:
            used = signatures[:, : self.bands * self.rows]
        else:
            used = signatures[:, self._chosen]
        padded[:, :, : self.rows] = used.reshape(n, self.bands, self.rows)
        keys: U64 = np.broadcast_to(self._salts, (n, self.bands)).copy()
        words = padded.view("<u8")
        for i in range(words.shape[2]):
            keys = (keys ^ words[:, :, i]) * self._factor
            keys = finalise(keys)
        return keys


def chosen_slots(bands: int, rows: int, slots: int, *, seed: bytes) -> I64:
    """Return (bands, rows) slots, rising in a row, no two rows equal, as *seed* has it.

    By our own hash, not numpy's generator: its streams may change with a version, and a restore
    must make the same keys. There must be enough ways to choose (`Scheme` checks that).
    """
    salt, factor = constants(seed, "layout", 2)
    chosen: dict[tuple[int, ...], None] = {}
    for turn in count():
        numbers = np.arange(turn * bands * slots, (turn + 1) * bands * slots, dtype=np.uint64)
        numbers *= factor
        numbers += salt
        order = np.argsort(finalise(numbers).reshape(bands, slots), axis=1, kind="stable")
        picks = np.sort(order[:, :rows], axis=1).tolist()
        chosen.update(dict.fromkeys(map(tuple, picks)))
        if len(chosen) >= bands:
            break
    return np.array(list(chosen)[:bands], np.int64)
