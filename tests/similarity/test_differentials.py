"""The hunt for differentials: is there a difference that many seeds hash away?

A difference between two values that meets under one seed in thousands can be tried by anybody
who sees verdicts. Each seed here hashes a value beside some of its neighbours of one and two
flipped bits, whose own differences have up to four; all neighbours get their turn.
"""

import hashlib
import random
from collections.abc import Iterator
from itertools import cycle, islice

import numpy as np
import pytest

from streamfilter.similarity.bands import Bander
from streamfilter.similarity.hashing import VECTOR_BYTES, Multilinear, SpanHasher, uniform

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("signer")]

TOGETHER = 64
"""Values hashed under one seed."""
CHANCE = 2.0**-32
"""That two upper halves, which are what samples store, are equal."""


def hunted(seeds: int, long: int) -> pytest.MarkDecorator:
    """Give a test so many seeds: ten thousand in CI, all tests together."""
    return pytest.mark.parametrize("seeds", [seeds, pytest.param(long, marks=pytest.mark.long)])


def drawn(number: int) -> bytes:
    """Return the seed of this number."""
    return hashlib.blake2b(number.to_bytes(8, "little"), digest_size=16).digest()


def neighbours(value: bytes) -> np.ndarray:
    """Return *value* and what is one or two bits from it, a row each."""
    bits = 8 * len(value)
    single = np.zeros((bits, len(value)), np.uint8)
    single[np.arange(bits), np.arange(bits) >> 3] = 1 << (np.arange(bits) & 7)
    one, other = np.triu_indices(bits, 1)
    flips = np.concatenate(
        (np.zeros((1, len(value)), np.uint8), single, single[one] ^ single[other])
    )
    return flips ^ np.frombuffer(value, np.uint8)


def groups(values: np.ndarray) -> Iterator[np.ndarray]:
    """Cut *values*, in any order, into groups that all have the first one."""
    order = 1 + np.random.default_rng(len(values)).permutation(len(values) - 1)
    for begin in range(0, len(order), TOGETHER - 1):
        yield values[[0, *order[begin : begin + TOGETHER - 1]]]


def pairs_that_meet(hashes: np.ndarray) -> int:
    """Return how many pairs of *hashes* are equal."""
    ordered = np.sort(hashes)
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    return len(same)


def hunt_words(lengths: range, seeds: int) -> None:
    """Look for two neighbours of one of these *lengths* that meet under one of the *seeds*."""
    rng = random.Random(20_261_123)
    spans = [
        (group.tobytes() + bytes(8), np.arange(len(group)) * length, np.full(len(group), length))
        for length in lengths
        for group in groups(neighbours(rng.randbytes(length)))
    ]
    rng.shuffle(spans)
    for number, (buffer, starts, sizes) in enumerate(islice(cycle(spans), seeds)):
        hashes = SpanHasher(drawn(number))(buffer, starts, sizes)
        assert not pairs_that_meet(hashes), (number, int(sizes[0]))


@hunted(6_000, 3_000_000)
def test_no_difference_of_one_or_two_bits_in_a_word_is_hashed_away(seeds):
    hunt_words(range(1, VECTOR_BYTES + 1), seeds)


@hunted(500, 100_000)
def test_nor_is_one_in_a_word_that_is_hashed_by_itself(seeds):
    hunt_words(range(VECTOR_BYTES + 1, 41), seeds)


@hunted(3_000, 1_000_000)
def test_a_difference_in_one_word_is_not_cancelled_by_the_next_ones(seeds):
    rng = random.Random(20_261_124)
    rows = [group.view("<u8") for group in groups(neighbours(rng.randbytes(24)))]
    halves = compared = 0
    for number, group in enumerate(islice(cycle(rows), seeds)):
        seed = drawn(number)
        hashes = Multilinear(3, seed=seed, purpose="shingle")([*group.T], uniform(seed, "start", 2))
        assert not pairs_that_meet(hashes), number
        halves += pairs_that_meet(hashes >> np.uint64(32))
        compared += len(group) * (len(group) - 1) // 2
    expected = CHANCE * compared
    assert halves <= expected + 5 * expected**0.5 + 1, (halves, expected)


@hunted(100, 50_000)
@pytest.mark.parametrize("rows", [1, 6, 8, 9, 20])
def test_bands_that_differ_in_a_slot_or_in_their_number_have_different_keys(rows, seeds):
    rng = random.Random(rows)
    slots = neighbours(rng.randbytes(rows))
    for number, group in enumerate(islice(cycle(groups(slots)), seeds)):
        # Each band holds the same slots: what tells them apart is their number.
        signatures = np.tile(group, 4)
        keys = Bander(4, rows, seed=drawn(number)).keys(
            signatures, np.zeros((len(group), 16), np.uint8)
        )
        assert not pairs_that_meet(keys[:, :4].reshape(-1)), number
