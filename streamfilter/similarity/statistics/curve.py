"""The S-curve: the probability that a pair becomes a candidate, by similarity and band shape.

A pair of similarity s shares one band of r rows with probability s^r. So it shares at least one of
b bands with probability 1 - (1 - s^r)^b. Everything here follows from that.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb, exp, lgamma, log, log1p


def collision_probability(similarity: float, *, bands: int, rows: int) -> float:
    """Return the probability that a pair of *similarity* shares at least one band."""
    return float(1.0 - (1.0 - similarity**rows) ** bands)


def mean(curve: Callable[[float], float], low: float, high: float, *, steps: int = 400) -> float:
    """Return the mean of *curve* over [low, high] by Simpson's rule (its end, if that is empty)."""
    if high <= low:
        return curve(high)
    width = (high - low) / steps
    weights = [1.0, *(4.0 if i % 2 else 2.0 for i in range(1, steps)), 1.0]
    points = (curve(low + i * width) for i in range(steps + 1))
    return sum(w * p for w, p in zip(weights, points, strict=True)) / (3 * steps)


def random_probability(similarity: float, *, bands: int, rows: int, slots: int) -> float:
    """Return the probability that a pair shares one of *bands* keys of random slots.

    The keys share slots, so they are not independent as bands are. If M of the k slots agree, a key
    of r random slots agrees with probability C(M, r) / C(k, r), and M is binomial. For 125 keys of
    3 slots of 128 at a similarity of .3, the formula for bands gives .967. The true value is .933.
    """
    key = [comb(agreeing, rows) / comb(slots, rows) for agreeing in range(slots + 1)]
    missed = sum(
        chance * (1.0 - one) ** bands
        for chance, one in zip(binomial(slots, similarity), key, strict=True)
    )
    return 1.0 - missed


def binomial(trials: int, chance: float) -> list[float]:
    """Return P(X = 0), ..., P(X = trials) for X successes of *trials* by *chance* each."""
    if not 0.0 < chance < 1.0:
        certain = trials if chance >= 1.0 else 0
        return [float(x == certain) for x in range(trials + 1)]
    yes, no = log(chance), log1p(-chance)
    whole = lgamma(trials + 1)
    return [
        exp(whole - lgamma(x + 1) - lgamma(trials - x + 1) + x * yes + (trials - x) * no)
        for x in range(trials + 1)
    ]
