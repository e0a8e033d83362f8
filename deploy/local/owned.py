"""Base classes for a cluster, a registry and the processes of a demo.

`Owned` starts and ends with a `with` block. `Restarted` is a process that can end and start again
inside the block.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from deploy.local.jars import BrokerUnavailableError
from streamfilter.demo.running_filter import Child

LOG_LINES_SHOWN = 30


class Restarted:
    """A command that can end and be started again, with one log for all its runs."""

    def __init__(self, name: str, log: Path) -> None:
        """Prepare it; nothing runs yet. Error messages use *name*."""
        self.name, self.log = name, log
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id while the process runs (paused counts as running)."""
        running = self._child is not None and self._child.exit_code is None
        return self._child.pid if running and self._child else None

    def run(self, command: Sequence[str]) -> None:
        """Start *command*, and return at once."""
        assert self.pid is None, f"{self.name} is running"
        self._child = Child(command, log=self.log)

    def stop(self) -> None:
        """Send SIGTERM, as an operator would, and wait; kill it if it does not end."""
        if self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        """Kill it (SIGKILL), like a power cut, and wait. A paused process is killed too."""
        if self._child is not None:
            self._child.kill()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open, but it does not answer."""
        if self._child is not None:
            self._child.pause()

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        if self._child is not None:
            self._child.resume()

    def wait_until(self, ready: Callable[[], bool], deadline: float) -> None:
        """Return when it is *ready*.

        Raises:
            BrokerUnavailableError: it died, or was not ready at the *deadline* (monotonic clock).
                The message contains the end of its log.
        """
        while not ready():
            if self.pid is None:
                raise BrokerUnavailableError(self.why("died while starting"))
            if time.monotonic() > deadline:
                raise BrokerUnavailableError(self.why("did not become ready"))
            time.sleep(0.1)

    def why(self, happened: str) -> str:
        """Return what *happened* to it, with the end of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        end = "\n".join(lines[-LOG_LINES_SHOWN:])
        return f"{self.name} {happened}. The end of its log:\n{end}"


class Owned(ABC):
    """Starts at the beginning of a `with` block, and closes at its end, also after an error."""

    @abstractmethod
    def start(self) -> None:
        """Start it, and return when it answers."""

    @abstractmethod
    def close(self) -> None:
        """End it and delete its data, even if it was started only in part."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
