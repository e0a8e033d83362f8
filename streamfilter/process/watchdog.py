"""Ends a stuck process: first /livez fails, then all threads are logged, then it exits with 70.

`Health.liveness` reports whether the loop runs and moves the waiting records. The watchdog thread
checks it. If the process is not live, it logs a dump of all threads once, and counts the stall. If
that lasts for another bound, it ends the process, so that any supervisor restarts it, even one
without probes. The restart replays the input, so nothing is lost.

It also ends a process that got a stop signal but does not stop. A library call may wait for a
broker as long as a transaction may last. The sender of SIGTERM usually sends SIGKILL next.

A call that never returns and holds the interpreter's lock would block this thread and HTTP. A timer
of `faulthandler`, written in C, covers that case. Each check restarts it. If it expires, it writes
the dump to standard error and exits with 1.
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
ASLEEP_SECONDS = 10.0
"""After so long without a check the whole process was stopped (SIGSTOP, a paused container), and
not its loop. The next check sees whether it turns."""
STOP_SECONDS = 18.0  # from the check that finds the signal to the exit: at most 20 s after it


def threads() -> str:
    """Return the stack of every thread: file, line, function and source, but no values."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = [
        f"thread {names.get(ident, ident)}:\n" + "".join(traceback.format_stack(frame))
        for ident, frame in sys._current_frames().items()
    ]
    return "\n".join(stacks)


def _leave(code: ExitCode) -> None:
    """End the process from another thread, because the main thread may never return."""
    logging.shutdown()
    os._exit(code)


class Watchdog:
    """Checks *health* from its own thread, inside a ``with`` block."""

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
        """Prepare the checks.

        *exit_after* are the seconds from the first failed check to the exit; 0: never exit.
        *stalled* is called each time the process stops being live, and *leave* ends it.
        """
        self._health, self._exit_after, self._stalled = health, exit_after, stalled
        self._stopping, self._leave, self._clock = stopping, leave, clock
        self._since: float | None = None
        self._looked = clock()
        self._stopping_since: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._wind_up()  # at once: the process may hang before this thread first runs
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
        """Restart the `faulthandler` timer; without standard error there is none."""
        if self._exit_after:
            seconds = self._health.liveness.bound_seconds + self._exit_after
            with suppress(OSError, ValueError, AttributeError, RuntimeError):
                faulthandler.dump_traceback_later(seconds, exit=True)

    def look(self) -> None:
        """Check once: report when the process stops being live, and end it when that lasts."""
        self._look_at_the_end()
        before, self._looked = self._looked, self._clock()
        if self._looked - before >= ASLEEP_SECONDS:
            return
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
        """End a process that does not stop by itself. Uncommitted work is repeated later."""
        if self._stopping_since is None:
            self._stopping_since = self._clock() if self._stopping() else None
        elif self._clock() - self._stopping_since >= STOP_SECONDS:
            logger.critical(
                "exit %d: asked to stop %.0f s ago, and a call does not return; what is not "
                "committed is done again at the next start; all threads:\n%s",
                ExitCode.TEMPORARY,
                self._clock() - self._stopping_since,
                threads(),
            )
            self._leave(ExitCode.TEMPORARY)
