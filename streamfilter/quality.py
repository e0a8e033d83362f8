"""How good the verdicts of this process are, as far as it can know: sums, a window, estimates.

The weights' sums run since the start, as their counters do. The audit's results are kept for
the latest 1,000 documents that it could decide about: a figure over the whole life of a process
would hide that a change of the input made it worse an hour ago.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfilter.audit import Audited
from streamfilter.similarity.estimators import (
    Curve,
    Estimate,
    Expected,
    expected_pairs,
    precision_by_chances,
    recall_by_weights,
    wilson,
)

F64 = NDArray[np.float64]

DECIDED_MAX = 1_000
"""Audited documents with an original, or said to have one, that the window holds."""

CHANCE_MIN = 1e-6
"""No found pair stands for more than a million: containment may confirm what hardly ever meets."""

NOBODY = Expected(0, 0.0, 0.0)


class Quality:
    """The quality of one process's verdicts; not safe for several threads."""

    def __init__(self) -> None:
        self.curve: Curve | None = None
        """The S-curve of the scheme; without one nothing is weighted."""
        self._expected = NOBODY
        self._verdicts, self._wrong = 0, 0.0
        self._window: deque[Audited] = deque()
        self._decided = 0

    def matched(self, similarity: F64) -> Expected:
        """Take the confirmed matches of near-duplicates; return what they stand for."""
        if self.curve is None or not similarity.size:
            return NOBODY
        chances = np.maximum(self.curve(similarity), CHANCE_MIN)
        new, old = expected_pairs(chances), self._expected
        pairs, variance = old.pairs + new.pairs, old.variance + new.variance
        self._expected = Expected(old.found + new.found, pairs, variance)
        return new

    def withheld(self, verdicts: int, wrong: float) -> None:
        """Take a number of duplicate verdicts and how many of them are expected to be wrong."""
        self._verdicts += verdicts
        self._wrong += wrong

    def audited(self, audited: Audited) -> None:
        """Take what an audit found; the oldest that the window need not hold goes."""
        if not _decided(audited):
            return
        self._window.append(audited)
        self._decided += _decided(audited)
        while self._decided - _decided(self._window[0]) >= DECIDED_MAX:
            self._decided -= _decided(self._window.popleft())

    def audit_recall(self) -> Estimate | None:
        """Return the share of audited documents with an original that were withheld."""
        found = sum(each.true_positive for each in self._window)
        return wilson(found, found + sum(each.false_negative for each in self._window))

    def audit_precision(self) -> Estimate | None:
        """Return the share of audited duplicate verdicts that are right."""
        right = sum(each.true_positive for each in self._window)
        return wilson(right, right + sum(each.false_positive for each in self._window))

    def told(self) -> dict[str, Any]:
        """Return all of it for ``/status``; an estimate is null while nothing speaks for it."""
        return {
            "recall_by_weights": _told(recall_by_weights(self._expected)),
            "precision_by_chances": _told(precision_by_chances(self._verdicts, self._wrong)),
            "audit_recall": _told(self.audit_recall()),
            "audit_precision": _told(self.audit_precision()),
            "matches": self._expected.found,
            "matches_expected": round(self._expected.pairs, 2),
            "wrong_expected": round(self._wrong, 4),
            "audit_decided": self._decided,
        }


def _decided(audited: Audited) -> int:
    return audited.true_positive + audited.false_positive + audited.false_negative


def _told(estimate: Estimate | None) -> dict[str, float] | None:
    if estimate is None:
        return None
    value, lower, upper = estimate.value, estimate.lower, estimate.upper
    return {"value": round(value, 6), "lower": round(lower, 6), "upper": round(upper, 6)}
