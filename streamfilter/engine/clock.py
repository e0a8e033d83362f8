"""The real clock; a simulator brings its own."""

from __future__ import annotations

import time


class SystemClock:
    """`streamfilter.engine.ports.Clock` by the operating system."""

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        return time.monotonic()

    def wall_milliseconds(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Do nothing for *seconds*."""
        time.sleep(seconds)
