"""MinHash signatures: k slots, each holding the minimum of the set under its own random order.

P(slot equal) = Jaccard similarity. Classical MinHash visits k slots a token. Here, as in Fast
Similarity Sketching (Dahlgaard, Knudsen, Thorup 2017), a token visits one slot a round. In each of
15 rounds every token falls into one random slot with a random value, and an earlier round always
wins. A slot that is still empty takes the minimum over all tokens under its own order. The round is
in the value's top bits, so that one comparison respects it. Sets of 30 and of 3,000 tokens stay
comparable, and the estimate is unbiased. Its variance is at most that of MinHash.

Example of one slot: the values (round 0, 9), (round 1, 2) and (round 0, 4) give (round 0, 4).
"""

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.columns import I64, U32, U64, distinct, slices
from streamfilter.similarity.hashing import constants
from streamfilter.similarity.kernel.choice import kernel

ROUNDS = 15
"""Rounds before the fallback. A round costs a set's size, the fallback costs size x open slots. So
more rounds help a small set, whose slots fill slowly: for 34 tokens, 3 rounds take 28 us, 15 rounds
5 us. A large set is full after one or two rounds and skips the rest."""

THROWN = 3
"""The search for full sets begins when the sets have thrown so many tokens a slot: about one set in
twenty is full then."""

MANY = 3 / 4
"""Full sets are removed if at most this share of sets is open: removing costs half a round."""

ROUND_SHIFT = 28  # the round's number takes the top four bits of a slot's value

VALUE_BITS = 25  # random bits of a slot's value: 32 bits less 7 for the choice among 128 slots

VALUE_MASK = np.uint32((1 << VALUE_BITS) - 1)
FOLD = np.uint32(15)
HALF = np.uint64(32)

REPEATING = 4_096
"""A set of more tokens that still has open slots after all rounds repeats a few tokens. These are
made distinct, or a megabyte of one letter would cost two seconds."""

EMPTY = np.uint32(2**32 - 1)  # a slot no token reached: only in the signature of an empty set

CELLS_MAX = 1 << 19  # token x slot products at a time in the fallback: temporaries stay below 8 MiB


class MinHasher:
    """Signs sets of tokens with *slots* slots under one secret seed."""

    def __init__(self, slots: int, *, seed: bytes) -> None:
        self.slots = slots
        self._round_factors = constants(seed, "round", ROUNDS).astype(np.uint32)
        self._slot_factors = constants(seed, "slot factor", slots)
        self._slot_offsets = constants(seed, "slot offset", slots)

    def sign(self, tokens: U64, starts: I64) -> U32:
        """Return (n, slots) signatures of n sets; set i is tokens[starts[i]:starts[i + 1]].

        Repeated tokens change nothing. An empty set gets EMPTY in every slot.
        """
        sizes = np.diff(starts)
        native = kernel()
        made = (
            None
            if native is None
            else native.sign(
                tokens, starts, self._round_factors, self._slot_factors, self._slot_offsets
            )
        )
        if made is not None:
            # The kernel leaves slots of large sets of a few tokens open.
            large = np.flatnonzero(sizes > REPEATING)
            left = large[made[large].max(axis=1, initial=0) == EMPTY]
            if len(left):
                self._fill_open(tokens, starts, made, left)
            return made
        signatures = np.full((len(sizes), self.slots), EMPTY, np.uint32)
        cells = np.repeat(np.arange(0, signatures.size, self.slots), sizes)
        # The rounds need 32 of the 64 bits: half the bytes to move is a third of the time.
        chosen, open_sets = (tokens >> HALF).astype(np.uint32), np.flatnonzero(sizes)
        for number in range(ROUNDS):
            self._round(number, chosen, cells, signatures)
            thrown = (number + 1) * len(chosen)
            if number < ROUNDS - 1 and thrown < THROWN * self.slots * len(open_sets):
                continue
            alone = signatures if len(open_sets) == len(sizes) else signatures[open_sets]
            still = alone.max(axis=1) == EMPTY  # which is above all values
            left = open_sets[still]
            if not len(left):
                return signatures
            if len(left) <= MANY * len(open_sets):
                # Positions, not flags: numpy gathers by positions six times faster.
                kept = np.flatnonzero(np.repeat(still, sizes[open_sets]))
                chosen, cells, open_sets = chosen[kept], cells[kept], left
        self._fill_open(tokens, starts, signatures, left)
        return signatures

    def _fill_open(self, tokens: U64, starts: I64, signatures: U32, left: I64) -> None:
        """Give the open slots of the sets *left* their values, after all rounds."""
        repeating = np.diff(starts)[left] > REPEATING
        for row in left[repeating].tolist():
            its = distinct(tokens[starts[row] : starts[row + 1]])
            alone = signatures[row : row + 1]
            self._fill(its, np.array([0, len(its)]), alone, np.zeros(1, np.int64))
        self._fill(tokens, starts, signatures, left[~repeating])

    def _round(self, number: int, tokens: U32, cells: I64, signatures: U32) -> None:
        """Let every token fall into one slot of its set, where the slot is open to the round.

        *cells* holds for each token the place of its set's first slot in *signatures*.
        """
        # An odd multiple of a random token is a fresh order in its high bits, which choose the
        # slot; folded down, they make the low ones fresh too, which are the value.
        mixed = tokens * self._round_factors[number]
        mixed ^= mixed >> FOLD
        slots = self._slots_of(mixed)
        slots += cells
        mixed &= VALUE_MASK
        mixed |= np.uint32(number << ROUND_SHIFT)
        np.minimum.at(signatures.reshape(-1), slots, mixed)

    def _slots_of(self, mixed: U32) -> I64:
        """Return a slot for each of *mixed*, by its high bits."""
        if self.slots & (self.slots - 1) == 0:
            return (mixed >> np.uint32(32 - self.slots.bit_length() + 1)).astype(np.int64)
        wide = mixed.astype(np.uint64)
        wide *= np.uint64(self.slots)
        return (wide >> HALF).astype(np.int64)

    def _fill(self, tokens: U64, starts: I64, signatures: U32, sets: I64) -> None:
        """Give each slot still empty the minimum over its set under the slot's own order."""
        rows, slots = np.nonzero(signatures[sets] == EMPTY)
        owners = sets[rows]
        sizes = (starts[1:] - starts[:-1])[owners]
        ends = np.cumsum(sizes)
        begin = 0
        while begin < len(owners):
            done = ends[begin - 1] if begin else 0
            stop = max(int(np.searchsorted(ends, done + CELLS_MAX, "right")), begin + 1)
            part = slice(begin, stop)
            signatures[owners[part], slots[part]] = self._minima(
                tokens, starts[owners[part]], sizes[part], slots[part]
            )
            begin = stop

    def _minima(self, tokens: U64, firsts: I64, sizes: I64, slots: I64) -> U32:
        """Return the minimum of each (set, slot) pair's own affine order."""
        values = tokens[slices(firsts, sizes)]
        values *= np.repeat(self._slot_factors[slots], sizes)
        values += np.repeat(self._slot_offsets[slots], sizes)
        minima = np.minimum.reduceat(values, np.cumsum(sizes) - sizes)
        minima >>= np.uint64(64 - VALUE_BITS)
        return minima.astype(np.uint32) | np.uint32(ROUNDS << ROUND_SHIFT)


