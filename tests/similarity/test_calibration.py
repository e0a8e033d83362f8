"""Is a verdict that is wrong with probability p wrong in p of the cases? A reliability table.

Pairs of random sets whose similarities spread evenly around the threshold; each is judged by
what a signature, or a sample of its tokens, says. The table has a row for each range of the
probability that was told: how many verdicts, what was told on average, how many were wrong.
"""

from itertools import pairwise

import numpy as np
import pytest

from streamfilter.similarity.doubt import chance_below, chance_below_of_slots
from streamfilter.similarity.exact import Samples, jaccard
from streamfilter.similarity.minhash import MinHasher, estimate
from streamfilter.similarity.scheme import SAMPLE_TOKENS

SEED, SLOTS, THRESHOLD = bytes(range(16)), 128, 0.8
EDGES = (0.0, 0.001, 0.01, 0.05, 0.15, 0.3, 0.5)


def pairs(rng, number, size, *, reach):
    """Yield (one, other, J) of sets of *size* tokens, J even over the threshold ± *reach*."""
    for truth in rng.uniform(THRESHOLD - reach, THRESHOLD + reach, number):
        common = round(size * 2 * truth / (1 + truth))
        union = rng.integers(0, 2**64, 2 * size - common, dtype=np.uint64)
        yield union[:size], np.concatenate((union[:common], union[size:])), common / len(union)


def by_signature(rng):
    """Return (P(below) as told, J) of pairs that only their signatures are known of."""
    made = list(pairs(rng, 4_000, 2_000, reach=0.2))
    flat = [tokens for one, other, _ in made for tokens in (one, other)]
    starts = np.concatenate(([0], np.cumsum([len(tokens) for tokens in flat])))
    signed = MinHasher(SLOTS, seed=SEED).sign(np.concatenate(flat), starts).astype(np.uint8)
    estimates = estimate((signed[0::2] == signed[1::2]).sum(axis=1), SLOTS)
    told = [chance_below_of_slots(THRESHOLD, float(e), SLOTS) for e in estimates]
    return np.array(told), np.array([truth for *_, truth in made])


def by_sample(rng):
    """Return (P(below) as told, J) of pairs of sets larger than their samples."""
    told, truths = [], []
    for one, other, truth in pairs(rng, 1_500, 5_000, reach=0.06):
        halves = [(tokens >> np.uint64(32)).astype(np.uint32) for tokens in (one, other)]
        sizes = np.array([len(half) for half in halves])
        cut = [np.sort(np.partition(half, SAMPLE_TOKENS)[:SAMPLE_TOKENS]) for half in halves]
        samples = Samples(np.concatenate(cut), np.array([0, 1_024, 2_048]), sizes)
        found = jaccard(samples, np.array([0]), samples, np.array([1]))
        told.append(chance_below(THRESHOLD, float(found.similarity[0]), int(found.union[0])))
        truths.append(truth)
    return np.array(told), np.array(truths)


def reliability(below, truths):
    """Return rows of (verdicts, wrong as told on average, wrong in truth)."""
    duplicate = below <= 0.5
    told = np.where(duplicate, below, 1 - below)
    wrong = np.where(duplicate, truths < THRESHOLD, truths >= THRESHOLD)
    rows = []
    for low, high in pairwise(EDGES):
        chosen = (told > low) & (told <= high) if low else told <= high
        rows.append((int(chosen.sum()), told[chosen].mean(), wrong[chosen].mean()))
    return rows


@pytest.mark.parametrize("judged", [by_signature, by_sample])
def test_the_probability_of_being_wrong_is_calibrated(judged):
    table = reliability(*judged(np.random.default_rng(8)))
    print("verdicts  told  wrong", *(f"{n:8} {t:.4f} {w:.4f}" for n, t, w in table), sep="\n")
    for number, told, wrong in table:
        assert number > 50
        noise = 3 * (told * (1 - told) / number) ** 0.5
        # Fast signatures and samples without replacement know a little more than a binomial.
        assert -noise - 0.2 * told <= wrong - told <= noise, (number, told, wrong)
    assert table[-1][2] > 0.3  # those in doubt are in doubt


def test_a_verdict_on_few_trials_claims_little():
    assert chance_below(0.8, 1.0, 0) == pytest.approx(0.8)
    assert chance_below(0.8, 1.0, 1) == pytest.approx(0.64)
    assert chance_below(0.8, 0.0, 10) == pytest.approx(1 - 0.2**11)
    assert chance_below_of_slots(1.0, 1.0, 128) == 1.0  # nothing is above the highest threshold
