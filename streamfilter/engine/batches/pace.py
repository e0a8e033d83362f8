"""Retries, adaptive batch size and back-off.

`Patience` repeats a call while its error says that the outcome is not decided yet.

`Pace` adapts the batch size to the speed of delivery. A quota, a thin line or a slow disk may limit
it. Without `Pace`, a batch too large for the transaction timeout would be sent again for ever.
After the first timeout the batch is halved. After the second in a row it is a quarter of that,
then an eighth of that. It grows back by a quarter with each fast transaction. The size outlives
the producer, because a producer with an undelivered batch is replaced.

After each failure in a row, whatever its cause, the pause is twice as long, up to a bound. An
aborted transaction leaves its records in the logs, where every reader has to skip them.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from streamfilter.engine.ports import Clock, OutcomeUnknown, Retriable

PAUSE_SECONDS = 0.02  # between two tries: it spares the processor; a transaction is longer

P = ParamSpec("P")
T = TypeVar("T")

STRETCH_GROWTH = 4
"""After a batch was cut, the next try takes at most so many times the records that were judged.
The rest may have to be cut again, and each try judges all of its records."""


class Patience:
    """Repeats calls, for a bounded time."""

    def __init__(
        self, clock: Clock, seconds: float, *, alive: Callable[[], None] = lambda: None
    ) -> None:
        """Retry for *seconds*; call *alive* after every call that returned or raised."""
        self._clock, self._seconds, self._alive = clock, seconds, alive

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what *function* returns; repeat it while retriable, or raise `OutcomeUnknown`."""
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
        """Begin the first lap; call *spent* with the name of every lap that ends."""
        self._clock, self._last, self._spent = clock, clock.monotonic(), spent
        self.seconds: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Add the time since the last lap to *name*."""
        begun = self._last
        self.skip(name)
        self.seconds[name] = self.seconds.get(name, 0.0) + self._last - begun

    def skip(self, name: str) -> None:
        """Skip the time since the last lap here: *name* is measured elsewhere."""
        self._last = self._clock.monotonic()
        self._spent(name)


REST_SECONDS_MIN, REST_SECONDS_MAX = 0.1, 5.0
"""Pause after the first failure in a row, and the longest pause. It is short against a long outage,
and long enough that aborted records stay few."""
OUTLIVED_SHARE = 0.9  # a transaction that fails after this share of its time has timed out
HASTE_SHARE, EASE_SHARE = 0.5, 0.25
"""A transaction that took more of its time makes the next one smaller before it fails; one that
took less lets it grow."""
GROWTH = 1.25
SHARE_MIN = 1e-4  # any batch is one record. A smaller share only recovers later
SHRUNK_MAX = 16

Share = Callable[[], float]  # returns how full a batch was, 0 to 1


class Pace:
    """The pace of one task. It outlives the task's producers."""

    def __init__(self, clock: Clock, seconds: float, *, fixed: bool = False) -> None:
        """Begin at full size, and stay there if *fixed*; a transaction has *seconds*."""
        self._clock, self._seconds = clock, seconds
        self.fixed = fixed
        """Whether a batch depends only on where it begins and on the index, as those of a seed. A
        batch that ended early is then followed by a full one."""
        self.share = 1.0  # share of the configured batch size that a batch may have
        self.outlived = False
        """True if the last transaction timed out. Then a fence may be the broker's answer to the
        timeout, and a new producer is no sign of trouble."""
        self.failures = self._shrunk = 0  # transactions in a row
        self._rested = clock.monotonic()

    @property
    def resting(self) -> bool:
        """Return whether the pause after a failure is still running."""
        return self._clock.monotonic() < self._rested

    def committed(self, share: Share | None, seconds: float) -> None:
        """Adapt to a transaction that took *seconds*; one without a batch has no *share*."""
        self.failures = self._shrunk = 0
        self.outlived = False
        if seconds > HASTE_SHARE * self._seconds:
            self._shrink(share, 2)
        elif seconds < EASE_SHARE * self._seconds:
            self.share = min(1.0, self.share * GROWTH)

    def failed(self, share: Share | None, seconds: float) -> None:
        """Adapt to a transaction that failed after *seconds*, and pause before the next."""
        self.outlived = seconds >= OUTLIVED_SHARE * self._seconds
        if self.outlived:
            self._shrunk = min(SHRUNK_MAX, self._shrunk + 1)
            self._shrink(share, 2**self._shrunk)
        self.failures += 1
        rest = REST_SECONDS_MIN * 2 ** min(self.failures - 1, 16)
        self._rested = self._clock.monotonic() + min(REST_SECONDS_MAX, rest)

    def _shrink(self, share: Share | None, divisor: int) -> None:
        # A slow transaction without records (an idle commit, a changelog's first) does not show
        # how many records fit. Counted as an empty batch, it would shrink all later batches to
        # a single record.
        if share is not None and not self.fixed:
            self.share = max(SHARE_MIN, min(self.share, share() / divisor))
