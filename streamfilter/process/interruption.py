"""The wish that work over files ends: noted by a signal's handler, obeyed at known places.

A handler that raises does it at whatever instruction is next, also inside a library's callback or
destructor: there the exception is swallowed, and a filter that was interrupted went on and
published. So the handler only notes, and the work asks: between two batches, while it waits for
input, and before its outputs appear.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from streamfilter.stops import ExitCode, Stop

SIGNALS = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


class Interrupted(Stop):
    """A person or a supervisor wanted an end; nothing was published."""


class Interruption:
    """Whether somebody wants an end."""

    def __init__(self) -> None:
        self._heard: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note SIGINT and SIGTERM. A second signal ends the process at once, as by default.

        One that is ignored stays ignored: a shell does that to what runs in the background.
        """
        if threading.current_thread() is not threading.main_thread():
            yield  # no thread but the main one may set handlers, or is interrupted
            return
        before = {number: signal.getsignal(number) for number in SIGNALS}
        heeded = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
        self._heard = None

        def note(number: int, _: FrameType | None) -> None:
            self._heard = number
            for each in heeded:
                signal.signal(each, signal.SIG_DFL)

        for number in heeded:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number in heeded:
                signal.signal(number, before[number])
            self._heard = None

    def obey(self) -> None:
        """Raise `Interrupted` if an end is wanted."""
        if self._heard is not None:
            message = "stopped; the outputs are as they were, run it again to finish"
            raise Interrupted(message, exit_code=SIGNALS[signal.Signals(self._heard)])


INTERRUPTION = Interruption()
"""One for the process, as signals are."""
