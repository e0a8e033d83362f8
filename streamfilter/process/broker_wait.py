"""Waits for a broker or a registry that does not answer yet, for commands that run once."""

import time
from collections.abc import Callable
from typing import TypeVar

from streamfilter.process import standard

T = TypeVar("T")

AGAIN_SECONDS = 0.5


class Waiting:
    """One deadline for all waits of a command."""

    def __init__(self, seconds: float, *, quiet: float = 0.0) -> None:
        """Wait for so many *seconds* in all; say so if it takes longer than *quiet* seconds."""
        begun = time.monotonic()
        self._seconds, self._until, self._say_at = seconds, begun + seconds, begun + quiet
        self._said = False

    @property
    def left(self) -> float:
        """Return the seconds until the deadline, 0 after it."""
        return max(0.0, self._until - time.monotonic())

    def awaited(
        self,
        call: Callable[[], T],
        *errors: type[Exception],
        hopeless: Callable[[Exception], bool] = lambda _: False,
    ) -> T:
        """Return what *call* returns; repeat it after *errors* until the deadline or *hopeless*."""
        while True:
            try:
                return call()
            except errors as error:
                if not self.left or hopeless(error):
                    raise
                why = str(error)
            if not self._said and time.monotonic() >= self._say_at:
                standard.say(f"waiting up to {self._seconds:g} s (kafka.start_timeout): {why}")
                self._said = True
            time.sleep(AGAIN_SECONDS)
