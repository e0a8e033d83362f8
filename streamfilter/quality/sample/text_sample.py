"""Brute force against the bands: checks the S-curve on a sample of real texts.

A pair that is similar enough but shares no key is a *false negative* of the bands. A pair that
shares a key but is not similar enough is a *false positive*; verification rejects it. The
recommended threshold has few pairs close to it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins
from numpy.typing import NDArray

from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import SEED_BYTES
from streamfilter.process.signals import INTERRUPTION
from streamfilter.quality.sample.brute_force import Missed, Pairs, all_pairs, missed_as_text
from streamfilter.quality.sample.measured_curve import CurveBin, measured_curve, met_of
from streamfilter.similarity.sketch import Sketcher, Values
from streamfilter.similarity.statistics.shape import Shape
from streamfilter.stops import counted

FLOOR = 0.2
"""Pairs with a lower similarity are ignored: there are too many, and hardly any share a key."""

SEEDS = 8  # number of seeds with which the curve is measured

CLOSE = 0.02  # a pair this close to the threshold may fall to either side if a comma changes

REACH = 0.1  # largest distance from the threshold to a recommended one
MANY = 3  # fewest pairs close to the threshold for which another threshold is considered


class BruteForceSample(Struct, frozen=True):
    """The result of brute force over texts."""

    documents: int
    threshold: float
    shape: Shape
    similar: int  # pairs at or above the threshold, or contained
    found: int  # how many of the similar pairs share a band
    false_candidates: int
    """Pairs from `FLOOR` up to the threshold that share a band: they are compared in vain. The
    earlier document must be a forwarded one, because withheld documents are in no index."""
    missed: tuple[Missed, ...]  # the most similar pairs that share no band
    curve: tuple[CurveBin, ...]
    pairs: Pairs
    """All pairs with a similarity of at least `FLOOR`, or the threshold if that is lower."""
    recommendation: str

    def as_json(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "threshold": self.threshold,
            **to_builtins(self.shape),
            "similar_pairs": self.similar,
            "false_negatives": self.similar - self.found,
            "false_positives": self.false_candidates,
            "missed": [to_builtins(each) for each in self.missed],
            "curve": [each.as_json() for each in self.curve],
            "recommendation": self.recommendation,
        }

    def as_text(self) -> str:
        false = self.false_candidates / max(self.documents, 1)
        return "\n".join([
            f"bands          {self.shape}: {self.found:,} of {counted(self.similar, 'pair')} from "
            f"{self.threshold:g} on share a band, {self.similar - self.found:,} do not (false "
            "negatives)",
            f"               {counted(self.false_candidates, 'pair')} below it with a forwarded "
            f"document share a band and are rejected (false positives), {false:.2f} a document",
            "",
            "pairs of different texts; copies of a text count once",
            "similarity         pairs       met   measured   95 % interval   theory",
            *map(str, self.curve),
            *missed_as_text(self.missed, "J"),
            "",
            f"recommended    {self.recommendation}",
        ])  # fmt: skip


def measure(
    ids: Sequence[str],
    texts: Sequence[str],
    sketcher: Sketcher,
    *,
    policy: MatchPolicy,
    kept: NDArray[np.bool_],
    scopes: Sequence[str | None] | None = None,
    values: Sequence[Values] = (),
) -> BruteForceSample:
    """Compare all pairs of *texts* in one scope that agree in what they must; find shared bands.

    *kept* says which texts a filter forwards: only these can be candidates of later texts. *values*
    are those beside the texts.
    """
    threshold, floor = policy.threshold, min(FLOOR, policy.threshold)
    pairs = all_pairs(texts, sketcher, floor=floor, contains=policy.contains).within(scopes)
    sketches = sketcher.sketch(texts, values)
    keys, contents = sketches.keys[:, :-1], sketches.contents
    if contents.agreeing:
        number = contents.agreement
        pairs = pairs.chosen(number[pairs.later] == number[pairs.earlier])
    shape = Shape.of(sketcher.scheme)
    met = met_of(pairs, keys)
    similar = (pairs.similarity >= threshold) | pairs.contained
    false = int((met & ~similar & kept[pairs.earlier]).sum())
    return BruteForceSample(
        documents=len(texts),
        threshold=threshold,
        shape=shape,
        similar=int(similar.sum()),
        found=int((similar & met).sum()),
        false_candidates=false,
        missed=pairs.most_similar(ids, similar & ~met),
        curve=tuple(
            measured_curve(pairs, [keys, *_other_keys(texts, sketcher)], shape.probability)
        ),
        pairs=pairs,
        recommendation=_recommend(pairs, threshold),
    )


def _other_keys(texts: Sequence[str], sketcher: Sketcher) -> Iterator[NDArray[np.uint64]]:
    """Yield the keys under other seeds: repeated trials for the curve."""
    for number in range(1, SEEDS):
        INTERRUPTION.obey()
        other = Sketcher(sketcher.scheme, seed=bytes([number] * SEED_BYTES))
        yield other.sketch(texts).keys[:, :-1]


def _recommend(pairs: Pairs, threshold: float) -> str:
    """Return in words whether to keep the threshold, with the numbers behind it."""
    wanted = _quieter(pairs, threshold)
    if wanted is None:
        return (
            f"keep the threshold {threshold:g}; `streamfilter plan` chooses bands and rows for it"
        )
    return (
        f"{_close(pairs, threshold)} pairs lie within {CLOSE:g} of the threshold {threshold:g} and "
        f"may fall to either side; only {_close(pairs, wanted)} do at {wanted:.2f}"
    )


def _close(pairs: Pairs, threshold: float) -> int:
    return int((np.abs(pairs.similarity - threshold) < CLOSE).sum())


def _quieter(pairs: Pairs, threshold: float) -> float | None:
    """Return the nearest threshold with far fewer close pairs; None if there is none.

    Its own neighbourhood must have no better one.
    """
    close = _close(pairs, threshold)
    if close < MANY:
        return None
    top = min(threshold + REACH, 0.98)
    points = np.round(np.arange(threshold - REACH, top + 1e-9, 0.01), 2).tolist()
    quiet = [point for point in points if point > 0 and _close(pairs, point) <= close / 2]
    fewest = min((_close(pairs, point) for point in quiet), default=0)
    best = [point for point in quiet if _close(pairs, point) == fewest]
    best.sort(key=lambda point: abs(point - threshold))
    # If a candidate had a better threshold near it, the next run would recommend a change again.
    return next((point for point in best if _quieter(pairs, point) is None), None)
