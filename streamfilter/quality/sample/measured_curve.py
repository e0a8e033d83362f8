"""The measured S-curve: the share of pairs that share a band, by similarity.

By the theory each pair shares a band with a probability that depends on its similarity. The
expected number of a bucket is the sum over its pairs, and the sampling error is that of independent
trials. Keys are made of 8-bit slots, so two different slot values agree once in 256. The theory
here includes that.

The random part is the hash functions, so the curve is measured under several seeds, each with its
own keys. Pairs are not independent: texts of one template are found together or missed together.
Drawing other documents would not show this error, because all have the same hash functions. The
difference between the seeds shows it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamfilter.quality.sample.brute_force import Pairs
from streamfilter.similarity.columns import F64, distinct
from streamfilter.similarity.estimators import trials_worth, wilson

BUCKETS = 20
PAIRS_MAX = 1 << 15  # pairs whose keys are compared at a time
CHANCE = 1 / 256
STEPS = 1_000  # steps of the theoretical curve; values between them are interpolated


class CurveBin(Struct, frozen=True):
    """Pairs of similarities in [low, high)."""

    low: float
    high: float
    pairs: int
    shares: tuple[float, ...]  # share of the pairs that share a key, for each seed
    expected: float  # number of pairs that share a key by the theory
    deviation: float
    """Standard deviation of that number for one seed, if all pairs were independent."""
    similarity: float  # mean similarity of the pairs
    documents: int  # number of distinct documents in the pairs

    @property
    def share(self) -> float:
        return sum(self.shares) / len(self.shares)

    @property
    def met(self) -> float:
        """Return how many pairs share a key, on average over the seeds."""
        return self.share * self.pairs

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the share: Wilson's, for the effective number of trials."""
        trials = self._trials()
        found = wilson(self.share * trials, trials)
        assert found is not None, "a bucket has pairs"
        return found.lower, found.upper

    def as_json(self) -> dict[str, Any]:
        return {
            "from": self.low,
            "to": self.high,
            "similarity": self.similarity,
            "pairs": self.pairs,
            "met": self.met,
            "measured": self.share,
            "interval": list(self.interval),
            "theory": self.expected / self.pairs,
        }

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.low:.2f} to {self.high:.2f}{self.pairs:>12,}{self.met:>10,.1f}"
            f"{self.share:>11.4f}   {low:.3f} to {high:.3f}{self.expected / self.pairs:>9.4f}"
        )

    def _trials(self) -> float:
        """Return the effective number of trials: independent pairs that vary as the seeds do.

        It is at most the number if each document were in one pair: seeds may agree by chance.
        """
        seeds = len(self.shares)
        most = float(min(self.pairs, max(self.documents / 2, 1.0)) * seeds)
        if seeds == 1:
            return most
        variance = float(np.var(self.shares, ddof=1)) / seeds
        return trials_worth(self.share, variance, freedom=seeds - 1, most=most)


def measured_curve(
    pairs: Pairs, keys: Sequence[NDArray[np.uint64]], probability: Callable[[float], float]
) -> list[CurveBin]:
    """Return the buckets that have pairs of different texts, in rising order.

    *keys* are (n, bands) for each seed, without the key of the whole text; *probability* is the
    theory.
    """
    pairs = different(pairs)
    met = [met_of(pairs, each) for each in keys]
    points = np.linspace(0.0, 1.0, STEPS + 1)
    curve = np.array([probability(point + (1 - point) * CHANCE) for point in points.tolist()])
    chances = np.interp(pairs.similarity, points, curve)
    places = np.minimum((pairs.similarity * BUCKETS + 1e-9).astype(np.int64), BUCKETS)
    return list(_buckets(places, pairs, met, chances))


def _buckets(
    places: NDArray[np.int64], pairs: Pairs, met: Sequence[NDArray[np.bool_]], chances: F64
) -> Iterator[CurveBin]:
    for place in distinct(places).tolist():
        inside = places == place
        chance = chances[inside]
        yield CurveBin(
            low=place / BUCKETS,
            high=min(1.0, (place + 1) / BUCKETS),
            pairs=int(inside.sum()),
            shares=tuple(float(each[inside].mean()) for each in met),
            expected=float(chance.sum()),
            deviation=float(np.sqrt((chance * (1 - chance)).sum())),
            similarity=float(pairs.similarity[inside].mean()),
            documents=len(np.union1d(pairs.later[inside], pairs.earlier[inside])),
        )


def different(pairs: Pairs) -> Pairs:
    """Return each pair of texts once, by the first documents that have them.

    All copies of two texts share a key, or none does. They are one trial, not many. For example,
    (0, 1, .8), (0, 2, .8) and (1, 2, 1.0) become (0, 1, .8) and (1, 1, 1.0): 2 is a copy of 1.
    """
    rows = int(max(pairs.later.max(initial=-1), pairs.earlier.max(initial=-1))) + 1
    same, first = pairs.similarity == 1.0, np.arange(rows)
    np.minimum.at(first, pairs.later[same], pairs.earlier[same])
    one, other = first[pairs.later], first[pairs.earlier]
    two = np.maximum(one, other) * rows + np.minimum(one, other)
    kept = np.unique(two, return_index=True)[1]
    return Pairs(one[kept], other[kept], pairs.similarity[kept], pairs.contained[kept])


def met_of(pairs: Pairs, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    met = np.zeros(len(pairs), np.bool_)
    for begin in range(0, len(pairs), PAIRS_MAX):
        part = slice(begin, begin + PAIRS_MAX)
        met[part] = (keys[pairs.later[part]] == keys[pairs.earlier[part]]).any(axis=1)
    return met
