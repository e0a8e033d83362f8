"""Does a task move what there is to move? A consumer may get nothing for ever, and say nothing.

The loop turns, the broker answers, records wait, and yet nothing is committed: no heartbeat shows
that. The end of the input does not either: markers and aborted records occupy offsets that no
consumer gets. So while nothing moves, another consumer is asked now and then: does it get a
record where ours stands? Only if it does, several times in a row, is the task stuck.

A broker that is away answers nobody, and that is no fault of ours: it is waited for. Counting
looks instead of seconds keeps a process that was paused from accusing itself.
"""

from __future__ import annotations

from streamfilter.engine.ports import Clock, Log, LogError
from streamfilter.model import Positions

LOOKS = 5
"""So many looks in a row must find an unread record before it counts."""


class Progress:
    """Watches one task's loop."""

    def __init__(self, log: Log, clock: Clock, *, seconds: float) -> None:
        """Begin as if something had just moved.

        Args:
            log: whose `unread` asks another consumer.
            clock: for the time between two looks.
            seconds: from the last move to the reason why the task is stuck.
        """
        self._log, self._clock, self._seconds = log, clock, seconds
        self.moved()

    def moved(self) -> None:
        """Say that something was moved, or that the task rests on purpose."""
        self._found = 0
        self._wait()

    def _wait(self) -> None:
        self._look_at = self._clock.monotonic() + self._seconds / LOOKS

    def reason(self, positions: Positions) -> str:
        """Return why the task that stands at *positions* is stuck; '' as long as it is not."""
        if self._clock.monotonic() >= self._look_at:
            self._found = self._found + 1 if self._unread(positions) else 0
            self._wait()
        if self._found < LOOKS:
            return ""
        return (
            f"nothing was committed for {self._seconds:g} s, though another consumer reads records "
            f"from the positions {dict(sorted(positions.items()))} on"
        )

    def _unread(self, positions: Positions) -> bool:
        try:
            return self._log.unread(positions)
        except LogError:
            return False  # who does not answer says nothing about us