TOKENS_A_SLOT = (0.0, 1 / 64, 1 / 32, 3 / 64, 1 / 16, 3 / 32, 1 / 8, 3 / 16,
                 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)  # fmt: skip
VARIANCE = (1.0, 0.82, 0.7, 0.63, 0.585, 0.535, 0.52, 0.51,
            0.51, 0.535, 0.585, 0.625, 0.705, 0.76, 0.85, 0.885, 0.95, 1.0)  # fmt: skip
"""Variance of an estimate divided by that of as many independent slots, by union tokens per slot.

The slots of a round divide the tokens among them, so they repeat each other less than independent
slots. For a small set nearly half of the variance is gone. For a few tokens the gain is smaller:
most slots are then filled by the fallback, which draws each independently. Measured on random sets;
the same for 64 to 256 slots and similarities of .5 to .9
(`tests/similarity/test_calibration.py`)."""


def independent_trials(used: int, *, slots: int, unions: NDArray[np.float64]) -> I64:
    """Return how many independent slots *used* of *slots* are worth, for pairs of these *unions*.

    Of equally correlated slots, a part loses less of the variance: the correlation is that of
    the whole.
    """
    whole = np.interp(unions / slots, TOKENS_A_SLOT, VARIANCE)
    variance = 1.0 - (1.0 - whole) * (used - 1) / max(slots - 1, 1)
    return np.rint(used / variance).astype(np.int64)


def trials_of_kept(trials: I64, unions: NDArray[np.float64]) -> I64:
    """Return how many trials *trials* slots are worth, if only *unions* tokens of a pair were kept.

    There are two samples: the kept tokens are one of the texts, and the slots are one of the kept
    tokens. Their variances add up. Each is similarity * (1 - similarity) divided by its own number.
    """
    return np.rint(1.0 / (1.0 / trials + 1.0 / np.maximum(unions, 1.0))).astype(np.int64)


def estimate(
    equal_slots: NDArray[np.int64] | NDArray[np.float64], slots: int
) -> NDArray[np.float64]:
    """Return the Jaccard estimate from equal 8-bit slots, corrected for chance equalities.

    Two different minima agree in 8 bits once in 256, so E[equal / k] = J + (1 - J) / 256.
    """
    share = equal_slots / slots
    return np.clip((share - 1 / 256) / (1 - 1 / 256), 0.0, 1.0)
