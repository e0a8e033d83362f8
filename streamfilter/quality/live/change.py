"""Detects a change of the audited quality, pair by pair: Page's test (CUSUM).

The interval over the window shows how good the latest rounds were. A sudden fall stays hidden in it
for long, behind thousands of good arrivals. This test is faster.

It keeps a sum of log-likelihood ratios: how much better each audited pair fits the alarming level
than the healthy one. An error adds log(ALARMING / HEALTHY). A right pair subtracts
log((1 - HEALTHY) / (1 - ALARMING)). The sum never falls below zero. No test with as few false
alarms detects a change to that level sooner (Moustakides 1986).

Both steps are rounded to whole multiples of the smaller one (Reynolds and Stoumbos 1999): an error
adds `ERROR`, a right pair subtracts 1. So the score is a random walk on the integers below `LIMIT`,
and a small linear system gives its mean length. `LIMIT` is the smallest limit with at least 10^5
healthy pairs on average before a false alarm (tests/audit/test_change.py solves the system).

For example, with the steps +19 and -1, the pairs right, error, error, right give the scores
0, 19, 38, 37.

The test assumes that errors are independent. If a family of copies is missed together, each
audited copy counts. That too is a fall of recall, but the alarm comes early. A stream that always
has 1 error in 20 pairs or more (`1 / (ERROR + 1)`) raises the alarm again and again.
"""

from collections.abc import Iterable
from math import log

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamfilter.quality.live.audit_sample import ArrivalKind
from streamfilter.quality.live.audit_scan import Round

HEALTHY = 0.02
"""Share of errors in a healthy stream. The bands of the default `similarity.recall` miss 1 in 100
at the threshold, and fewer above. If signatures decide, 1 in 40 verdicts is wrong (test_doubt)."""
ALARMING = 0.1
"""Share of errors that raises an alarm. At about half of it the score has no drift: it falls below
that share and rises above. The alert AuditedRecallLow also uses that share, .05."""
ERROR = round(log(ALARMING / HEALTHY) / log((1 - HEALTHY) / (1 - ALARMING)))
"""Added for an error: 19. A right pair subtracts 1."""
LIMIT = 95
"""Score that counts as a change: five errors in a row; each right pair between them costs 1."""

FIGURES = ("recall", "wrong")
"""``recall``: errors are missed arrivals, among the chosen ones with an original of another text.
``wrong``: errors are near-duplicates that are similar to nothing, among the chosen ones."""


class ChangeDetector(Struct):
    """The state of the test after all pairs so far: two numbers."""

    score: int | None = None  # evidence for a change, 0 to `LIMIT`; None before the first pair
    changes: int = 0  # number of changes detected; the score restarts at 0 after each

    def see(self, errors: Iterable[bool]) -> None:
        """Add audited pairs in the order of their arrival."""
        for error in errors:
            self.score = max(0, (self.score or 0) + (ERROR if error else -1))
            if self.score >= LIMIT:
                self.score, self.changes = 0, self.changes + 1

    @property
    def share(self) -> float | None:
        """Return the score as a share of the limit, as exported."""
        return None if self.score is None else self.score / LIMIT


def errors_of(found: Round) -> dict[str, NDArray[np.bool_]]:
    """Return by `FIGURES` which of a round's known pairs are errors, in the order of arrival.

    Near-duplicates and unique arrivals were chosen with the same probability. So the chosen ones
    with an original are a random sample of all such, and their share of misses is unbiased.

    Arrivals with cut sets are left out: the audit repeats their verdict and never finds an error,
    which would hide the errors of others.
    """
    near = (found.kinds == ArrivalKind.NEAR) & found.whole
    unique = (found.kinds == ArrivalKind.UNIQUE) & found.whole
    similar = found.similarity > 0
    pairs = similar & (near | (unique & ~found.equal))
    return {"recall": unique[pairs], "wrong": ~similar[near]}
