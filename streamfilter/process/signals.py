"""SIGTERM and Ctrl-C as a wish that a loop looks at, and that a thread can hear of."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
READ_BYTES = 64


class StopSignals(threading.Event):
    """Set by SIGTERM and SIGINT; the loop looks at it between two batches.

    A handler of Python runs in the main thread, between two of its instructions: not while a
    library's call waits for a broker. But the interpreter writes each signal's number into a pipe
    as it comes, and there another thread finds it in time (`came`).
    """

    def __init__(self) -> None:
        """Take both signals over."""
        super().__init__()
        self._came = False
        self._heard, hears = os.pipe()
        for end in (self._heard, hears):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(hears, warn_on_full_buffer=False)
        for each in SIGNALS:
            signal.signal(each, self._tell)

    def _tell(self, number: int, frame: FrameType | None) -> None:
        self.set()

    def came(self) -> bool:
        """Return whether a signal came, also while the main thread is inside of a long call."""
        try:
            numbers = os.read(self._heard, READ_BYTES)
        except BlockingIOError:
            numbers = b""
        self._came = self._came or any(number in SIGNALS for number in numbers)
        return self._came
