"""Band keys: a band's number and its r slots, mixed to 64 bits.

Two documents are candidates if one band key is equal. So a key must depend on the band and on every
slot: a sum or a prefix of the slots collides, and gave 3 to 31 % false duplicates. A key is a
multilinear hash with constants of its band. Two keys that differ in a slot or in the band are equal
under one seed in 2^64. Keys are made from the stored bytes of a signature, so that a restore
recomputes them from the changelog. Two different slots have the same stored byte once in 256. That
adds a few candidates and removes none.

With the layout ``random`` each key is made of r slots chosen at random. So keys may share slots,
and there may be more keys than separate bands: 125 keys of 3 slots, from 128 slots.
"""

from itertools import count

import numpy as np

from streamfilter.similarity.columns import I64, U8, U64
from streamfilter.similarity.hashing import WORD, Multilinear, constants, finalise, spread, uniform

FINGERPRINT_WORDS = 2  # a fingerprint has 128 bits


class Bander:
    """Makes band keys of 8-bit signatures, and folds fingerprints into one more key."""

    def __init__(
        self, bands: int, rows: int, *, seed: bytes, layout: str = "bands", slots: int = 128
    ) -> None:
        self.bands, self.rows = bands, rows
        self._chosen = None
        if layout == "random":
            self._chosen = chosen_slots(bands, rows, slots, seed=seed).reshape(-1)
        self._starts = uniform(seed, "band", 2 * bands).reshape(bands, 2)
        self._mix = Multilinear(-(-rows // WORD), seed=seed, purpose="band mix")
        self._fold = Multilinear(FINGERPRINT_WORDS, seed=seed, purpose="fold")
        self._fold_start = uniform(seed, "fold start", 2)

    def keys(self, signatures: U8, fingerprints: U8) -> U64:
        """Return (n, bands + 1) keys: band keys, then the folded 128-bit fingerprint."""
        n = len(signatures)
        keys = np.empty((n, self.bands + 1), np.uint64)
        keys[:, : self.bands] = self._band_keys(signatures)
        words = np.ascontiguousarray(fingerprints).view("<u8").reshape(n, FINGERPRINT_WORDS)
        keys[:, self.bands] = self._fold([*words.T], self._fold_start)
        return spread(keys)

    def _band_keys(self, signatures: U8) -> U64:
        """Hash each band's bytes, eight at a time, onto the band's own start."""
        n, width = len(signatures), -(-self.rows // WORD) * WORD
        padded = np.zeros((n, self.bands, width), np.uint8)
        if self._chosen is None:
            used = signatures[:, : self.bands * self.rows]
        else:
            used = signatures[:, self._chosen]
        padded[:, :, : self.rows] = used.reshape(n, self.bands, self.rows)
        words = padded.view("<u8").reshape(n * self.bands, width // WORD)  # n may be 0
        starts = np.broadcast_to(self._starts, (n, *self._starts.shape)).reshape(-1, 2)
        return self._mix([*words.T], starts).reshape(n, self.bands)


def chosen_slots(bands: int, rows: int, slots: int, *, seed: bytes) -> I64:
    """Return (bands, rows) slots, chosen by *seed*, ascending in a row, no two rows equal.

    The choice uses our own hash. The streams of numpy's generator may change with a version, and a
    restore must make the same keys. There must be enough combinations (`Scheme` checks that).
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
