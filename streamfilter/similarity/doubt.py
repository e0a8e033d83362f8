"""Doubt: how likely is a verdict wrong, given that it rests on a sample?

Of n trials x agreed, each with a probability that is the similarity J. If nothing was known
of J before, the chance that J lies below t is P(X > x) for X of n + 1 trials that agree with
probability t (Bayes' own billiard table): the tail of a binomial, exact for every n. The same
tail answers what the sketch rule finds: at least m of k slots.
"""

from __future__ import annotations

from math import exp, lgamma, log, log1p

import numpy as np

from streamfilter.similarity.columns import F64, I64

EQUAL_BY_CHANCE = 1 / 256
"""How often two different slots agree in the 8 bits that are kept."""


def chance_at_least(least: int, *, trials: int, chance: float) -> float:
    """Return P(X >= *least*) for X successes of *trials* with *chance* each.

    Both tails are summed from their large end, so that 1.5e-17 is right to its digits too.
    """
    if least <= 0 or chance >= 1.0:
        return 1.0 if least <= trials else 0.0
    if least > trials or chance <= 0.0:
        return 0.0
    if least <= trials * chance:
        return 1.0 - _tail(trials - least + 1, trials, 1.0 - chance)
    return _tail(least, trials, chance)


def _tail(least: int, trials: int, chance: float) -> float:
    """Return P(X >= least), where *least* lies above the mean: terms fall, and soon vanish."""
    odds = chance / (1.0 - chance)
    term = exp(
        lgamma(trials + 1) - lgamma(least + 1) - lgamma(trials - least + 1)
        + least * log(chance) + (trials - least) * log1p(-chance)
    )  # fmt: skip
    total = term
    for x in range(least, trials):
        term *= odds * (trials - x) / (x + 1)
        total += term
        if term < total * 1e-17:
            break
    return total


NEWTON_STEPS = 6
"""From the first guess of `least_likely` to its ninth digit; each costs as much as a logarithm."""


def least_likely(truth: F64 | float, trials: I64, *, deviations: float) -> F64:
    """Return the share of *trials* below which pairs of similarity *truth* hardly ever are.

    By the binomial, not by its normal approximation, whose lower tail is too thin by half for a
    similarity of .8 and by ten times for one of .99. Zubkov and Serov (2013) proved that
    P(X <= k) <= Phi(-sqrt(2 n D)) for X of n trials that succeed with probability p, where D is
    the divergence of Kullback and Leibler between (k + 1) / n and p, and (k + 1) / n < p. So
    fewer than Phi(-*deviations*) of the pairs come out below the share with 2 n D =
    *deviations* squared, less one trial. D is convex and Newton's steps begin below
    (D >= 2 (share - truth)^2, Pinsker's inequality): however few of them, none goes too far.
    """
    p = np.clip(truth, 1e-6, 1.0 - 1e-12)
    enough = deviations**2 / (2.0 * trials)
    share = np.maximum(p - np.sqrt(enough / 2.0), 1e-9)
    for _ in range(NEWTON_STEPS):
        inside, outside = np.log(share / p), np.log((1.0 - share) / (1.0 - p))
        over = share * inside + (1.0 - share) * outside - enough
        share = np.maximum(share - over / (inside - outside), 1e-9)
    return np.asarray(share - 1.0 / trials)


def chance_below(threshold: float, estimate: float, sample: int) -> float:
    """Return P(true similarity < *threshold*) given an *estimate* from *sample* trials.

    The prior is fixed, as evidence must not depend on what else the stream holds: similarities
    spread evenly. Calibrated where they do around the threshold; an estimate of 1.0 does
    not claim certainty. Samples without replacement know a little more than this admits.
    """
    agreed = round(estimate * sample)
    return chance_at_least(agreed + 1, trials=sample + 1, chance=threshold)


def chance_below_of_slots(threshold: float, estimate: float, slots: int) -> float:
    """Return P(true similarity < *threshold*) given what 8-bit *slots* estimate.

    *slots* counts independent ones (`minhash.independent_trials`): of small sets 128 slots tell
    as much as 250 would. Slots that are equal by chance were taken off the estimate, and are put
    back on both sides.
    """
    raw, limit = (s + (1.0 - s) * EQUAL_BY_CHANCE for s in (estimate, threshold))
    return chance_below(limit, raw, slots)
