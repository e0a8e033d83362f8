"""A process of ours that never outlives us, however we end.

A guard (a shell that waits on a pipe) holds the reading end of a pipe whose writing end only we
have. When that closes, because we returned, crashed or were killed, the guard kills the child.
Linux's parent-death signal would follow the thread that forked instead of the process.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_TIMEOUT_SECONDS = 30


class Child:
    """A running command; what it prints is appended to a log file.

    It gets our environment, or *environment* in its place.
    """

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
                start_new_session=True,  # a Ctrl-C is ours to handle, not the child's
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _ || kill -9 "$0" 2>/dev/null', str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Return the process id, also of a process that has ended."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit code (negative: killed by that signal), None while it runs or pauses."""
        code = self._process.poll()
        if code is not None:
            self._dismiss_guard()
        return code

    def stop(self, timeout_seconds: float = STOP_TIMEOUT_SECONDS) -> int:
        """Ask it to end (SIGTERM), wait, kill it if it does not; return the exit code."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(timeout_seconds)
        return self.kill()

    def kill(self) -> int:
        """End it as a power cut would (SIGKILL), and wait. A paused one too."""
        self._signal(signal.SIGKILL)
        return self.wait(STOP_TIMEOUT_SECONDS)

    def wait(self, timeout_seconds: float) -> int:
        """Return the exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        code = self._process.wait(timeout_seconds)
        self._dismiss_guard()
        return code

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process run on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.exit_code is None:
            self._process.send_signal(number)

    def _dismiss_guard(self) -> None:
        """Let the guard leave without killing: the id may soon be somebody else's."""
        if self._guard.stdin and not self._guard.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._guard.communicate(b"\n")
