"""Keyed 64-bit hashing of columns, with a bound for any two values that differ.

The seed is secret, so an author of texts does not know it. A hash is good if any two different
values have equal hashes under a vanishing share of the seeds only. For `Multilinear` that share is
proven: 2^-64. A mixer without a proof is not enough. In "multiply, shift, add the next eight
bytes", the next block cancelled a difference in one high bit under a sixth of all seeds. An
attacker could find such words from the verdicts alone.

Everything wraps modulo 2^64, which numpy's unsigned arrays do silently; that is intended here.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from streamfilter.similarity.columns import I64, U64, Rows
from streamfilter.similarity.kernel.choice import kernel

WORD = 8  # bytes in one 64-bit view

VECTOR_BYTES = 32
"""Spans up to this length are hashed as columns; longer ones, which are rare in text and
unbounded in hostile text, one by one."""

BLOCK = 1 << 15  # values hashed at a time, so that the sums stay in the processor's cache

MASKS: U64 = np.array([(1 << (8 * n)) - 1 for n in range(8)] + [2**64 - 1], dtype=np.uint64)
LOWER = np.uint64(0xFFFFFFFF)
UPPER = np.uint64(0xFFFFFFFF00000000)
HALF = np.uint64(32)


@lru_cache(maxsize=64)
def uniform(seed: bytes, purpose: str, count: int) -> U64:
    """Return *count* secret 64-bit numbers for *purpose*: shared, and not to be written to."""
    stream = b"".join(
        hashlib.blake2b(
            i.to_bytes(4, "little"), key=seed, person=purpose.encode()[:16], digest_size=64
        ).digest()
        for i in range((count + 7) // 8)
    )
    drawn = np.frombuffer(stream, dtype="<u8")[:count].astype(np.uint64)
    drawn.setflags(write=False)
    return drawn


def constants(seed: bytes, purpose: str, count: int) -> U64:
    """Return such numbers made odd: multiplication by an odd factor is a bijection."""
    return uniform(seed, purpose, count) | np.uint64(1)


def finalise(x: U64) -> U64:
    """Mix *x* in place so that every input bit reaches every output bit, and return it.

    The finaliser of splitmix64 (Steele, Lea, Flood 2014), a bijection of 64-bit integers.
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(31)
    return x


