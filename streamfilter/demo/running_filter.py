"""A `streamfilter run` in a child process, which can be killed and restarted."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from streamfilter.bench.machine import environment
from streamfilter.stops import Stop

STOP_TIMEOUT_SECONDS = 30


class Child:
    """A command that never outlives its parent, even if the parent is killed.

    It has our *environment* or another, and its output is appended to a log file. A guard (a shell)
    waits on the reading end of a pipe, and only the parent has the writing end. When the parent
    returns, crashes or is killed, the writing end closes and the guard kills the child. Linux's
    parent-death signal is not used: it follows the thread that forked, not the process.
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
                start_new_session=True,  # the parent handles Ctrl-C, not the child
            )
        self.pid = self._process.pid
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _ || kill -9 "$0" 2>/dev/null', str(self.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

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


WAIT_SECONDS = 300
LOOK_SECONDS = 0.025
LOG_LINES_SHOWN = 20


class RunningFilter:
    """A `streamfilter run` with *settings* in a directory; stopped at the end."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        directory: Path,
        *,
        name: str,
        role: str | None = None,
    ) -> None:
        self.url = "http://{host}:{port}".format(**settings["http"])
        config = directory / f"{name}.yaml"
        config.write_text(json.dumps(settings, indent=2))  # JSON is YAML too
        self._log = directory / f"{name}.log"
        # STREAMFILTER_* variables of the caller are for another service: they are removed.
        command = [sys.executable, "-m", "streamfilter", "run", "--config", str(config)]
        command += ["--role", role] if role else []
        self._start = partial(Child, command, log=self._log, environment=environment())
        self._child = self._start()

    def __enter__(self) -> RunningFilter:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the process and wait for its end; do nothing if it has ended."""
        self._child.stop()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_killed(self) -> bool:
        return self._child.exit_code == -9

    def kill(self) -> None:
        """Kill the process with SIGKILL, like a power cut."""
        self._child.kill()

    def restart(self) -> None:
        """Start the process again with the same directory."""
        self._child = self._start()

    def check_alive(self) -> None:
        """Return if the process runs.

        Raises `Stop`: it has ended; the message contains the end of its log.
        """
        if (code := self._child.exit_code) is not None:
            end = self._log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            raise Stop("\n".join([f"the filter ended with code {code}. Its log ends:", *end]))

    def status(self) -> dict[str, Any]:
        """Return its /status; {} while it does not answer."""
        self.check_alive()
        return json.loads(self.get("/status") or "{}")  # type: ignore[no-any-return]

    def get(self, path: str) -> str:
        """Return the page at *path*; '' while it does not answer."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def wait_until(self, state: str) -> None:
        """Wait until the process is in *state*.

        Raises `Stop`: it has ended, or takes too long.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while self.status().get("state") != state:
            if time.monotonic() > deadline:
                raise Stop(f"the filter was not {state} after {WAIT_SECONDS} s; see {self._log}")
            time.sleep(LOOK_SECONDS)

    def samples(self, name: str) -> dict[str, float]:
        """Return the samples of metric *name* by the value of their label, '' without one."""
        line = re.compile(rf'^streamfilter_{name}(?:{{\w+="(\w+)"}})? (\S+)$', re.MULTILINE)
        return {label: float(value) for label, value in line.findall(self.get("/metrics"))}
