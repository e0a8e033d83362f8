"""Limits the audit to its share of the engine's one thread.

Comparing a sample with a large index takes minutes to hours of work. It is done in slices of a few
milliseconds, after a batch and while no record arrives. All slices together stay within the
audit's share of the time. Verdicts never wait for its results.
"""

from __future__ import annotations

from collections.abc import Callable

from streamfilter.matching.batch import Decided
from streamfilter.matching.pipeline import Judgement
from streamfilter.quality.live.audit import Audit
from streamfilter.quality.live.audit_scan import Round
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Sketches

CREDIT_SECONDS = 0.05
"""Most time that may be saved up. It is the longest delay of a batch, except for one slice."""
SLICE_SECONDS_MIN = 0.0005
"""Least time that a slice counts, so that the loop ends even if the clock stands still."""


class Auditing:
    """Runs the slices of one task's audit.

    A slice begins only when the saved time covers the duration of the previous slice. If a slice
    began with any saved time, each batch would exceed the share by one slice. The slice that ends
    a round takes the longest.
    """

    def __init__(
        self,
        audit: Audit,
        clock: Callable[[], float],
        tell: Callable[[Round], None],
        *,
        share: float,
    ) -> None:
        """Begin with no saved time; *clock* returns monotonic seconds."""
        self._audit, self._clock, self._tell, self._share = audit, clock, tell, share
        self._credit, self._seen = 0.0, clock()
        self._slice = SLICE_SECONDS_MIN

    def batch(self, decided: Decided, *, first_ordinal: int) -> None:
        """Sample from a batch that is new and written; compare, if there is time."""
        judgement, sketches = decided.judgement, decided.prepared.sketches
        if judgement is not None and sketches is not None:
            self.choose(
                sketches,
                judgement,
                first_ordinal=first_ordinal,
                since=decided.extent.since(len(sketches)),
                removed=len(decided.forgotten.stored),
            )
        self.look()

    def choose(
        self,
        sketches: Sketches,
        judgement: Judgement,
        *,
        first_ordinal: int,
        since: I64 | None = None,
        removed: int = 0,
    ) -> None:
        """Sample from a batch that is new and written, as `Audit.batch` does."""
        begun = self._clock()
        self._audit.batch(
            sketches, judgement, first_ordinal=first_ordinal, since=since, removed=removed
        )
        self._credit -= self._clock() - begun

    def look(self) -> None:
        """Compare slices while there is time for them; report every round that is completed."""
        now = self._clock()
        self._credit = min(CREDIT_SECONDS, self._credit + self._share * (now - self._seen))
        while self._credit >= self._slice and self._audit.waiting:
            found, begun = self._audit.look(), now
            if found is not None:
                self._tell(found)
            now = self._clock()
            cost = max(now - begun, SLICE_SECONDS_MIN)
            self._credit -= cost
            self._slice = min(cost, CREDIT_SECONDS)
        self._seen = now
