"""Estimates of shares, and their confidence intervals."""

from math import pi, sqrt, tan
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from streamfilter.similarity.columns import I64

DEVIATIONS = 1.959963984540054  # of a normal distribution, for 95 %


class Estimate(Struct, frozen=True):
    """A share in [0, 1] and the ends of its 95 % interval."""

    value: float
    lower: float
    upper: float


def wilson(successes: float, trials: float, *, level: float = 0.95) -> Estimate | None:
    """Return the share of *successes* with Wilson's score interval; None without trials.

    It stays inside [0, 1] and keeps its coverage at the ends, where the normal interval shrinks to
    a point. *trials* must be independent: copies of one text that are audited together are not.
    *level* is the share of such intervals that contain the truth; outside (0, 1) it raises
    `ValueError`.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"a level of confidence lies between 0 and 1, such as 0.95; not {level}")
    if trials <= 0:
        return None
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share, z2 = successes / trials, z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    spread = z * sqrt(share * (1 - share) / trials + z2 / (4 * trials**2)) / (1 + z2 / trials)
    # The ends are exact by definition; rounding would miss them.
    lower = max(0.0, centre - spread) if successes > 0 else 0.0
    return Estimate(share, lower, min(1.0, centre + spread) if successes < trials else 1.0)


def student(freedom: float, *, level: float = 0.95) -> float:
    """Return the half-width of an interval of *level* in standard errors (Student's distribution).

    Exact for 1 and 2 degrees of *freedom*; Fisher's expansion from 3 on (to a thousandth).
    """
    share, z = 0.5 + level / 2, NormalDist().inv_cdf(0.5 + level / 2)
    if freedom < 2:
        return tan(pi * (share - 0.5))
    if freedom < 3:
        return level * sqrt(2 / (1 - level**2))
    powers = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(powers, 1))


def trials_worth(share: float, variance: float, *, freedom: float, most: float) -> float:
    """Return how many independent trials of a *share* would have this *variance*.

    The result is at least 1 and at most *most*. It is *most* if the variance is 0, because that may
    be chance. A variance with few degrees of *freedom* gives fewer trials.
    """
    if variance <= 0.0:
        return most
    trust = DEVIATIONS / student(freedom)
    return max(1.0, min(share * (1 - share) / variance * trust**2, most))


def share_of_families(found: I64, of: I64) -> Estimate | None:
    """Return the share *found* / *of* with its 95 % interval, if trials come in families.

    Copies of one text are found or missed together: by the same slots, because of the same full
    bucket. So a family counts as one trial, weighted by its size: all together are worth
    (sum n)^2 / sum n^2 trials (Kish). They are worth less if families differ more than trials
    would. The interval is Wilson's with continuity correction for that number of trials (after Korn
    and Graubard 1998). Without the correction, ten trials of a true share of .99 held the truth in
    .90 of the cases.

    Args:
        found: (c,) successes of each family.
        of: (c,) trials of each family, 1 or more.
    """
    if not of.size:
        return None
    trials, families = int(of.sum()), len(of)
    share = float(found.sum()) / trials
    most = trials**2 / float((of.astype(np.float64) ** 2).sum())
    residuals = ((found - share * of) ** 2).sum() / trials**2
    variance = float(residuals) * families / max(families - 1, 1)
    worth = trials_worth(share, variance, freedom=max(most - 1, 1.0), most=most)
    lower = wilson(max(share * worth - 0.5, 0.0), worth)
    upper = wilson(min(share * worth + 0.5, worth), worth)
    assert lower, "a family is worth a trial"
    assert upper, "a family is worth a trial"
    return Estimate(share, lower.lower, upper.upper)
