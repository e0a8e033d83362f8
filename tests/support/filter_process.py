"""`streamfilter run` as a process of its own: started, asked, waited for, killed, paused."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from streamfilter.demo.running_filter import Child
from streamfilter.stops import ExitCode
from tests.support.machine.processes import state_of

START_TIMEOUT_SECONDS = 180
EXIT_TIMEOUT_SECONDS = 180
POLL_SECONDS = 0.1
"""Each look costs both sides milliseconds of processor time: some thousand seconds are waited."""

STRANDED = "forgot the addresses of all brokers"

Status = dict[str, Any]


class FilterProcess:
    """One `streamfilter run`. Its output goes to a file that failures quote."""

    def __init__(
        self,
        config: Path,
        *,
        port: int,
        log: Path,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        prefix: Sequence[str] = (),
        launch: Callable[..., Child] = Child,
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        run = [sys.executable, "-m", "streamfilter", "run", "--config", str(config)]
        command = [*prefix, *run, *arguments]
        self.child = launch(command, log=log, environment={**os.environ, **(environment or {})})
        self.log = log

    def get(self, path: str) -> str | None:
        """Return the body at *path* whatever its status code; None while nothing answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refusal:
            return refusal.read().decode()
        except (OSError, HTTPException):  # it may end in the middle of an answer
            return None

    def status(self) -> Status:
        """Return /status, or an empty dictionary while nothing answers."""
        body = self.get("/status")
        return json.loads(body) if body else {}

    def wait_for(
        self,
        condition: Callable[[Status], object],
        *,
        what: str,
        timeout_seconds: float = START_TIMEOUT_SECONDS,
    ) -> Status:
        """Return the first /status that fulfils *condition*; fail if the process ends first."""
        deadline = time.monotonic() + timeout_seconds
        while not condition(status := self.status()):
            assert self.child.exit_code is None, self.with_log(f"ended before {what}")
            assert time.monotonic() < deadline, self.with_log(f"no {what}; /status is {status}")
            time.sleep(POLL_SECONDS)
        return status

    def wait_for_state(self, state: str, **options: Any) -> Status:
        """Return the first /status in *state* (as `process.health.State` spells it)."""
        return self.wait_for(lambda s: s.get("state") == state, what=f"state {state}", **options)

    def wait_for_exit(self, timeout_seconds: float = EXIT_TIMEOUT_SECONDS) -> int:
        """Return the exit code (negative: killed by that signal)."""
        try:
            return self.child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.with_log("did not end")) from None

    @property
    def stopped(self) -> bool:
        """True if it is stopped (SIGSTOP): by `pause`, or by a kill point."""
        return state_of(self.child.pid) == "T"

    def wait_until_stopped(self) -> None:
        """Return once a kill point has stopped it."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self.stopped:
            assert self.child.exit_code is None, self.with_log("ended before it was stopped")
            assert time.monotonic() < deadline, self.with_log("was not stopped")
            time.sleep(POLL_SECONDS)

    def stranded(self) -> bool:
        """Return whether it has ended because a client of it will not find a broker again.

        Seldom, where the only broker was away: a supervisor starts it again.
        """
        return self.child.exit_code == ExitCode.TEMPORARY and STRANDED in self.log.read_text()

    def terminate(self) -> int:
        """Ask it to end (SIGTERM) and return the exit code; -9 means that it did not end."""
        return self.child.stop(EXIT_TIMEOUT_SECONDS)

    def kill(self) -> None:
        """End it as the kernel would (SIGKILL); a paused one too."""
        self.child.kill()

    def pause(self) -> None:
        self.child.pause()

    def resume(self) -> None:
        self.child.resume()

    def with_log(self, happened: str) -> str:
        """Return a failure's text: what happened, and the end of the log."""
        lines = self.log.read_text(errors="replace").splitlines()
        code = self.child.exit_code
        return f"run {happened} (exit code {code}). Its log ends:\n" + "\n".join(lines[-40:])