def spread(x: U64) -> U64:
    """Mix each half of *x* in place by itself, and return it.

    The finaliser of MurmurHash3 (Appleby), a bijection of 32-bit integers: halves that were
    different stay so, and what is linear in them, as numbers that are counted up, is so no more.
    """
    halves = x.view(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        halves ^= halves >> np.uint32(shift)
        halves *= np.uint32(factor)
    halves ^= halves >> np.uint32(16)
    return x


class Multilinear:
    """Hashes rows of up to *width* 64-bit values under a secret key.

    Two sums c + Σ k_i x_i modulo 2^64 over the halves x_i of the values; the upper half of each is
    half of the hash. Such a sum is strongly universal (Dietzfelbinger 1996; Lemire and Kaser 2014,
    theorem 3.1): over the keys, the hashes of two different rows are independent and uniform. So
    they are equal with probability 2^-64, and in one half with 2^-32, whatever the difference.

    The values are split in halves because the proof needs that. In a product of whole values modulo
    2^64, a difference in their highest bit changes only one bit of the product. The same difference
    in another value then always cancels it.
    """

    def __init__(self, width: int, *, seed: bytes, purpose: str) -> None:
        lower, upper = uniform(seed, purpose, 4 * width).reshape(width, 2, 2).swapaxes(0, 1)
        # Of a value x of halves l and u, k l + m u = k x + (m - k 2^32) u: a half less to cut out.
        self.factors = np.ascontiguousarray(np.stack((lower, upper - (lower << HALF)), axis=1))
        """By value, by what is multiplied (the value, its upper half), by sum."""

    def __call__(self, columns: Sequence[U64], starts: U64) -> U64:
        """Return the hash of each row of *columns*.

        *starts* holds the two secret constants c, for all rows (2,) or for each row (n, 2). Rows of
        different kinds have different constants, so that they are as unlikely to collide.
        """
        hashes = np.empty(len(columns[0]), np.uint64)
        for begin in range(0, len(hashes), BLOCK):
            part = slice(begin, begin + BLOCK)
            some = starts[part] if starts.ndim > 1 else starts
            self._sum([column[part] for column in columns], some, hashes[part])
        return hashes

    def _sum(self, columns: Sequence[U64], starts: U64, first: U64) -> None:
        """Leave the hashes in *first*, which serves as the first sum."""
        second, product = np.empty_like(first), np.empty_like(first)
        first[:], second[:] = starts[..., 0], starts[..., 1]
        for column, factors in zip(columns, self.factors, strict=False):
            for part, pair in zip((column, column >> HALF), factors, strict=True):
                for total, factor in zip((first, second), pair, strict=True):
                    np.multiply(part, factor, out=product)
                    total += product
        first &= UPPER
        second >>= HALF
        first |= second


class SpanHasher:
    """Hashes byte spans of a buffer: equal bytes give equal hashes, wherever they stand.

    Two different spans have equal hashes under one seed in 2^64. Up to 8 bytes, a hash is the bytes
    themselves, XORed with a secret for their length: spans of one length never collide. Up to
    `VECTOR_BYTES` it is multilinear. Above, it is keyed BLAKE2b.
    """

    def __init__(self, seed: bytes) -> None:
        self._masks = uniform(seed, "span mask", WORD + 1)
        self._multilinear = Multilinear(VECTOR_BYTES // WORD, seed=seed, purpose="span")
        self._starts = uniform(seed, "span start", 2 * (VECTOR_BYTES + 1)).reshape(-1, 2)
        key = hashlib.blake2b(seed, person=b"long span").digest()
        self._keyed = hashlib.blake2b(digest_size=WORD, key=key)

    def fixed(self, words: U64, length: int) -> U64:
        """Hash spans of one *length* <= 8, given as masked little-endian words, in place."""
        words ^= self._masks[length : length + 1]  # an array: scalars warn
        return words

    def __call__(self, buffer: bytes, starts: I64, lengths: I64) -> U64:
        """Hash the spans of *buffer*, which has 8 spare bytes at its end."""
        if (native := kernel()) is not None:
            factors = self._multilinear.factors
            made = native.hash(buffer, starts, lengths, self._masks, factors, self._starts)
            if made is not None:
                return self._with_long(buffer, starts, lengths, *made)
        view: U64 = np.ndarray((len(buffer) - WORD + 1,), "<u8", buffer=buffer, strides=(1,))
        short = np.minimum(lengths, WORD)
        hashes = view[starts]
        hashes &= MASKS[short]
        hashes ^= self._masks[short]
        longer = np.flatnonzero(lengths > WORD)
        words = -(-lengths[longer] // WORD)
        for count in range(2, VECTOR_BYTES // WORD + 1):
            rows = longer[words == count]
            if rows.size:
                hashes[rows] = self._of_words(view, starts[rows], lengths[rows], count)
        return self._with_long(
            buffer, starts, lengths, hashes, longer[lengths[longer] > VECTOR_BYTES]
        )

    def _with_long(self, buffer: bytes, starts: I64, lengths: I64, hashes: U64, rows: Rows) -> U64:
        """Put the hashes of the spans in *rows* into *hashes*, and return it."""
        for row in rows.tolist():
            state = self._keyed.copy()
            state.update(memoryview(buffer)[starts[row] : starts[row] + lengths[row]])
            hashes[row] = int.from_bytes(state.digest(), "little")
        return hashes

    def _of_words(self, view: U64, starts: I64, lengths: I64, count: int) -> U64:
        """Hash spans that reach into their word *count*, and not beyond it."""
        columns = [view[starts + WORD * i] for i in range(count)]
        columns[-1] &= MASKS[lengths - WORD * (count - 1)]
        return self._multilinear(columns, self._starts[lengths])
