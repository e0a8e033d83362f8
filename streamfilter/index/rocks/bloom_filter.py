"""The front: a Bloom filter in RAM that answers "this key was never written" for whole arrays.

A key sets eight bits, two in each of four neighbouring 64-bit words. Its upper half chooses the
words; its product with an odd number chooses the bits, independently. Keys are keyed hashes
already. Most unwritten keys fail at the first word, so a check costs one memory access.

| bits per key | share of the unwritten keys that pass |
|--------------|---------------------------------------|
| 32           | .003 %                                |
| 18           | .08 %                                 |
| 12           | .5 %                                  |

A key that passes is read from RocksDB, which takes a hundred times as long as the front.

The filter grows in layers, so that a small index has a small filter and no key is hashed again.
Each layer has fifteen times the size of all layers before it, and takes one key per 32 bits. The
last layer that the bound allows takes all further keys: more and more unwritten keys pass then. A
written key is never called absent. With 17 keys a document, 192 MiB are 40 bytes for each of 5
million documents (.09 % pass), or 27 bytes for each of 7.5 million (.5 %).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.columns import U64, Flags

WORDS = 4
WORD_BYTES = 8
BLOCK_BYTES = WORDS * WORD_BYTES  # within one line of the processor's cache
BITS_OF_WORD = 2  # two words of three bits pass three times as many, eight of one a third less
BITS_PER_KEY = 32
SMALLEST_BYTES = 2 << 20  # 30,000 documents
GROWTH = 15  # the layers of the default 192 MiB: 2, 30, 160

HOPELESS = 2_000  # keys in a block of 256 bits at which practically all of its bits are set

_HALF = np.uint64(32)
_SIX_BITS = np.uint64(63)
_ONE = np.uint64(1)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio, odd (Knuth, vol. 3, 6.4)
_LOWEST = 64 - 6 * WORDS * BITS_OF_WORD  # the lower bits of a product are mixed least: not used


@dataclass(slots=True)
class Layer:
    """One filter of fixed size."""

    words: U64  # the words of a block are neighbours
    keys: int = 0  # about how many were added: one that seemed to be present is not counted

    @classmethod
    def of_bytes(cls, size: int) -> Layer:
        """Return an empty layer of at most *size* bytes."""
        return cls(np.zeros(size // BLOCK_BYTES * WORDS, np.uint64))

    @property
    def full(self) -> bool:
        """Return whether further keys should go to another layer."""
        return self.keys * BITS_PER_KEY >= self.words.nbytes * 8

    @property
    def pass_rate(self) -> float:
        """Return the expected share of unwritten keys that pass this layer."""
        return _pass_rate(self.words.nbytes, self.keys)

    def holding(self, spread: U64, halves: U64, masks: U64) -> NDArray[np.intp]:
        """Return the places of the keys that were perhaps added.

        The arguments are the same for all layers: *spread* are the products of the keys, *halves*
        their upper halves, and *masks* their bits of the first word.
        """
        blocks = self._blocks(halves)
        passed = np.flatnonzero((self.words.take(blocks) & masks) == masks)
        for word in range(1, WORDS):
            masks = _masks(spread[passed], word)
            passed = passed[(self.words.take(blocks[passed] + word) & masks) == masks]
        return passed

    def add(self, keys: U64) -> None:
        """Add *keys*, rising."""
        blocks, spread = self._blocks(keys >> _HALF), keys * _SPREAD
        # Rising keys have rising blocks: keys of one block are next to each other.
        heads = np.flatnonzero(np.diff(blocks, prepend=-1))
        first = blocks[heads]
        for word in range(WORDS):
            self.words[first + word] |= np.bitwise_or.reduceat(_masks(spread, word), heads)
        self.keys += len(keys)

    def _blocks(self, halves: U64) -> NDArray[np.int64]:
        """Return where the keys' blocks begin: evenly spread, in the order of the *halves*."""
        chosen = (halves * np.uint64(len(self.words) // WORDS)) >> _HALF
        return (chosen * np.uint64(WORDS)).view(np.int64)


class Front:
    """The set of perhaps written keys, in *bytes_max* bytes; with 0 bytes every key passes."""

    def __init__(
        self, bytes_max: int, *, keys_expected: int = 0, layers: list[Layer] | None = None
    ) -> None:
        self._bytes_max = bytes_max
        self.layers: list[Layer] = layers or []
        if not layers:
            self._grow(keys_expected * 3 // 2 * BITS_PER_KEY // 8)  # half as many may follow

    def may_hold(self, keys: U64) -> Flags:
        """Return False for each of *keys* (any shape) that was surely never added."""
        if not self.layers:
            return np.ones(keys.shape, np.bool_)
        answer = np.zeros(keys.shape, np.bool_)
        flat, flags = keys.ravel(), answer.reshape(-1)
        spread, halves = flat * _SPREAD, flat >> _HALF
        masks = _masks(spread, 0)
        for layer in self.layers:
            flags[layer.holding(spread, halves, masks)] = True
        return answer

    def add(self, keys: U64) -> None:
        """Add *keys*, distinct and rising."""
        keys = keys[~self.may_hold(keys)]
        if len(keys):
            if self.layers[-1].full:
                self._grow()
            self.layers[-1].add(keys)

    def _grow(self, wanted: int = 0) -> None:
        """Add a layer, of at least *wanted* bytes, as far as the bound allows it."""
        if size := _next_bytes(self.bytes, self._bytes_max, wanted):
            self.layers.append(Layer.of_bytes(size))

    @property
    def bytes(self) -> int:
        """Return the memory that the layers take."""
        return sum(layer.words.nbytes for layer in self.layers)

    @property
    def keys(self) -> int:
        """Return the number of keys that were added."""
        return sum(layer.keys for layer in self.layers)

    @property
    def pass_rate(self) -> float:
        """Return the expected share of unwritten keys that `may_hold` lets pass."""
        if not self.layers:
            return 1.0
        return 1 - prod(1 - layer.pass_rate for layer in self.layers)


def expected_pass_rate(bytes_max: int, keys: int) -> float:
    """Return what share of unwritten keys pass a front with *keys* keys, added one by one."""
    used, passing = 0, 1.0
    while size := _next_bytes(used, bytes_max):
        used += size
        taken = min(keys, size * 8 // BITS_PER_KEY) if _next_bytes(used, bytes_max) else keys
        passing *= 1 - _pass_rate(size, taken)
        keys -= taken
    return 1 - passing if used else 1.0


def _next_bytes(used: int, bytes_max: int, wanted: int = 0) -> int:
    """Return the size of the next layer, at least *wanted* as far as the bound allows; 0: none."""
    size, left = max(wanted, SMALLEST_BYTES, GROWTH * used), bytes_max - used
    # Each layer costs a memory access, so the last one must not be small.
    size = size if left - size >= size else left
    return size if size >= BLOCK_BYTES else 0


def _pass_rate(size: int, keys: int) -> float:
    """Return the expected share of unwritten keys that a layer of *size* bytes lets pass."""
    load = BLOCK_BYTES * keys / size
    if load > HOPELESS:
        return 1.0
    # Keys per block are Poisson distributed: average the probability that all bits are set.
    counts = np.arange(int(load + 12 * load**0.5) + 16)
    factorials = np.cumsum(np.log(np.maximum(counts, 1)))  # their logarithms
    logs = counts * np.log(max(load, 1e-300)) - load - factorials
    taken = 1 - (1 - 1 / 64) ** (counts * BITS_OF_WORD)
    return min(1.0, float((np.exp(logs) * taken ** (WORDS * BITS_OF_WORD)).sum()))


def _masks(spread: U64, word: int) -> U64:
    """Return for each key the bits of one word."""
    start = _LOWEST + 6 * BITS_OF_WORD * word
    masks = _ONE << ((spread >> np.uint64(start)) & _SIX_BITS)
    for shift in range(start + 6, start + 6 * BITS_OF_WORD, 6):
        masks |= _ONE << ((spread >> np.uint64(shift)) & _SIX_BITS)
    return masks
