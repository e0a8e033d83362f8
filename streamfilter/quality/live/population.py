"""How many of a finite population have a property, given a sample drawn at random from it.

The population is N past arrivals. An unknown number K of them have the property (a missed
original). A hash that is independent of the property chose n of them, and x of these have it. So x
is hypergeometric, however the arrivals depend on each other. Copies come in bursts and clusters,
but the interval holds, because the random element is the choice and not the stream. The interval is
about past arrivals only, not about those that the same source will send tomorrow.

The bounds are those of Clopper and Pearson: K is possible unless the observed x would be among its
rarest outcomes. They are conservative (too wide), and equal if the whole population was examined.
"""

from __future__ import annotations

from bisect import bisect_left
from math import exp, lgamma

LEVEL = 0.97
"""Coverage by which a "95 %" interval is computed: a tenth wider than necessary, so that 200 runs
of any stream confirm it without luck."""


def bounds(found: int, *, sample: int, population: int, level: float = LEVEL) -> tuple[int, int]:
    """Return the least and the greatest number of the *population* that may have the property.

    Args:
        found: how many of the sample have it.
        sample: how many were examined, chosen at random without replacement.
        population: how many there are, including the sample.
        level: the least share of such intervals that contain the truth.

    Raises:
        ValueError: there cannot be such a sample.
    """
    if not 0 <= found <= sample <= population:
        raise ValueError(f"{found} of a sample of {sample} of {population} cannot be")
    rare = (1 - level) / 2
    least, most = found, population - (sample - found)

    def not_too_few(number: int) -> bool:
        """Return False if *number* of them would very rarely give *found* or more."""
        return 1 - _at_most(found - 1, sample, number, population) >= rare

    def too_many(number: int) -> bool:
        """Return True if *number* of them would very rarely give *found* or fewer."""
        return _at_most(found, sample, number, population) < rare

    lower = least + bisect_left(range(least, most), True, key=not_too_few)
    upper = least + bisect_left(range(least, most + 1), True, key=too_many) - 1
    return lower, max(upper, lower)


def _at_most(found: int, sample: int, number: int, population: int) -> float:
    """Return P(X <= *found*) for a sample of a population in which *number* have the property.

    Terms fall away from the mean, so the shorter tail is summed from its large end.
    """
    lowest, highest = max(0, sample - (population - number)), min(sample, number)
    if found < lowest:
        return 0.0
    if found >= highest:
        return 1.0
    if found <= sample * number / population:
        return _sum(found, lowest, -1, sample, number, population)
    return 1.0 - _sum(found + 1, highest, +1, sample, number, population)


def _sum(begin: int, end: int, step: int, sample: int, number: int, population: int) -> float:
    """Return P(X = begin) + ... + P(X = end), which lie on one side of the mean."""
    term = exp(
        _choices(number, begin)
        + _choices(population - number, sample - begin)
        - _choices(population, sample)
    )
    total, x = term, begin
    while x != end:
        if step < 0:
            term *= x * (population - number - sample + x)
            term /= (number - x + 1) * (sample - x + 1)
        else:
            term *= (number - x) * (sample - x)
            term /= (x + 1) * (population - number - sample + x + 1)
        total += term
        x += step
        if term < total * 1e-12:
            break
    return min(total, 1.0)


def _choices(of: int, chosen: int) -> float:
    """Return the logarithm of the number of ways to choose."""
    return lgamma(of + 1) - lgamma(chosen + 1) - lgamma(of - chosen + 1)
