"""Estimates that need nobody who knows the truth: what is found by chance, and of how many.

*Weights* (Horvitz and Thompson): a pair of similarity s meets with the known probability P(s) of
the S-curve, so each pair that was found stands for 1/P(s) pairs that could have been. They cost
nothing, and tell what the bands promise for similarities like those found. They are not the
recall of a stream, neither from above nor from below, so they have no interval here: pairs
lost by anything else are invisible to them (``max_candidates``; a full bucket, whose later
documents only meet who shares 3 to 18 slots more: s ** 9 for s ** 6, say); a copy that is
missed becomes an original whose bands avoid its siblings, which are then met less often than
P(s) says; and an arrival with several originals is found more surely than any of its pairs. On
clusters of any size the interval that took pairs for independent held the truth in 0 of 3 to 19
of 25 runs. What was missed is counted by `matching.audit`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.curve import random_probability
from streamfilter.similarity.scheme import Scheme

F64 = NDArray[np.float64]

DEVIATIONS = 1.959963984540054
"""Of the normal distribution, for an interval that covers 95 %."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share in [0, 1] and the ends of its 95 % interval."""

    value: float
    lower: float
    upper: float


Curve = Callable[[F64], F64]
"""Similarities (n,) → P(s): the chance that a pair of each meets in some band."""

CURVE_POINTS = 1_001
"""Similarities at which a curve without a quick formula is tabulated; between, it is a line."""


def curve_of(scheme: Scheme) -> Curve:
    """Return the S-curve of *scheme*, for columns."""
    bands, rows, slots = scheme.bands, scheme.rows, scheme.slots
    if scheme.layout == "bands":
        return lambda similarity: 1.0 - (1.0 - similarity**rows) ** bands
    points = np.linspace(0.0, 1.0, CURVE_POINTS)
    heights = np.array(
        [random_probability(s, bands=bands, rows=rows, slots=slots) for s in points.tolist()]
    )
    return lambda similarity: np.interp(similarity, points, heights)


def expected_pairs(chances: F64) -> float:
    """Return how many pairs those stand for that were found with these *chances* P(s) (n,).

    Raises:
        ValueError: a chance is not in (0, 1]: such a pair was not found.
    """
    if chances.size and not (chances.min() > 0 and chances.max() <= 1):
        raise ValueError("a pair that was found had a chance in (0, 1]")
    return float((1.0 / chances).sum())


def wilson(successes: float, trials: float, *, level: float = 0.95) -> Estimate | None:
    """Return the share of *successes* with Wilson's score interval; None without trials.

    It stays inside [0, 1] and holds its coverage at the ends, where the plain one collapses to
    a point. *trials* must be independent: copies of one text that are audited together are not.

    Args:
        successes: what was found, such as equal slots.
        trials: of how many, such as all slots.
        level: how often intervals made like this hold the truth, in (0, 1).

    Raises:
        ValueError: *level* is none.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"a level of confidence lies between 0 and 1, such as 0.95; not {level}")
    if trials <= 0:
        return None
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share, z2 = successes / trials, z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    spread = z * sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    return Estimate(share, max(0.0, centre - spread), min(1.0, centre + spread))
