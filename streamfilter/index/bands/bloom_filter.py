"""Bloom filters: each answers "this key was never written" for whole arrays of keys.

A key sets eight bits, two in each of four neighbouring 64-bit words. Its upper half chooses the
words; its product with an odd number chooses the bits, independently. Keys are keyed hashes
already. Most unwritten keys fail at the first word, so a check costs one memory access.

| bits per key | share of the unwritten keys that pass |
|--------------|---------------------------------------|
| 32           | .003 %                                |
| 16           | .15 %                                 |
| 8            | 2.5 %                                 |

Two facts make a filter easy to write and to shrink. Rising keys have rising words, so a range of
keys is a range of words. And two neighbouring blocks, joined by "or", are the block of a filter of
half the size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from streamfilter.similarity.columns import I64, U64, Flags
from streamfilter.similarity.kernel.choice import kernel

WORDS = 4
WORD_BYTES = 8
BLOCK_BYTES = WORDS * WORD_BYTES  # within one line of the processor's cache
BITS_OF_WORD = 2  # two words of three bits pass three times as many, eight of one a third less
BLOCKS_STEP = 64  # a filter's blocks are a multiple of it: it can be halved six times

HOPELESS = 2_000  # keys in a block of 256 bits at which practically all of its bits are set

_HALF = np.uint64(32)
_SIX_BITS = np.uint64(63)
_ONE = np.uint64(1)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio, odd (Knuth, vol. 3, 6.4)
_LOWEST = 64 - 6 * WORDS * BITS_OF_WORD  # the lower bits of a product are mixed least: not used


@dataclass(slots=True)
class BloomFilter:
    """A filter of fixed size."""

    words: U64  # the words of a block are neighbours
    keys: int = 0  # about how many were added

    @classmethod
    def of_keys(cls, keys: int, *, bits: int) -> BloomFilter:
        """Return an empty filter with so many *bits* for each of *keys*."""
        return cls(np.zeros(words_for(keys, bits=bits), np.uint64))

    @property
    def pass_rate(self) -> float:
        """Return the expected share of unwritten keys that pass."""
        return pass_rate_of(self.words.nbytes, self.keys)

    def add(self, keys: U64) -> None:
        """Add *keys*, distinct and rising."""
        if not len(keys):
            return
        self.keys += len(keys)
        if (native := kernel()) is not None and native.add(self.words, keys):
            return
        blocks, spread = _blocks(self.words, keys >> _HALF), keys * _SPREAD
        # Rising keys have rising blocks: keys of one block are next to each other.
        heads = np.flatnonzero(np.diff(blocks, prepend=-1))
        first = blocks[heads]
        for word in range(WORDS):
            self.words[first + word] |= np.bitwise_or.reduceat(_masks(spread, word), heads)

    def words_below(self, key: int) -> int:
        """Return how many of the first words belong to keys below *key* alone."""
        return ((key >> 32) * (len(self.words) // WORDS) >> 32) * WORDS

    def halved(self) -> BloomFilter | None:
        """Return the same set in half the memory; None: it cannot be halved again."""
        blocks = len(self.words) // WORDS
        if blocks % 2:
            return None
        pairs = self.words.reshape(blocks // 2, 2, WORDS)
        return BloomFilter((pairs[:, 0] | pairs[:, 1]).reshape(-1), self.keys)


def words_for(keys: int, *, bits: int) -> int:
    """Return the size of a filter with so many *bits* for each of *keys*."""
    step = 8 * BLOCK_BYTES * BLOCKS_STEP
    return max(1, -(-keys * bits // step)) * BLOCKS_STEP * WORDS


def together(filters: Sequence[BloomFilter | None], keys: U64) -> Flags:
    """Return False for each of *keys* (any shape) that no filter holds. All pass a missing one."""
    held = [each.words for each in filters if each is not None]
    if len(held) < len(filters):
        return np.ones(keys.shape, np.bool_)
    asked = keys.ravel()
    if (native := kernel()) is not None:
        flags = native.together(held, asked)
        if flags is not None:
            return flags.reshape(keys.shape)
    flags, halves, spread = np.zeros(len(asked), np.bool_), asked >> _HALF, asked * _SPREAD
    first = _masks(spread, 0)
    for words in held:
        flags[_passed(words, halves, spread, first)] = True
    return flags.reshape(keys.shape)


def _passed(words: U64, halves: U64, spread: U64, masks: U64) -> I64:
    """Return the places of the keys that a filter perhaps has; *masks* are of the first word."""
    blocks = _blocks(words, halves)
    passed = np.flatnonzero((words.take(blocks) & masks) == masks)
    for word in range(1, WORDS):
        masks = _masks(spread[passed], word)
        passed = passed[(words.take(blocks[passed] + word) & masks) == masks]
    return passed


def passing(rates: Iterable[float]) -> float:
    """Return the share of unwritten keys that pass at least one of the filters with these rates."""
    return 1 - prod(1 - rate for rate in rates)


def pass_rate_of(size: int, keys: int) -> float:
    """Return the expected share of unwritten keys that *size* bytes with *keys* keys let pass."""
    if not size:
        return 1.0
    load = BLOCK_BYTES * keys / size
    if load > HOPELESS:
        return 1.0
    # Keys per block are Poisson distributed: average the probability that all bits are set.
    counts = np.arange(int(load + 12 * load**0.5) + 16)
    factorials = np.cumsum(np.log(np.maximum(counts, 1)))  # their logarithms
    logs = counts * np.log(max(load, 1e-300)) - load - factorials
    taken = 1 - (1 - 1 / 64) ** (counts * BITS_OF_WORD)
    return min(1.0, float((np.exp(logs) * taken ** (WORDS * BITS_OF_WORD)).sum()))


def _blocks(words: U64, halves: U64) -> I64:
    """Return where the keys' blocks begin: evenly spread, in the order of the *halves*."""
    chosen = (halves * np.uint64(len(words) // WORDS)) >> _HALF
    return (chosen * np.uint64(WORDS)).view(np.int64)


def _masks(spread: U64, word: int) -> U64:
    """Return for each key the bits of one word."""
    start = _LOWEST + 6 * BITS_OF_WORD * word
    masks = _ONE << ((spread >> np.uint64(start)) & _SIX_BITS)
    for shift in range(start + 6, start + 6 * BITS_OF_WORD, 6):
        masks |= _ONE << ((spread >> np.uint64(shift)) & _SIX_BITS)
    return masks
