"""Keeps a number of filters running, as an orchestrator would, and notes how each one ended."""

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamfilter.killpoints import VARIABLE
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage

KILLED = -9
Settings = Mapping[str, Mapping[str, Any]]


@dataclass(slots=True)
class Worker:
    """One slot: a configuration and a directory, and the process that has them now."""

    name: str
    config: Path
    port: int
    state: Path
    process: FilterProcess | None = None
    armed: str = ""
    """The kill point that this process was started with."""
    fault: str = ""
    """What we did to it; the empty string: nothing."""
    expected: frozenset[int] = frozenset()
    """Exit codes that are right after what we did."""
    begun: float = 0.0
    back_at: float = 0.0
    """When to start it again."""
    role: str = ""
    """Of a process in a cluster: edge or judge."""

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.child.exit_code is None

    @property
    def paused(self) -> bool:
        """Return whether the process is stopped, by us or by itself."""
        return self.process is not None and self.alive and self.process.stopped

    def status(self) -> dict[str, Any]:
        """Return /status; empty while nothing answers."""
        process = self.process if self.alive and not self.paused else None
        return process.status() if process else {}

    @property
    def log(self) -> Path:
        return self.config.with_suffix(".log")

    def log_end(self, lines: int = 12) -> str:
        """Return the end of its log, from the dump of all threads on if it ends with one."""
        if not self.log.exists():
            return ""
        written = self.log.read_text(errors="replace").splitlines()
        dumps = [number for number, line in enumerate(written) if line.startswith("Timeout (")]
        return "\n".join(written[min(max(0, len(written) - lines), *dumps[-1:], len(written)) :])

    def shown(self, lines: int = 5) -> str:
        """Return the end of its log, what it does now, and which brokers its clients reach."""
        process = self.process if self.alive else None
        if process is None:
            return self.log_end(lines)
        status, metrics = process.status(), process.get("/metrics") or ""
        reached = re.findall(
            r"^streamfilter_kafka_(?:brokers_up|connects|requests).*", metrics, re.M
        )
        now = f"{status.get('state')}: {status.get('detail')}"
        return "\n".join([self.log_end(lines), now, *reached])


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    worker: Worker
    code: int
    armed: str
    fault: str
    as_expected: bool
    seconds: float
    """How long it lived."""


@dataclass(slots=True)
class Supervisor:
    """Slots for workers; `tend` notices who ended, and starts it again."""

    stage: Stage
    arm: Callable[[Worker], str]
    """Chooses a kill point for a process about to be started; empty: none."""
    tolerated: frozenset[int] = frozenset()
    """Exit codes that are right at any time: 76 where processes fence each other, 75 where
    brokers go away."""
    workers: list[Worker] = field(default_factory=list)

    def hire(self, roles: Sequence[str], settings: Callable[[int], Settings]) -> None:
        """Replace all slots by one for each role; the directories of equal numbers are kept."""
        assert not any(worker.alive for worker in self.workers)
        self.workers = []
        for number, role in enumerate(roles):
            name = f"w{number}"
            sections = settings(number)
            config = self.stage.configuration(state=name, **sections)
            port = json.loads(config.read_text())["http"]["port"]
            worker = Worker(name, config, port, Path(sections["index"]["path"]), role=role)
            self.workers.append(worker)

    def start(self, worker: Worker, *, armed: str = "") -> None:
        worker.armed, worker.fault, worker.expected = armed, "", frozenset()
        worker.begun = time.monotonic()
        worker.process = FilterProcess(
            worker.config,
            port=worker.port,
            log=worker.log,
            environment={VARIABLE: armed, "OMP_NUM_THREADS": "1"},
            arguments=["--role", worker.role] if worker.role else [],
            launch=self.stage.launch,
        )
        self.stage.processes.append(worker.process)

    def tend(self, *, restart: bool = True) -> list[Ended]:
        """Return who has ended since the last call; start who is due."""
        ended = []
        for worker in self.workers:
            if worker.process is not None and not worker.alive:
                ended.append(self._ended(worker))
            if restart and worker.process is None and time.monotonic() >= worker.back_at:
                self.start(worker, armed=self.arm(worker))
        return ended

    def _ended(self, worker: Worker) -> Ended:
        assert worker.process is not None
        code = worker.process.child.exit_code
        assert code is not None
        right = set(worker.expected or self.tolerated | ({KILLED} if worker.armed else set()))
        self.stage.processes.remove(worker.process)
        seconds = time.monotonic() - worker.begun
        worker.process = None
        return Ended(worker, code, worker.armed, worker.fault, code in right, seconds)

    def signal(self, worker: Worker, number: int, *, fault: str, expected: set[int]) -> None:
        """Send a signal, and remember what it was for and how the process may end of it."""
        if worker.process is not None and worker.alive:
            worker.fault = fault
            worker.expected = self.ends_of(worker, number, expected | self.tolerated)
            if worker.armed:
                worker.expected |= {KILLED}
            os.kill(worker.process.child.pid, number)

    def ends_of(self, worker: Worker, number: int, expected: set[int]) -> frozenset[int]:
        """Return how *worker* may end of a signal that is sent now and asks it to."""
        # Before it listens it has begun nothing, and the signal itself may end it (seen).
        return frozenset(expected if worker.status() else expected | {-number})

    def working(self) -> list[tuple[Worker, dict[str, Any]]]:
        """Return who is running now, with its status."""
        found = ((worker, worker.status()) for worker in self.workers)
        return [(worker, status) for worker, status in found if status.get("state") == "running"]
