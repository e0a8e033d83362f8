"""Keyed 64-bit hashing of columns: constants from a secret seed, a finaliser, and byte spans.

Nobody who lacks the seed can craft texts that collide in a token or a band key. Everything
wraps modulo 2^64, which numpy's unsigned arrays do silently; that is intended here.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import xxhash
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]

WORD = 8
"""Bytes in one 64-bit view."""

VECTOR_BYTES = 32
"""Spans up to this length are hashed as columns; longer ones, which are rare in text and
unbounded in hostile text, one by one with XXH3 (a polynomial hash is weak on long input)."""

MASKS: U64 = np.array([(1 << (8 * n)) - 1 for n in range(8)] + [2**64 - 1], dtype=np.uint64)


@lru_cache(maxsize=64)
def constants(seed: bytes, purpose: str, count: int) -> U64:
    """Return *count* secret odd 64-bit constants for *purpose*, reproducible from *seed*.

    They are shared, and cannot be written to.
    """
    stream = b"".join(
        hashlib.blake2b(
            i.to_bytes(4, "little"), key=seed, person=purpose.encode()[:16], digest_size=64
        ).digest()
        for i in range((count + 7) // 8)
    )
    drawn = np.frombuffer(stream, dtype="<u8")[:count].astype(np.uint64) | np.uint64(1)
    drawn.setflags(write=False)
    return drawn


def finalise(x: U64) -> U64:
    """Mix *x* in place so that every input bit reaches every output bit, and return it.

    The finaliser of splitmix64 (Steele, Lea, Flood 2014), a bijection of 64-bit integers.
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x


class SpanHasher:
    """Hashes byte spans of a buffer: equal bytes give equal hashes, wherever they stand."""

    def __init__(self, seed: bytes) -> None:
        keys = constants(seed, "span", 3)
        self._factor, self._length_factor = keys[0], keys[1]
        self._long_seed = int(keys[2])

    def fixed(self, words: U64, length: int) -> U64:
        """Hash spans of one *length* <= 8, given as masked little-endian words, in place."""
        words ^= np.array([length], np.uint64) * self._length_factor  # an array: scalars warn
        words *= self._factor
        words ^= words >> np.uint64(32)
        return words

    def __call__(self, buffer: bytes, starts: I64, lengths: I64) -> U64:
        """Hash the spans of *buffer*, which has 8 spare bytes at its end."""
        view: U64 = np.ndarray((len(buffer) - WORD + 1,), "<u8", buffer=buffer, strides=(1,))
        words = view[starts] & MASKS[np.minimum(lengths, WORD)]
        words ^= lengths.astype(np.uint64) * self._length_factor
        words *= self._factor
        words ^= words >> np.uint64(32)
        longer = np.flatnonzero(lengths > WORD)
        if longer.size:
            self._continue(words, longer, view, starts[longer], lengths[longer])
            self._replace_long(words, longer, buffer, starts, lengths)
        return words

    def _continue(self, words: U64, rows: I64, view: U64, starts: I64, lengths: I64) -> None:
        """Fold the second to fourth view of the spans *rows* into *words*."""
        for done in range(WORD, VECTOR_BYTES, WORD):
            left = lengths - done
            more = left > 0
            if not more.all():
                rows, starts, lengths, left = rows[more], starts[more], lengths[more], left[more]
            if not rows.size:
                return
            folded = view[starts + done]
            folded &= MASKS[np.minimum(left, WORD)]
            folded += words[rows]
            folded *= self._factor
            folded ^= folded >> np.uint64(32)
            words[rows] = folded

    def _replace_long(
        self, words: U64, longer: I64, buffer: bytes, starts: I64, lengths: I64
    ) -> None:
        """Hash spans above `VECTOR_BYTES` with XXH3 instead."""
        view = memoryview(buffer)
        for i in longer[lengths[longer] > VECTOR_BYTES].tolist():
            span = view[starts[i] : starts[i] + lengths[i]]
            words[i] = xxhash.xxh3_64_intdigest(span, self._long_seed)
