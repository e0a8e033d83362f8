"""What we start and own: a cluster, a registry, the processes of a demo, and what they are made of.

`Owned` runs inside of a `with`. `Restarted` is a process that ends and comes back meanwhile.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from streamfilter.kafka.broker.child import Child
from streamfilter.kafka.broker.jars import BrokerUnavailableError

LOG_LINES_SHOWN = 30


class Restarted:
    """A command of ours that ends and is started again, with one log for all its lives."""

    def __init__(self, name: str, log: Path) -> None:
        """Prepare it; nothing runs yet. A person knows it by its *name*."""
        self.name, self.log = name, log
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id while the process runs (paused counts as running)."""
        running = self._child is not None and self._child.exit_code is None
        return self._child.pid if running and self._child else None

    def run(self, command: Sequence[str]) -> None:
        """Start *command* as its process, and return at once."""
        assert self.pid is None, f"{self.name} is running"
        self._child = Child(command, log=self.log)

    def stop(self) -> None:
        """End it as an operator would (SIGTERM), and wait; killed if it does not end."""
        if self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL), and wait. A paused one too."""
        if self._child is not None:
            self._child.kill()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay open and nothing answers."""
        if self._child is not None:
            self._child.pause()

    def resume(self) -> None:
        """Let a paused one run on."""
        if self._child is not None:
            self._child.resume()

    def wait_until(self, ready: Callable[[], bool], deadline: float) -> None:
        """Return when it is *ready*.

        Raises:
            BrokerUnavailableError: it died, or was not ready at the *deadline* (of the monotonic
                clock); with its log's end.
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
    """What is started by a `with`, and closed however that ends."""

    @abstractmethod
    def start(self) -> None:
        """Start it, and return when it answers."""

    @abstractmethod
    def close(self) -> None:
        """End it, and keep nothing; also of what did not start."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
