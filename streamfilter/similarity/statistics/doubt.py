"""Doubt: the probability that a verdict from a sample is wrong.

Each of n trials agrees with probability J, the similarity, and x of them agreed. The prior of J is
uniform. Let X be the successes of n + 1 trials with probability t. Then the probability that J lies
below t is P(X > x) (Bayes' billiard table). This binomial tail is exact for every n. The same tail
gives the share of pairs that the sketch rule finds: at least m of k slots agree.
"""

from math import exp, lgamma, log, log1p

import numpy as np

from streamfilter.similarity.columns import F64, I64

EQUAL_BY_CHANCE = 1 / 256  # how often two different slots agree in the 8 bits that are kept


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
    """Return P(X >= least), where *least* lies above the mean: the terms fall to 0 quickly."""
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


NEWTON_STEPS = 6  # from the first guess to nine digits; each costs about a logarithm


def least_likely(truth: F64 | float, trials: I64, *, deviations: float) -> F64:
    """Return the share of *trials* below which pairs of similarity *truth* are very rare.

    The bound is for the binomial. Its normal approximation has too thin a lower tail: by half for a
    similarity of .8, by ten times for .99. Zubkov and Serov (2013) proved that
    P(X <= k) <= Phi(-sqrt(2 n D)) for X successes of n trials with probability p. Here D is the
    Kullback-Leibler divergence between (k + 1) / n and p, and (k + 1) / n < p. The result is the
    share with 2 n D = *deviations* squared, less one trial. Fewer than Phi(-*deviations*) of the
    pairs are below it. D is convex, and Newton's steps begin below the solution
    (D >= 2 (share - truth)^2, Pinsker's inequality). So no number of steps overshoots.
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

    The prior is fixed (uniform), because evidence must not depend on the rest of the stream. The
    result is calibrated if similarities are uniform around the threshold. An estimate of 1.0 does
    not give certainty. For samples without replacement the result is slightly too cautious.
    """
    agreed = round(estimate * sample)
    return chance_at_least(agreed + 1, trials=sample + 1, chance=threshold)


def chance_below_of_slots(threshold: float, estimate: float, slots: int) -> float:
    """Return P(true similarity < *threshold*) given an *estimate* from 8-bit slots.

    *slots* counts independent ones (`minhash.independent_trials`): for small sets, 128 slots are
    worth 250 independent ones. The estimate is corrected for slots that are equal by chance. They
    are added again here, on both sides.
    """
    raw, limit = (s + (1.0 - s) * EQUAL_BY_CHANCE for s in (estimate, threshold))
    return chance_below(limit, raw, slots)
