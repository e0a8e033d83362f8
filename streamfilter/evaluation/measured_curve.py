"""The S-curve as it is: of the pairs of each similarity, how many shared a band?

The theory gives each pair the probability of its own similarity; a bucket's expectation is their
mean, and its sampling error that of as many coins. Keys are made of 8-bit slots, of which two
different ones agree once in 256: that is part of the theory here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfilter.evaluation.brute_force import Pairs
from streamfilter.similarity.estimators import wilson

F64 = NDArray[np.float64]

BUCKETS = 20
PAIRS_MAX = 1 << 15
"""Pairs whose keys are compared at a time."""
CHANCE = 1 / 256
STEPS = 1_000
"""Points between which the theory is interpolated."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Pairs of similarities in [low, high)."""

    low: float
    high: float
    pairs: int
    met: int
    """How many of them share a key."""
    expected: float
    """How many of them should, by the theory."""
    deviation: float
    """Standard deviation of that number, were all pairs independent."""
    similarity: float
    """Their mean."""

    @property
    def share(self) -> float:
        """Return the measured probability to meet."""
        return self.met / self.pairs

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the share (Wilson's)."""
        found = wilson(self.met, self.pairs)
        assert found is not None, "a bucket has pairs"
        return found.lower, found.upper


def measured_curve(
    pairs: Pairs, keys: NDArray[np.uint64], probability: Callable[[float], float]
) -> list[Bucket]:
    """Return the buckets that have pairs, in rising order.

    Args:
        pairs: pairs of documents with their true similarity.
        keys: (n, bands) the band keys of the documents, without the whole text's.
        probability: the theory: similarity to chance of sharing a key.
    """
    met = met_of(pairs, keys)
    points = np.linspace(0.0, 1.0, STEPS + 1)
    curve = np.array([probability(point + (1 - point) * CHANCE) for point in points.tolist()])
    chances = np.interp(pairs.similarity, points, curve)
    places = np.minimum((pairs.similarity * BUCKETS + 1e-9).astype(np.int64), BUCKETS)
    return list(_buckets(places, pairs.similarity, met, chances))


def _buckets(
    places: NDArray[np.int64], similarity: F64, met: NDArray[np.bool_], chances: F64
) -> Iterator[Bucket]:
    for place in np.unique(places).tolist():
        inside = places == place
        chance = chances[inside]
        yield Bucket(
            low=place / BUCKETS,
            high=min(1.0, (place + 1) / BUCKETS),
            pairs=int(inside.sum()),
            met=int(met[inside].sum()),
            expected=float(chance.sum()),
            deviation=float(np.sqrt((chance * (1 - chance)).sum())),
            similarity=float(similarity[inside].mean()),
        )


def met_of(pairs: Pairs, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which pairs share at least one key."""
    met = np.zeros(len(pairs), np.bool_)
    for begin in range(0, len(pairs), PAIRS_MAX):
        part = slice(begin, begin + PAIRS_MAX)
        met[part] = (keys[pairs.later[part]] == keys[pairs.earlier[part]]).any(axis=1)
    return met
