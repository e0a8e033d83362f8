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
from math import prod

import numpy as np
from msgspec import Struct

from streamfilter.similarity.columns import I64, U64, Flags
from streamfilter.similarity.kernel.calls import Filter
from streamfilter.similarity.kernel.choice import kernel

WORDS = 4
WORD_BYTES = 8
LINE_WORDS = 8  # of the processor's cache
BLOCK_BYTES = WORDS * WORD_BYTES  # within one line of the processor's cache
BITS_OF_WORD = 2  # two words of three bits pass three times as many, eight of one a third less
SIDE_BY_SIDE = 4  # words of as many filters are half of a line: seldom is a second one needed
BLOCKS_STEP = 64  # a filter's blocks are a multiple of it: it can be halved six times

FILTERS_MAX = 64  # that are asked at a time: each has a bit of a word
HOPELESS = 2_000  # keys in a block of 256 bits at which practically all of its bits are set

_HALF = np.uint64(32)
_SIX_BITS = np.uint64(63)
_ONE = np.uint64(1)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio, odd (Knuth, vol. 3, 6.4)
_LOWEST = 64 - 6 * WORDS * BITS_OF_WORD  # the lower bits of a product are mixed least: not used


class BloomFilter(Struct):
    """A filter of fixed size. *step* filters of equal size share *shared*: see `FilterPool`."""

    shared: U64  # its words are those at slot, slot + step, ...; those of a block follow each other
    keys: int = 0  # about how many were added
    slot: int = 0
    step: int = 1

    @property
    def words(self) -> U64:
        return self.shared[self.slot :: self.step]

    @property
    def size(self) -> int:
        """Return its own bytes."""
        return len(self.shared) // self.step * WORD_BYTES

    @property
    def pass_rate(self) -> float:
        """Return the expected share of unwritten keys that pass."""
        return pass_rate_of(self.size, self.keys)

    @property
    def place(self) -> Filter:
        return self.shared, self.slot, self.step

    def add(self, keys: U64) -> None:
        """Add *keys*, distinct and rising."""
        if not len(keys):
            return
        self.keys += len(keys)
        if (native := kernel()) is not None and native.add(self.place, keys):
            return
        blocks, spread = _blocks(self, keys >> _HALF), keys * _SPREAD
        # Rising keys have rising blocks: keys of one block are next to each other.
        heads = np.flatnonzero(np.diff(blocks, prepend=-1))
        first = blocks[heads]
        for word in range(WORDS):
            masks = np.bitwise_or.reduceat(_masks(spread, word), heads)
            self.shared[first + word * self.step] |= masks

    def words_below(self, key: int) -> int:
        """Return how many of the first words belong to keys below *key* alone."""
        return ((key >> 32) * (len(self.words) // WORDS) >> 32) * WORDS

    def halved(self) -> BloomFilter | None:
        """Return the same set in half the memory; None: it cannot be halved again."""
        blocks = len(self.words) // WORDS
        if blocks % 2:
            return None
        pairs, half = self.words.reshape(blocks // 2, 2, WORDS), lone(blocks // 2 * WORDS)
        np.bitwise_or(pairs[:, 0], pairs[:, 1], out=half.shared.reshape(-1, WORDS))
        half.keys = self.keys
        return half


class FilterPool:
    """Places for filters of equal size, side by side: first words of four share a cache line.

    So a key that all four lack costs one access to memory, not four.
    """

    def __init__(self, size_max: int) -> None:
        """Filters of more than *size_max* bytes stand alone: three free places cost too much."""
        self._size_max, self._free = size_max, dict[int, list[BloomFilter]]()

    def of_keys(self, keys: int, *, bits: int) -> BloomFilter:
        """Return an empty filter with so many *bits* for each of *keys*."""
        return self.empty(words_for(keys, bits=bits))

    def empty(self, words: int) -> BloomFilter:
        """Return an empty filter of so many *words*."""
        if words * WORD_BYTES > self._size_max:
            return lone(words)
        free = self._free.setdefault(words, [])
        if not free:
            shared = _zeros(words * SIDE_BY_SIDE)
            free += [BloomFilter(shared, 0, slot, SIDE_BY_SIDE) for slot in range(SIDE_BY_SIDE)]
        return free.pop()


def lone(words: int) -> BloomFilter:
    """Return an empty filter of so many *words* that shares them with no other."""
    return BloomFilter(_zeros(words))


def _zeros(words: int) -> U64:
    """Return zeros that begin with a line of the processor's cache.

    It has the first two words of a block of four filters, or all words of two blocks of one. A line
    later, half of the second words cost an access of their own: filters took twice the time.
    """
    room = np.zeros(words + LINE_WORDS, np.uint64)
    begin = -room.ctypes.data // WORD_BYTES % LINE_WORDS
    return room[begin : begin + words]


def words_for(keys: int, *, bits: int) -> int:
    """Return the size of a filter with so many *bits* for each of *keys*, or up to 1/16 more.

    Runs of nearly as many keys have filters of one size, which can be side by side.
    """
    blocks = -(-keys * bits // (8 * BLOCK_BYTES))
    step = max(BLOCKS_STEP, 1 << max(blocks.bit_length() - 5, 0))
    return max(1, -(-blocks // step)) * step * WORDS


def passed(filters: Sequence[BloomFilter | None], keys: U64) -> U64:
    """Return for each of *keys* (any shape) which *filters* perhaps have it: bit f is filter f's.

    There are `FILTERS_MAX` at most. All keys pass a filter that is missing.
    """
    held = [(bit, each) for bit, each in enumerate(filters) if each is not None]
    asked, missing = keys.ravel(), sum(1 << bit for bit, each in enumerate(filters) if each is None)
    if not missing and (native := kernel()) is not None:
        flags = native.passed([each.place for _, each in held], asked)
        if flags is not None:
            return flags.reshape(keys.shape)
    flags, halves, spread = np.full(len(asked), missing, np.uint64), asked >> _HALF, asked * _SPREAD
    first = _masks(spread, 0)
    for bit, each in held:
        flags[_passing(each, halves, spread, first)] |= np.uint64(1 << bit)
    return flags.reshape(keys.shape)


def together(filters: Sequence[BloomFilter | None], keys: U64) -> Flags:
    """Return False for each of *keys* (any shape) that no filter holds. All pass a missing one."""
    if None in filters:
        return np.ones(keys.shape, np.bool_)
    flags = np.zeros(keys.shape, np.bool_)
    for begin in range(0, len(filters), FILTERS_MAX):
        flags |= passed(filters[begin : begin + FILTERS_MAX], keys) != 0
    return flags


def _passing(each: BloomFilter, halves: U64, spread: U64, masks: U64) -> I64:
    """Return the places of the keys that a filter perhaps has; *masks* are of the first word."""
    blocks, words = _blocks(each, halves), each.shared
    found = np.flatnonzero((words.take(blocks) & masks) == masks)
    for word in range(1, WORDS):
        masks = _masks(spread[found], word)
        found = found[(words.take(blocks[found] + word * each.step) & masks) == masks]
    return found


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


def _blocks(each: BloomFilter, halves: U64) -> I64:
    """Return where the keys' blocks begin: evenly spread, in the order of the *halves*."""
    chosen = (halves * np.uint64(len(each.words) // WORDS)) >> _HALF
    return (chosen * np.uint64(WORDS * each.step) + np.uint64(each.slot)).view(np.int64)


def _masks(spread: U64, word: int) -> U64:
    """Return for each key the bits of one word."""
    start = _LOWEST + 6 * BITS_OF_WORD * word
    masks = _ONE << ((spread >> np.uint64(start)) & _SIX_BITS)
    for shift in range(start + 6, start + 6 * BITS_OF_WORD, 6):
        masks |= _ONE << ((spread >> np.uint64(shift)) & _SIX_BITS)
    return masks
