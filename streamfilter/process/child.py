"""Starts a child process that never outlives its parent, even if the parent is killed.

A guard (a shell) waits on the reading end of a pipe, and only the parent has the writing end. When
the parent returns, crashes or is killed, the writing end closes and the guard kills the child.
Linux's parent-death signal is not used: it follows the thread that forked, not the process.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_TIMEOUT_SECONDS = 30


class Child:
    """A running command with our *environment* or another. Its output is appended to a log file."""

    def __init__(
        self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,  # the parent handles Ctrl-C, not the child
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _ || kill -9 "$0" 2>/dev/null', str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Return the process id, even if the process has ended."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit code (negative: killed by that signal); None: it runs or is paused."""
        code = self._process.poll()
        if code is not None:
            self._dismiss_guard()
        return code

    def stop(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> int:
        """Send SIGTERM, wait, and kill it if it does not end; return the exit code."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(timeout_seconds)
        return self.kill()

    def kill(self) -> int:
        """Kill it (SIGKILL), like a power cut, and wait. A paused process is killed too."""
        self._signal(signal.SIGKILL)
        return self.wait(STOP_TIMEOUT_SECONDS)

    def wait(self, timeout_seconds: float) -> int:
        """Return the exit code once it has ended, or raise `subprocess.TimeoutExpired`."""
        code = self._process.wait(timeout_seconds)
        self._dismiss_guard()
        return code

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open, but it does not answer."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            self._process.send_signal(number)

    def _dismiss_guard(self) -> None:
        """End the guard without a kill: another process may get the same id soon."""
        if self._guard.stdin and not self._guard.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._guard.communicate(b"\n")
