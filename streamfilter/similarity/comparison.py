"""Two texts side by side: every number the filter would come by, and the exact ones.

Jaccard and containment are computed on the whole sets; the estimate, its interval and the
shared bands are what signatures of these texts say.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

from streamfilter.similarity.minhash import estimate
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher


@dataclass(frozen=True, slots=True)
class Comparison:
    """How similar two texts are under a scheme."""

    jaccard: float
    """Shared shingles divided by all: exact."""
    containment: float
    """Shared shingles divided by those of the smaller set: exact."""
    estimate: float
    """Jaccard as their signatures estimate it."""
    interval: tuple[float, float]
    """Confidence interval of the estimate, at the level asked for (95 %)."""
    shingles: tuple[int, int]
    """Distinct shingles of each text; 0: shorter than one shingle."""
    shared_bands: int
    equal_text: bool
    """True if nothing differs after normalisation."""


def confidence_interval(share: float, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return share ± z · sqrt(share(1 − share)/trials), cut to [0, 1].

    Args:
        share: what was found, such as the share of equal slots.
        trials: of how many, such as the number of slots.
        level: how often intervals made like this hold the truth, in (0, 1).

    Raises:
        ValueError: *level* is none.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"a level of confidence lies between 0 and 1, such as 0.95; not {level}")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    reach = z * sqrt(share * (1 - share) / trials)
    return max(0.0, share - reach), min(1.0, share + reach)


def compare(
    one: str, other: str, scheme: Scheme, *, seed: bytes, level: float = 0.95
) -> Comparison:
    """Compare two texts under *scheme*; empty sets have nothing in common.

    With a ``sample_modulus`` in the scheme the sets are what was sampled of them.
    """
    sketcher = Sketcher(scheme, seed=seed)
    sketches = sketcher.sketch([one, other])
    left, right = (set(sketcher.tokens(text).tolist()) for text in (one, other))
    common, union = len(left & right), len(left | right)
    signed = bool(left and right)
    equal = int((sketches.signatures[0] == sketches.signatures[1]).sum()) * signed
    estimated = float(estimate(np.array([equal]), scheme.slots)[0])
    bands = sketches.keys[:, :-1]
    return Comparison(
        jaccard=common / max(union, 1),
        containment=common / max(min(len(left), len(right)), 1),
        estimate=estimated,
        interval=confidence_interval(estimated, scheme.slots, level=level),
        shingles=(len(left), len(right)),
        shared_bands=int((bands[0] == bands[1]).sum()) * signed,
        equal_text=bool((sketches.fingerprints[0] == sketches.fingerprints[1]).all()),
    )
