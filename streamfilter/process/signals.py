"""SIGTERM and Ctrl-C: a wish that a handler notes, and that the work obeys at known places.

A handler that raises does it at whatever instruction is next, also inside a library's callback or
destructor: there the exception is swallowed, and a filter that was interrupted went on and
published. So the handler only notes, and the work asks: between two batches, while it waits for
input, and before its outputs appear.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from streamfilter.stops import ExitCode, Stop

SIGNALS = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}
READ_BYTES = 64


class Interrupted(Stop):
    """A person or a supervisor wanted an end; nothing was published."""


class Interruption(threading.Event):
    """Whether somebody wants an end."""

    def __init__(self) -> None:
        super().__init__()
        self._heard: int | None = None
        self._came = False
        self._pipe = -1

    @contextmanager
    def listening(
        self, *, again: Callable[[int, Any], Any] | signal.Handlers | None = signal.SIG_DFL
    ) -> Iterator[None]:
        """Note SIGINT and SIGTERM inside the block.

        A second one is for *again*; by default it ends the process at once, and one that is ignored
        stays ignored: a shell does that to what runs in the background. Whoever says *again* goes
        on until an end is asked for, and hears an ignored one too: who starts such a thing in the
        background and forwards Ctrl-C to it wants its end. With None a second one is noted as the
        first.
        """
        if threading.current_thread() is not threading.main_thread():
            yield  # no thread but the main one may set handlers, or is interrupted
            return
        before = {number: signal.getsignal(number) for number in SIGNALS}
        endless = again is not signal.SIG_DFL
        heeded = [each for each in SIGNALS if endless or before[each] is not signal.SIG_IGN]
        self._forget()

        def note(number: int, _: FrameType | None) -> None:
            self._heard = number
            self.set()
            for each in heeded if again is not None else ():
                signal.signal(each, again)

        try:
            with self._piped():
                for number in heeded:
                    signal.signal(number, note)
                yield
        finally:
            for number in heeded:
                signal.signal(number, before[number])
            self._forget()

    @contextmanager
    def _piped(self) -> Iterator[None]:
        """Let the interpreter write each signal's number into a pipe, as it comes."""
        outer, (start, end) = self._pipe, os.pipe()
        for each in (start, end):
            os.set_blocking(each, False)
        self._pipe = start
        before = signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            self._pipe = outer
            os.close(end)
            os.close(start)

    def _forget(self) -> None:
        self._heard, self._came = None, False
        self.clear()

    def came(self) -> bool:
        """Return whether a signal came, also while the main thread is inside of a long call.

        A handler of Python runs in the main thread, between two of its instructions: not while a
        library's call waits for a broker. Another thread finds the signal in the pipe in time.
        """
        try:
            numbers = os.read(self._pipe, READ_BYTES)
        except OSError:  # nothing came, or nobody listens
            numbers = b""
        self._came = self._came or any(number in SIGNALS for number in numbers)
        return self._came

    def obey(self) -> None:
        """Raise `Interrupted` if an end is wanted."""
        if self._heard is not None:
            message = "stopped; the outputs are as they were, run it again to finish"
            raise Interrupted(message, exit_code=SIGNALS[signal.Signals(self._heard)])


INTERRUPTION = Interruption()
"""Of the work over files; who ends in another way has one of its own."""
