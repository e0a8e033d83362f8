"""How long nothing comes out, and whether the processes had a processor meanwhile.

A filter that stands still, and a machine on which forty threads wait for two processors, look the
same from outside. So each time has the share of the processor time that was asked for and given.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

LOOK_SECONDS = 1.0


class Standstill(NamedTuple):
    """The longer ones are the larger ones."""

    seconds: float = 0.0
    processor_share: float = 1.0
    """Of the processor time that filters and brokers wanted, what they got; 1.0: all of it."""


class Processors:
    """The processor time that processes used, and that they waited for, in nanoseconds."""

    def __init__(self) -> None:
        self.used = self.waited = 0
        self._known: dict[Path, tuple[int, int]] = {}
        self._look_at = 0.0

    def look(self, pids: Iterable[int]) -> None:
        """Count what the threads of *pids* used and waited for since the last look."""
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_SECONDS
        before, self._known = self._known, {}
        for pid in pids:
            for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with suppress(OSError, ValueError):
                    used, waited, _ = map(int, thread.read_text().split())
                    self._known[thread] = used, waited
                    known = before.get(thread, (0, 0))
                    self.used += used - known[0]
                    self.waited += waited - known[1]


class Silence:
    """The time since `begin` was called last."""

    def __init__(self, processors: Processors) -> None:
        self._processors = processors
        self.begin()

    def begin(self) -> None:
        self._at = time.monotonic()
        self._used, self._waited = self._processors.used, self._processors.waited

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._at

    def measured(self) -> Standstill:
        used = self._processors.used - self._used
        wanted = used + self._processors.waited - self._waited
        return Standstill(self.seconds, used / wanted if wanted else 1.0)
