"""Ends a process that is stuck: first /livez fails, then every thread is told of, then exit 70.

`Health.liveness` says whether the process lives: its loop turns, and what waits is moved. This
thread looks on. When it is not live, it writes a dump of all threads to the log, once, and counts
it; if that lasts for another bound, the process ends itself, so that any supervisor, also one
that asks no probe, starts it again. The restart replays, so nothing is lost by it.

It also ends a process that was told to stop and does not come to it: a library's call may wait
for a broker as long as a transaction may last, and whoever sent SIGTERM sends SIGKILL next.

A call that never returns and holds the interpreter's lock would silence this thread, and HTTP
with it. Against that stands a timer of `faulthandler` in C, wound up again at every look: it
writes the dump to standard error and exits with 1.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from streamfilter.process.health import Cause, Health
from streamfilter.stops import ExitCode

logger = logging.getLogger("streamfilter.run")

LOOK_SECONDS = 1.0
STOP_SECONDS = 18.0
"""From the look that finds we were told to stop to the end: 20 s after the signal at most."""


def threads() -> str:
    """Return the stack of every thread: file, line, function and source; never a value."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = [
        f"thread {names.get(ident, ident)}:\n" + "".join(traceback.format_stack(frame))
        for ident, frame in sys._current_frames().items()
    ]
    return "\n".join(stacks)


def _leave(code: ExitCode) -> None:
    """End the process from outside of its main thread, which may never return."""
    logging.shutdown()
    os._exit(code)


class Watchdog:
    """Looks at *health* from a thread of its own, while entered."""

    def __init__(
        self,
        health: Health,
        *,
        exit_after: float,
        stalled: Callable[[Cause], None],
        stopping: Callable[[], bool] = lambda: False,
        leave: Callable[[ExitCode], None] = _leave,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to look.

        Args:
            health: says whether the process is live.
            exit_after: seconds from the first look that finds it is not to the end; 0: no end.
            stalled: hears of each time that it stopped being live.
            stopping: says whether the process was told to stop.
            leave: ends the process.
            clock: a clock that never jumps.
        """
        self._health, self._exit_after, self._stalled = health, exit_after, stalled
        self._stopping, self._leave, self._clock = stopping, leave, clock
        self._since: float | None = None
        self._stopping_since: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._wind_up()  # at once: it may hang before this thread has had its first turn
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join(timeout=2 * LOOK_SECONDS)
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            self._wind_up()
            self.look()

    def _wind_up(self) -> None:
        """Set the timer that needs no interpreter; without standard error there is none."""
        if self._exit_after:
            seconds = self._health.liveness.bound_seconds + self._exit_after
            with suppress(OSError, ValueError, AttributeError, RuntimeError):
                faulthandler.dump_traceback_later(seconds, exit=True)

    def look(self) -> None:
        """Look once: tell when the process stops being live, and end it when that lasts."""
        self._look_at_the_end()
        live = self._health.liveness
        if live.cause is None:
            if self._since is not None:
                logger.warning("live again after %.0f s", self._clock() - self._since)
            self._since = None
            return
        if self._since is None:
            self._since = self._clock()
            self._stalled(live.cause)
            logger.error("not live: %s; all threads:\n%s", live.reason, threads())
        if self._exit_after and self._clock() - self._since >= self._exit_after:
            logger.critical("exit %d, to be started again: %s", ExitCode.BUG, live.reason)
            self._leave(ExitCode.BUG)

    def _look_at_the_end(self) -> None:
        """End a process that does not come to its end. What is not committed is done again."""
        if self._stopping_since is None:
            self._stopping_since = self._clock() if self._stopping() else None
        elif self._clock() - self._stopping_since >= STOP_SECONDS:
            logger.critical(
                "exit %d: told to stop %.0f s ago, and a call does not return; what is not "
                "committed is done again at the next start; all threads:\n%s",
                ExitCode.TEMPORARY,
                self._clock() - self._stopping_since,
                threads(),
            )
            self._leave(ExitCode.TEMPORARY)
