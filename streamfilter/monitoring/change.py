"""Change of the audited quality, noticed pair by pair: Page's test (CUSUM).

The interval of the window answers how good the latest rounds were; thousands of good arrivals in
it hide for long that it has just become bad. The sum here asks of each audited pair only how much
better it fits the level worth an alarm than the healthy one: an error adds log(ALARMING / HEALTHY),
a right one takes log((1 - HEALTHY) / (1 - ALARMING)) off, and the sum never falls below zero. No
test that is so rarely wrong in health notices a change to that level sooner (Moustakides 1986).

Both steps are rounded to whole multiples of the smaller (Reynolds and Stoumbos 1999): an error
counts `ERROR`, a right one takes 1 off. So the score is a walk on whole numbers below `LIMIT`,
whose mean length is a small linear system: `LIMIT` is the least with which 10^5 pairs pass, in
health and on average, before a false alarm (tests/audit/test_change.py solves it).

It believes that errors come one by one. A family of copies that is missed together counts as often
as copies of it were chosen: that is a fall of recall too, but soon told. A stream whose errors are
always 1 in 20 or more (`1 / (ERROR + 1)`) is told again and again: its level is the alarm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from streamfilter.matching.audit_sample import ArrivalKind
from streamfilter.matching.audit_scan import Round

HEALTHY = 0.02
"""Share of errors of a healthy stream: bands of the default `similarity.recall` miss 1 in 100 at
the threshold, and fewer above; where signatures decide, 1 in 40 verdicts was wrong (test_doubt)."""
ALARMING = 0.1
"""Share of errors that is worth an alarm. About half of it the walk has no drift: below it falls,
above it rises; and there, at .05, is the line of the alert AuditedRecallLow."""
ERROR = round(log(ALARMING / HEALTHY) / log((1 - HEALTHY) / (1 - ALARMING)))
"""What an error adds, where a right pair takes 1 off: 19."""
LIMIT = 95
"""A score that tells a change: five errors in a row; a right pair between them is one less."""

FIGURES = ("recall", "wrong")
"""``recall``: of the chosen arrivals with an original of another text, those missed are errors;
``wrong``: of the chosen near-duplicates, those that are similar to nothing."""


@dataclass(slots=True)
class ChangeDetector:
    """What is remembered of all pairs so far: two numbers."""

    score: int | None = None
    """What speaks for a change, 0 to `LIMIT`; None: nothing was seen yet."""
    changes: int = 0
    """How often a change was told; the score begins anew with each."""

    def see(self, errors: Iterable[bool]) -> None:
        """Take audited pairs in the order of their arrival."""
        for error in errors:
            self.score = max(0, (self.score or 0) + (ERROR if error else -1))
            if self.score >= LIMIT:
                self.score, self.changes = 0, self.changes + 1

    @property
    def share(self) -> float | None:
        """Return the score as a share of the limit, as it is shown."""
        return None if self.score is None else self.score / LIMIT


def errors_of(found: Round) -> dict[str, NDArray[np.bool_]]:
    """Return by `FIGURES` which of a round's known pairs are errors, in the order of arrival.

    Near-duplicates and unique arrivals were chosen with one chance, so those with an original are
    a random part of all such: the share of the missed ones is that of the whole stream. Where
    sets were cut the second look repeats the verdict: what cannot be an error would hide others.
    """
    near = (found.kinds == ArrivalKind.NEAR) & found.whole
    unique = (found.kinds == ArrivalKind.UNIQUE) & found.whole
    similar = found.similarity > 0
    pairs = similar & (near | (unique & ~found.equal))
    return {"recall": unique[pairs], "wrong": ~similar[near]}
