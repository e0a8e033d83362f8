"""Repeating a call as long as its error says that nothing is decided yet; and a stop-watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from streamfilter.engine.ports import Clock, OutcomeUnknown, Retriable

PAUSE_SECONDS = 0.02
"""Between two tries: long enough not to burn a core, short against a transaction."""

P = ParamSpec("P")
T = TypeVar("T")


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


class Watch:
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
