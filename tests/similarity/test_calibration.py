"""Is a verdict that is wrong with probability p wrong in p of the cases? A reliability table.

Pairs of random sets whose similarities spread evenly around the threshold; each is judged by
what a signature, or a sample of its tokens, says. The table has a row for each range of the
probability that was reported: how many verdicts, what was reported on average, how many were wrong.
"""

from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest

from streamfilter.similarity.columns import Samples
from streamfilter.similarity.exact import jaccard
from streamfilter.similarity.minhash import MinHasher, estimate, independent_trials
from streamfilter.similarity.scheme import SAMPLE_TOKENS
from streamfilter.similarity.statistics.doubt import (
    chance_at_least,
    chance_below,
    chance_below_of_slots,
    least_likely,
)

SEED, SLOTS, THRESHOLD = bytes(range(16)), 128, 0.8
EDGES = (0.0, 0.001, 0.01, 0.05, 0.15, 0.3, 0.5)


def pairs(rng, number, size, *, reach):
    """Yield (one, other, J) of sets of *size* tokens, J even over the threshold ± *reach*."""
    for truth in rng.uniform(THRESHOLD - reach, THRESHOLD + reach, number):
        common = round(size * 2 * truth / (1 + truth))
        union = rng.integers(0, 2**64, 2 * size - common, dtype=np.uint64)
        yield union[:size], np.concatenate((union[:common], union[size:])), common / len(union)


def by_signature(rng, size=2_000, used=SLOTS):
    """Return (P(below) as reported, J) of pairs with only *used* known slots."""
    made = list(pairs(rng, 4_000, size, reach=0.2))
    flat = [tokens for one, other, _ in made for tokens in (one, other)]
    starts = np.concatenate(([0], np.cumsum([len(tokens) for tokens in flat])))
    signed = MinHasher(SLOTS, seed=SEED).sign(np.concatenate(flat), starts).astype(np.uint8)
    estimates = estimate((signed[0::2] == signed[1::2])[:, :used].sum(axis=1), used)
    unions = 2 * size / (1 + estimates)
    trials = independent_trials(used, slots=SLOTS, unions=unions).tolist()
    told = [
        chance_below_of_slots(THRESHOLD, float(e), n)
        for e, n in zip(estimates, trials, strict=True)
    ]
    return np.array(told), np.array([truth for *_, truth in made])


def by_small_signature(rng):
    """Where 128 slots are worth 240: small sets."""
    return by_signature(rng, size=100)


def by_half_a_signature(rng):
    return by_signature(rng, size=200, used=64)


def by_sample(rng):
    """Return (P(below) as reported, J) of pairs of sets larger than their samples."""
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
    """Return rows of (verdicts, wrong as reported on average, wrong in truth)."""
    duplicate = below <= 0.5
    told = np.where(duplicate, below, 1 - below)
    wrong = np.where(duplicate, truths < THRESHOLD, truths >= THRESHOLD)
    rows = []
    for low, high in pairwise(EDGES):
        chosen = (told > low) & (told <= high) if low else told <= high
        rows.append((int(chosen.sum()), told[chosen].mean(), wrong[chosen].mean()))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "judged", [by_signature, by_small_signature, by_half_a_signature, by_sample]
)
def test_the_probability_of_being_wrong_is_calibrated(judged):
    table = reliability(*judged(np.random.default_rng(8)))
    print("verdicts  told  wrong", *(f"{n:8} {t:.4f} {w:.4f}" for n, t, w in table), sep="\n")
    for number, told, wrong in table:
        assert number > 50
        noise = 3 * (told * (1 - told) / number) ** 0.5
        # Samples without replacement know a little more than a binomial.
        assert -noise - 0.2 * told <= wrong - told <= noise, (number, told, wrong)
    assert table[-1][2] > 0.3  # those in doubt are in doubt


@pytest.mark.parametrize("truth", [0.01, 0.3, 0.5, 0.8, 0.95, 0.999])
def test_no_more_come_out_below_the_least_likely_share_than_promised(truth):
    """Each number of trials that slots can be worth, by the exact tail of the binomial."""
    chance, trials = 1e-4, np.arange(64, 514)
    limits = least_likely(truth, trials, deviations=-NormalDist().inv_cdf(chance))
    below = np.ceil(limits * trials).astype(int) - 1  # the most that is below the limit
    tails = [
        chance_at_least(n - k, trials=n, chance=1 - truth)
        for n, k in zip(trials.tolist(), below.tolist(), strict=True)
        if k >= 0
    ]
    assert max(tails, default=0.0) <= chance
    # Not for nothing: two trials more, and the promise would be broken.
    enough = (2 + below) / trials < truth
    more = [
        chance_at_least(n - k - 2, trials=n, chance=1 - truth)
        for n, k in zip(trials[enough].tolist(), below[enough].tolist(), strict=True)
    ]
    assert min(more, default=1.0) > chance


def test_a_verdict_on_few_trials_claims_little():
    assert chance_below(0.8, 1.0, 0) == pytest.approx(0.8)
    assert chance_below(0.8, 1.0, 1) == pytest.approx(0.64)
    assert chance_below(0.8, 0.0, 10) == pytest.approx(1 - 0.2**11)
    assert chance_below_of_slots(1.0, 1.0, 128) == 1.0  # nothing is above the highest threshold


@pytest.mark.parametrize(
    ("slots", "size"),
    [(64, 2), (64, 40), (64, 300), (128, 3), (128, 5), (128, 9), (128, 90), (128, 600), (256, 80)],
)
def test_slots_are_worth_what_their_variance_says(slots, size):
    rng, truth, trials = np.random.default_rng(3), 0.8, 1_200
    common = min(round(size * 2 * truth / (1 + truth)), size - 1)
    union = 2 * size - common
    flat, starts = [], [0]
    for _ in range(trials):
        tokens = rng.integers(0, 2**64, union, dtype=np.uint64)
        flat += [tokens[:size], np.concatenate((tokens[:common], tokens[size:]))]
        starts += [starts[-1] + size, starts[-1] + 2 * size]
    signed = MinHasher(slots, seed=SEED).sign(np.concatenate(flat), np.array(starts))
    found = (signed[0::2] == signed[1::2]).mean(axis=1).var()
    exact = common / union
    (worth,) = independent_trials(slots, slots=slots, unions=np.array([float(union)]))
    noise = 4 * (2 / trials) ** 0.5
    assert found == pytest.approx(exact * (1 - exact) / worth, rel=noise)
