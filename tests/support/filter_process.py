"""`streamfilter run` as a process of its own: started, asked, waited for, killed, paused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

START_TIMEOUT_SECONDS = 60
EXIT_TIMEOUT_SECONDS = 60

Status = dict[str, Any]


class FilterProcess:
    """One `streamfilter run`. Its output goes to a file that failures quote."""

    def __init__(
        self, config: Path, *, port: int, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamfilter.cli", "run", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
            )

    def get(self, path: str) -> str | None:
        """Return the body at *path* whatever its status code; None while nothing answers."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refusal:
            return refusal.read().decode()
        except OSError:
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
            assert self.process.poll() is None, self.told(f"ended before {what}")
            assert time.monotonic() < deadline, self.told(f"no {what}; /status is {status}")
            time.sleep(0.05)
        return status

    def wait_for_state(self, state: str, **options: Any) -> Status:
        """Return the first /status in *state* (as `streamfilter.health.State` spells it)."""
        return self.wait_for(lambda s: s.get("state") == state, what=f"state {state}", **options)

    def wait_for_exit(self, timeout_seconds: float = EXIT_TIMEOUT_SECONDS) -> int:
        """Return the exit code (negative: killed by that signal)."""
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.told("did not end")) from None

    def terminate(self) -> int:
        """Ask it to end (SIGTERM) and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait_for_exit()

    def kill(self) -> None:
        """End it as the kernel would (SIGKILL); a paused one too."""
        self.process.kill()
        self.process.wait(EXIT_TIMEOUT_SECONDS)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def told(self, happened: str) -> str:
        """Return a failure's text: what happened, and the end of the log."""
        lines = self.log.read_text(errors="replace").splitlines()
        code = self.process.poll()
        return f"run {happened} (exit code {code}). Its log ends:\n" + "\n".join(lines[-40:])
