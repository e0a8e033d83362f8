"""How long to try, how much at once, and when to rest.

A call whose error says that nothing is decided yet is repeated (`Patience`). Whole transactions
have a pace (`Pace`): a path to the brokers has a quota, a thin line, a slow disk. A batch that is
not delivered within the transaction's time would be sent whole again, for ever. So the next one is
half of it, the one after that a quarter of this, and it grows back by a quarter with each
transaction that took little of its time. What was learned outlives the producer: an undelivered
one is replaced.

And whatever fails transactions in a row, the next one waits, twice as long as the last, up to a
bound: each aborted one leaves its records in the logs, for every reader to read past.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from streamfilter.engine.ports import Clock, OutcomeUnknown, Retriable

PAUSE_SECONDS = 0.02
"""Between two tries: long enough not to burn a core, short against a transaction."""

P = ParamSpec("P")
T = TypeVar("T")

STRETCH_GROWTH = 4
"""After a batch was cut, the next try takes at most so many times the records that were judged.
What is left may have to be cut again, and each try judges all that it takes."""


class Patience:
    """Repeats calls, for a bounded time."""

    def __init__(
        self, clock: Clock, seconds: float, *, alive: Callable[[], None] = lambda: None
    ) -> None:
        """Have patience for *seconds*; *alive* hears of every call that returned or raised."""
        self._clock, self._seconds, self._alive = clock, seconds, alive

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what *function* returns, repeating it while it is retriable.

        Raises:
            OutcomeUnknown: it still was after the time was up.
        """
        deadline = self._clock.monotonic() + self._seconds
        while True:
            try:
                done = function(*args, **kwargs)
                self._alive()
                return done
            except Retriable as error:
                if self._clock.monotonic() >= deadline:
                    raise OutcomeUnknown(f"{error} (for {self._seconds:g} s)") from error
                self._alive()
                self._clock.sleep(PAUSE_SECONDS)


class Stopwatch:
    """Seconds between laps, by name."""

    def __init__(self, clock: Clock, spent: Callable[[str], None] = lambda _: None) -> None:
        """Begin the first lap; *spent* hears the name of every one that ends."""
        self._clock, self._last, self._spent = clock, clock.monotonic(), spent
        self.seconds: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Give the time since the last lap to *name*."""
        begun = self._last
        self.skip(name)
        self.seconds[name] = self.seconds.get(name, 0.0) + self._last - begun

    def skip(self, name: str) -> None:
        """Give the time since the last lap to nothing here: *name* is measured elsewhere."""
        self._last = self._clock.monotonic()
        self._spent(name)


REST_SECONDS_MIN, REST_SECONDS_MAX = 0.1, 5.0
"""After the first failure in a row, and at most: short against whatever fails for long, and long
against what a transaction leaves behind."""
OUTLIVED_SHARE = 0.9
"""Of a transaction's time. What failed after so much of it failed for want of time."""
HASTE_SHARE, EASE_SHARE = 0.5, 0.25
"""A transaction that took more of its time makes the next one smaller before it fails; one that
took less lets it grow."""
GROWTH = 1.25
SHARE_MIN = 1e-4
"""Of any batch that is one record: less would teach nothing, and take ever longer to grow back."""
SHRUNK_MAX = 16

Share = Callable[[], float]
"""Says how full a batch was."""


class Pace:
    """The pace of one task. It lives as long as the task, whatever becomes of its producers."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        """Begin at full size; a transaction has *seconds*."""
        self._clock, self._seconds = clock, seconds
        self.share = 1.0
        """Of the configured batch that is taken."""
        self.outlived = False
        """True when the last transaction failed for want of time: then a fence may be the broker's
        answer to its age, and another producer no sign of trouble."""
        self._failures = self._shrunk = 0
        self._rested = clock.monotonic()

    @property
    def resting(self) -> bool:
        """Return whether it is too early for another transaction."""
        return self._clock.monotonic() < self._rested

    @property
    def failures(self) -> int:
        """Return how many transactions in a row have failed."""
        return self._failures

    def committed(self, share: Share | None, seconds: float) -> None:
        """Learn from a transaction that took *seconds*; one without a batch has no *share*."""
        self._failures = self._shrunk = 0
        self.outlived = False
        if seconds > HASTE_SHARE * self._seconds:
            self._shrink(share, 2)
        elif seconds < EASE_SHARE * self._seconds:
            self.share = min(1.0, self.share * GROWTH)

    def failed(self, share: Share | None, seconds: float) -> None:
        """Learn from one that failed after *seconds*, and rest before the next."""
        self.outlived = seconds >= OUTLIVED_SHARE * self._seconds
        if self.outlived:
            self._shrunk = min(SHRUNK_MAX, self._shrunk + 1)
            self._shrink(share, 2**self._shrunk)
        self._failures += 1
        rest = REST_SECONDS_MIN * 2 ** min(self._failures - 1, 16)
        self._rested = self._clock.monotonic() + min(REST_SECONDS_MAX, rest)

    def _shrink(self, share: Share | None, divisor: int) -> None:
        # A slow transaction that holds no records (an idle commit, a changelog's first) says
        # nothing of how many pass in its time: taken for an empty batch it made all later ones
        # of a single record, for ever.
        if share is not None:
            self.share = max(SHARE_MIN, min(self.share, share() / divisor))
