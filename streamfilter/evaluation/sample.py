"""Brute force against the bands: what the S-curve promises, measured on a sample of real texts.

A pair is a *false negative* of the bands if it is similar enough and shares no key, a *false
positive* if it shares one and is not (verification rejects it). From both follows what to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamfilter.evaluation.brute_force import Pairs, all_pairs
from streamfilter.evaluation.measured_curve import Bucket, measured_curve, met_of
from streamfilter.similarity.shape import Shape, plan
from streamfilter.similarity.sketch import Sketcher

FLOOR = 0.2
"""Pairs below it are not looked at: there are too many, and hardly any of them meet."""

EXAMPLES = 5
CLOSE = 0.02
"""Pairs so near to the threshold fall to either side with a changed comma."""

REACH = 0.1
"""How far another threshold may be and still mean the same thing."""
MANY = 3
"""So many pairs on the edge are worth a word."""

REJECTED_MANY = 5.0
"""False candidates a document from which on another shape is worth a thought."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A pair that is similar and never met."""

    id: str
    other: str
    similarity: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What brute force found."""

    documents: int
    threshold: float
    shape: Shape
    similar: int
    """Pairs at or above the threshold."""
    found: int
    """How many of them share a band."""
    false_candidates: int
    """Pairs from `FLOOR` up to the threshold that share a band."""
    missed: tuple[Missed, ...]
    """The most similar ones."""
    curve: tuple[Bucket, ...]
    pairs: Pairs
    """All of them from `FLOOR` on."""
    recommendation: str


def measure(
    ids: Sequence[str], texts: Sequence[str], sketcher: Sketcher, *, threshold: float, recall: float
) -> Sample:
    """Compare all pairs of *texts* and see which of them share a band."""
    pairs = all_pairs(texts, sketcher, floor=min(FLOOR, threshold))
    keys = sketcher.sketch(texts).keys[:, :-1]
    shape = Shape.of(sketcher.scheme)
    met = met_of(pairs, keys)
    similar = pairs.similarity >= threshold
    lost = np.flatnonzero(similar & ~met)
    worst = lost[np.argsort(-pairs.similarity[lost], kind="stable")][:EXAMPLES]
    false = int((met & ~similar).sum())
    return Sample(
        documents=len(texts),
        threshold=threshold,
        shape=shape,
        similar=int(similar.sum()),
        found=int((similar & met).sum()),
        false_candidates=false,
        missed=tuple(
            Missed(ids[pairs.later[i]], ids[pairs.earlier[i]], float(pairs.similarity[i]))
            for i in worst.tolist()
        ),
        curve=tuple(measured_curve(pairs, keys, shape.probability)),
        pairs=pairs,
        recommendation=_recommend(pairs, shape, threshold, recall, false / max(len(texts), 1)),
    )


def _recommend(pairs: Pairs, shape: Shape, threshold: float, recall: float, rejected: float) -> str:
    """Return in words what to keep or to change, with the numbers that say so."""
    advice = [*_about_shape(pairs, shape, threshold, recall, rejected)]
    gap = _gap(pairs, threshold)
    if gap:
        advice.append(gap)
    if not advice:
        found = _expected_recall(pairs, shape, threshold)
        advice.append(f"keep {shape} and the threshold {threshold:g}: {found}")
    return "; ".join(advice)


def _expected_recall(pairs: Pairs, shape: Shape, threshold: float) -> str:
    similar = pairs.from_(threshold).similarity
    if not len(similar):
        return "no pair of this sample reaches the threshold; take a larger --sample to be sure"
    chances = np.array([shape.probability(s) for s in similar.tolist()])
    return f"it finds {chances.mean():.4f} of pairs that are as similar as these"


def _about_shape(
    pairs: Pairs, shape: Shape, threshold: float, recall: float, rejected: float
) -> list[str]:
    at = shape.probability(threshold)
    if at < recall:
        try:
            better = plan(threshold, slots=shape.slots, recall=recall, layout=shape.layout)
        except ValueError as error:
            return [str(error)]
        finds = f"{better} finds {better.probability(threshold):.3f}"
        return [f"{shape} finds {at:.3f} of the pairs at {threshold:g}, wanted {recall:g}: {finds}"]
    if rejected > REJECTED_MANY:
        return [
            f"{rejected:.1f} candidates a document are compared in vain: more similarity.slots "
            "(200 or 256) make a steeper curve, longer shingles make chance meetings rarer"
        ]
    return []


def _gap(pairs: Pairs, threshold: float) -> str:
    """Return a better threshold if many pairs lie close to this one and few elsewhere."""
    close = int((np.abs(pairs.similarity - threshold) < CLOSE).sum())
    if close < MANY:
        return ""
    points = np.round(np.arange(threshold - REACH, min(threshold + REACH, 0.98) + 1e-9, 0.01), 2)
    counts = np.array([int((np.abs(pairs.similarity - point) < CLOSE).sum()) for point in points])
    quiet = points[counts == counts.min()]
    best = float(quiet[np.argmin(np.abs(quiet - threshold))])
    if counts.min() > close / 2:
        return ""
    return (
        f"{close} pairs lie within {CLOSE:g} of the threshold {threshold:g} and may fall to either "
        f"side; only {counts.min()} do at {best:.2f}"
    )
