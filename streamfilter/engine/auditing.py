"""The audit's share of the engine's one thread: so much of the time, and no more.

Comparing a sample with a large index takes minutes to hours of work. It is done in slices of some
milliseconds, after a batch and while nothing comes in, as long as all slices together stay below
the share of the time that was given to them. Verdicts never wait for what it finds.
"""

from __future__ import annotations

from collections.abc import Callable

from streamfilter.engine.observer import Moved
from streamfilter.engine.ports import Clock
from streamfilter.matching.audit import Audit
from streamfilter.matching.audit_scan import Round
from streamfilter.matching.pipeline import Judgement
from streamfilter.similarity.sketch import Sketches

CREDIT_SECONDS = 0.05
"""Time that may be saved up: the longest that a batch is held back by it, but for one slice."""
SLICE_SECONDS_MIN = 0.0005
"""What a slice costs at least: a clock that stands still does not make the turn endless."""


class Auditing:
    """Gives one task's audit its time.

    A slice begins when the time that the last one took has been saved up, not on credit: who begins
    with any credit left is one slice above the share after each batch, and the dearest slice ends a
    round.
    """

    def __init__(
        self, audit: Audit, clock: Clock, tell: Callable[[Round], None], *, share: float
    ) -> None:
        self._audit, self._clock, self._tell, self._share = audit, clock, tell, share
        self._credit, self._seen = 0.0, clock.monotonic()
        self._slice = SLICE_SECONDS_MIN

    def moved(self, moved: Moved) -> None:
        """Choose among a batch that is new and has been written; compare, if there is time."""
        judgement, sketches = moved.decided.judgement, moved.decided.prepared.sketches
        if judgement is not None and sketches is not None:
            self.choose(sketches, judgement, first_ordinal=moved.first_ordinal)
        self.look()

    def choose(self, sketches: Sketches, judgement: Judgement, *, first_ordinal: int) -> None:
        """Choose among a batch that is new and has been written."""
        begun = self._clock.monotonic()
        self._audit.batch(sketches, judgement, first_ordinal=first_ordinal)
        self._credit -= self._clock.monotonic() - begun

    def look(self) -> None:
        """Compare slices while there is time for them; tell of the rounds that this completes."""
        now = self._clock.monotonic()
        self._credit = min(CREDIT_SECONDS, self._credit + self._share * (now - self._seen))
        while self._credit >= self._slice and self._audit.waiting:
            found, begun = self._audit.look(), now
            if found is not None:
                self._tell(found)
            now = self._clock.monotonic()
            cost = max(now - begun, SLICE_SECONDS_MIN)
            self._credit -= cost
            self._slice = min(cost, CREDIT_SECONDS)
        self._seen = now
