"""SIGTERM, Ctrl-C and a closed terminal: a handler sets a flag, which the work checks in places.

A handler that raises does so at any instruction, also inside a library's callback or destructor.
There the exception is swallowed, and an interrupted filter would continue and publish. So the
handler only sets a flag. The work checks it between two batches, while it waits for input, and
before its outputs appear.

The flag has no lock. A handler that takes one, as `threading.Event.set` does, waits for ever if it
interrupts the thread that holds it: one that waits for the flag, or another handler.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from streamfilter.stops import ExitCode, Stop

SIGNALS = {
    signal.SIGHUP: ExitCode.HUNG_UP,
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}
READ_BYTES = 64


class Interrupted(Stop):
    """A person or a supervisor stopped the work; nothing was published."""


class Interruption:
    """Whether a stop was requested."""

    def __init__(self) -> None:
        self._heard: int | None = None
        self._came = False
        self._pipe = -1

    @contextmanager
    def listening(
        self, *, again: Callable[[int, Any], Any] | signal.Handlers | None = signal.SIG_DFL
    ) -> Iterator[None]:
        """Set the flag on a signal of `SIGNALS` inside the block.

        A second signal is handled by *again*. By default it ends the process at once, and an
        ignored signal stays ignored, because a shell ignores SIGINT for background jobs. A caller
        that passes *again* runs until it is stopped, so ignored signals are handled too. Only an
        ignored SIGHUP stays ignored then: `nohup` asks for that. With None a second signal is
        handled like the first.
        """
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may set handlers
            return
        before = {number: signal.getsignal(number) for number in SIGNALS}
        anyway = set(SIGNALS) - {signal.SIGHUP} if again is not signal.SIG_DFL else set()
        heeded = [each for each in SIGNALS if each in anyway or before[each] != signal.SIG_IGN]
        self._forget()

        def note(number: int, _: FrameType | None) -> None:
            self._heard = number
            for each in heeded if again is not None else ():
                # A closed terminal is reported twice: by the kernel and by the shell.
                signal.signal(each, signal.SIG_IGN if each is signal.SIGHUP else again)

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
        """Make the interpreter write each signal's number into a pipe at once."""
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

    def is_set(self) -> bool:
        """Return whether a handler has noted a signal."""
        return self._heard is not None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for a signal, at most so many *seconds*; return whether one was noted.

        Only the main thread may wait, inside of `listening`: there the handlers run.
        """
        if not self.is_set():
            select.select([self._pipe], [], [], seconds)
            self.came()
        return self.is_set()

    def came(self) -> bool:
        """Return whether a signal came, also while the main thread is inside a long call.

        Python runs handlers in the main thread, between two instructions, and not while a library
        call waits for a broker. Another thread can read the signal from the pipe in time.
        """
        try:
            numbers = os.read(self._pipe, READ_BYTES)
        except OSError:  # no signal, or no pipe
            numbers = b""
        self._came = self._came or any(number in SIGNALS for number in numbers)
        return self._came

    def obey(
        self, message: str = "stopped; the outputs are as they were, run it again to finish"
    ) -> None:
        """Raise `Interrupted` with *message* if a stop was requested."""
        if self._heard is not None:
            raise Interrupted(message, exit_code=SIGNALS[signal.Signals(self._heard)])


INTERRUPTION = Interruption()  # for commands over files; others have their own
