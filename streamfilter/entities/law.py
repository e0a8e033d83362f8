"""The law of a score: two records, one field after the other, with plain numbers.

The columns of `scoring.FieldRules` must give the same. Tests compare both on random streams.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamfilter.entities.kinds import KINDS
from streamfilter.entities.scoring import ALIKE, POINTS, FieldRules, points_of


def score(rules: FieldRules, mine: Sequence[str], theirs: Sequence[str]) -> float:
    """Return the points of two records' fields, divided by the highest possible points.

    Without ``minimum`` all fields count. With it, only those that both have; so many must be
    alike, and a field that people change counts half where it differs.
    """
    score = highest = alike = 0.0
    weights = rules.weights or (1.0,) * len(rules.kinds)
    for kind, weight, one, other in zip(rules.kinds, weights, mine, theirs, strict=True):
        there = bool(one and other)
        points = float(points_of([one], [other], kind)[0]) if there else 0.0
        score += weight * points
        alike += points >= ALIKE
        if rules.minimum is None:
            highest += weight * POINTS
        elif there:
            highest += weight * max(points, POINTS * KINDS[kind].changes)
    if not highest or alike < (rules.minimum or 0):
        return 0.0
    return score / highest
