"""SIGTERM and Ctrl-C as a wish that a loop looks at."""

from __future__ import annotations

import signal
import threading
from types import FrameType


def stop_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; the loop looks at it between two batches."""
    told = threading.Event()

    def tell(number: int, frame: FrameType | None) -> None:
        told.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, tell)
    return told
