"""Compares two texts: all numbers that the filter would compute, and the exact ones.

Jaccard and containment are computed on the whole sets. The estimate, its interval and the shared
bands come from the signatures of the texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamfilter.similarity.estimators import wilson
from streamfilter.similarity.minhash import estimate
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher


@dataclass(frozen=True, slots=True)
class Comparison:
    """How similar two texts are under a scheme."""

    jaccard: float  # shared shingles divided by all: exact
    containment: float  # shared shingles divided by those of the smaller set: exact
    estimate: float  # Jaccard similarity, estimated from the signatures
    interval: tuple[float, float]  # confidence interval of the estimate, 95 % by default
    shingles: tuple[int, int]  # distinct shingles of each text; 0: shorter than one shingle
    shared_bands: int
    equal_text: bool  # true if nothing differs after normalisation


def slots_interval(equal: int, slots: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's interval of the similarity, if *equal* of *slots* 8-bit slots agree.

    It is corrected for chance equalities like the estimate. The plain normal interval fails near 1,
    where most duplicates are. At a similarity of .99 it contained the truth in .72 of the cases.
    """
    found = wilson(equal, slots, level=level)
    assert found is not None, "a signature has slots"
    ends = np.array([found.lower, found.upper]) * slots
    low, high = estimate(ends, slots).tolist()
    return low, high


def compare(
    one: str, other: str, scheme: Scheme, *, seed: bytes, level: float = 0.95
) -> Comparison:
    """Compare two texts under *scheme*, by its sample if any; empty sets have nothing in common."""
    sketcher = Sketcher(scheme, seed=seed)
    sketches = sketcher.sketch([one, other])
    signatures, fingerprints = sketches.contents.signatures, sketches.contents.fingerprints
    left, right = (set(sketcher.tokens(text).tolist()) for text in (one, other))
    common, union = len(left & right), len(left | right)
    signed = bool(left and right)
    equal = int((signatures[0] == signatures[1]).sum()) * signed
    estimated = float(estimate(np.array([equal]), scheme.slots)[0])
    bands = sketches.keys[:, :-1]
    return Comparison(
        jaccard=common / max(union, 1),
        containment=common / max(min(len(left), len(right)), 1),
        estimate=estimated,
        interval=slots_interval(equal, scheme.slots, level=level),
        shingles=(len(left), len(right)),
        shared_bands=int((bands[0] == bands[1]).sum()) * signed,
        equal_text=bool((fingerprints[0] == fingerprints[1]).all()),
    )
