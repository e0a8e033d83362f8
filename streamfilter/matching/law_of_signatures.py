"""The arithmetic of the law: what two signatures say, and the keys that a signature makes.

Like `law.py` it has plain numbers, for people and tests.
"""

from bisect import bisect_right
from collections.abc import Iterator
from math import log
from statistics import NormalDist

from streamfilter.similarity.minhash import TOKENS_A_SLOT, VARIANCE

STEPS = (2, 2, 2, 3, 3, 6)  # slots by which a band's key is made longer, six times
LENGTHS = (6, 8, 10, 12, 15, 18, 24)  # what a shared key counts: its slots in bands of 6 rows
IMPROBABLE = NormalDist().inv_cdf(1e-4) ** 2


def estimate(equal: int, slots: int) -> float:
    """Return the similarity that the signatures suggest; 1 of 256 slots is equal by chance."""
    return max((equal / slots - 1 / 256) / (1 - 1 / 256), 0.0)


def trials_of(slots: int, *, union: float) -> int:
    """Return how many independent slots have the variance of these *slots*.

    *union* is the number of tokens of both sets. With few tokens for each slot, equal slots scatter
    less than independent ones would.
    """
    place = union / slots
    at = min(bisect_right(TOKENS_A_SLOT, place), len(TOKENS_A_SLOT) - 1)
    left, right = TOKENS_A_SLOT[at - 1], TOKENS_A_SLOT[at]
    share = min((place - left) / (right - left), 1.0)
    return round(slots / (VARIANCE[at - 1] + share * (VARIANCE[at] - VARIANCE[at - 1])))


def is_improbable(share: float, truth: float, trials: int) -> bool:
    """Return whether so low a *share* of equal slots is too rare for the similarity *truth*.

    Too rare means fewer than 1 in 10,000 such pairs, by a likelihood ratio.
    """
    truth = min(truth, 1 - 1e-12)
    if share >= truth:
        return False
    divergence = share * log(share / truth) + (1 - share) * log((1 - share) / (1 - truth))
    return 2 * trials * divergence > IMPROBABLE


def keys_of_band(keys: tuple[int, ...], signature: bytes, band: int) -> Iterator[int]:
    """Yield the key of a band, then its longer keys: each adds the slots that follow."""
    key = keys[band]
    yield key
    place = (band + 1) * len(signature) // (len(keys) - 1)
    for step in STEPS:
        slots = bytes(signature[(place + i) % len(signature)] for i in range(step))
        place += step
        key = mixed(key, int.from_bytes(slots, "little"))
        yield key


def mixed(key: int, word: int) -> int:
    """Return a 64-bit key that depends on both."""
    key = ((key ^ word) + 0x9E3779B97F4A7C15) % 2**64
    for factor in (0xD6E8FEB86659FD93, 0x9FB21C651E98DF25):
        key = key * factor % 2**64
        key ^= key >> 32
    return key
