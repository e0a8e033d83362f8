"""The shape of keys (number and size), and the share of pairs that it finds: for the planner.

A pair of similarity s shares one band of r rows with probability s^r. So it shares at least one of
b bands with probability 1 - (1 - s^r)^b. Everything follows from this probability P(s). The false
negatives are the mean of 1 - P above the threshold. The false positives are the mean of P below it.
The expected candidates of a document are the sum of P over the earlier documents.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import comb, exp, lgamma, log, log1p

from msgspec import Struct

from streamfilter.similarity.scheme import SAMPLE_TOKENS, Scheme

KEY_BYTES = 26  # bytes on disk of one key of one document: the mean of 1 to 20 million documents

RECORD_BYTES, TOKEN_BYTES = 42, 4
"""Bytes of a document's record besides its slots, id and tokens; of one token in its sample."""

RANDOM_KEYS_MAX = 32  # each is one more key to read and write per document

CONTAINED_RATIO = 1.5
"""Texts that are contained in a text of up to this many times their size must be found. Keys find
pairs by Jaccard similarity, so no shape finds them in texts of any size."""

STEPS = 20


class MissesRecall(ValueError):
    """A shape does not find the wanted share of the pairs; the cure says what would."""

    def __init__(self, got: str, cure: str) -> None:
        super().__init__(f"{got}: {cure}")
        self.got, self.cure = got, cure


class Shape(Struct, frozen=True):
    """How many keys a signature has, and what each is made of."""

    bands: int
    rows: int
    slots: int = 128
    layout: str = "bands"

    @classmethod
    def of(cls, scheme: Scheme) -> Shape:
        return cls(scheme.bands, scheme.rows, scheme.slots, scheme.layout)

    def __str__(self) -> str:
        return f"{self.bands} x {self.rows}{' random' * (self.layout == 'random')}"

    def probability(self, similarity: float) -> float:
        """Return the chance that a pair of *similarity* becomes a candidate."""
        if self.layout == "random":
            shape = {"bands": self.bands, "rows": self.rows, "slots": self.slots}
            return random_probability(similarity, **shape)
        return collision_probability(similarity, bands=self.bands, rows=self.rows)

    def cut(self, similarity: float) -> str:
        """Return the same to three digits: cut, so that a share never looks better than it is."""
        return f"{int(1_000 * self.probability(similarity)) / 1_000:g}"

    def curve(self, steps: int = STEPS) -> list[tuple[float, float]]:
        """Return (similarity, probability) from 0 to 1, by default in steps of .05."""
        points = [round(i / steps, 6) for i in range(steps + 1)]
        return [(s, self.probability(s)) for s in points]

    def false_negatives(self, threshold: float) -> float:
        """Return the share of pairs above *threshold* that are not found, if s is uniform."""
        return 1.0 - mean(self.probability, threshold, 1.0)

    def false_positives(self, threshold: float) -> float:
        """Return the share of pairs below *threshold* that become candidates, if s is uniform."""
        return mean(self.probability, 0.0, threshold)

    def contained(self, containment: float, ratio: float) -> float:
        """Return the probability to find a text that is contained in one *ratio* times its size."""
        return self.probability(jaccard_of_contained(containment, ratio))

    def bytes_per_document(self, *, shingles: int = 170, id_bytes: int = 16) -> int:
        """Return about how many bytes the index keeps of a document, on disk."""
        keys = KEY_BYTES * (self.bands + 1)  # and the fingerprint's
        return keys + self.record_bytes(shingles=shingles, id_bytes=id_bytes)

    def record_bytes(self, *, shingles: int = 170, id_bytes: int = 16) -> int:
        """Return how many of them are its record: what the changelog keeps of it, too."""
        return RECORD_BYTES + self.slots + id_bytes + TOKEN_BYTES * min(shingles, SAMPLE_TOKENS)


def jaccard_of_contained(containment: float, ratio: float = CONTAINED_RATIO) -> float:
    """Return the similarity of a text to one *ratio* times its size that contains so much of it."""
    return containment / (1.0 + max(ratio, 1.0) - containment)


@lru_cache(maxsize=64)  # a command asks for the same plan in several places
def plan(
    threshold: float,
    *,
    slots: int,
    recall: float,
    layout: str = "bands",
    also: tuple[tuple[float, float], ...] = (),
) -> Shape:
    """Return the most selective shape that finds *recall* of the pairs at *threshold*.

    More rows mean fewer false candidates to verify. So the search goes from selective to
    permissive, and stops at the first row count that finds enough. For that row count it takes no
    more bands than needed (a multiple of four, or all), because every band is one more key to read
    and write for each document. No such shape raises `ValueError`.

    Args:
        threshold: Similarity of the pairs that must be found.
        slots: Number of slots of a signature.
        recall: Share of these pairs.
        layout: ``bands`` or ``random``.
        also: Further similarities, each with the share of its pairs that must be found.
    """

    def enough(shape: Shape) -> bool:
        return all(shape.probability(at) >= share for at, share in ((threshold, recall), *also))

    for rows in range(slots, 0, -1):
        most = slots // rows if layout == "bands" else min(RANDOM_KEYS_MAX, comb(slots, rows))
        if not enough(Shape(most, rows, slots, layout)):
            continue
        shapes = (Shape(bands, rows, slots, layout) for bands in (*range(4, most, 4), most))
        return next(filter(enough, shapes))
    if layout == "bands":
        raise ValueError(
            f"{slots} slots cannot reach recall {recall} at similarity {threshold}; "
            "raise `slots` or lower `recall`"
        )
    raise ValueError(
        f"{RANDOM_KEYS_MAX} random keys of {slots} slots cannot reach recall {recall} at "
        f"similarity {threshold}; give bands and rows by hand, or lower `recall`"
    )


def require(shape: Shape, *, threshold: float, recall: float) -> None:
    """Raise `MissesRecall` if *shape* finds less than *recall* of the pairs at *threshold*."""
    found = shape.probability(threshold)
    if found >= recall:
        return
    try:
        better = plan(threshold, slots=shape.slots, recall=recall, layout=shape.layout)
        cure = f"{better} finds {better.probability(threshold):.4f}"
    except ValueError as error:
        cure = str(error)
    got = f"{shape} finds {found:.4f} of the pairs at {threshold:g}, wanted {recall:g}"
    raise MissesRecall(got, cure)


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


@lru_cache(maxsize=4_096)
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
