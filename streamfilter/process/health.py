"""Health: liveness, readiness and status of the loop. The run loop writes them, HTTP reads them.

A process is live if its loop has a recent heartbeat and moves records that are available. The
broker does not count: while one is down the process waits, and a restart would not help. A process
is ready if it works or stands by. All methods may be called from any thread.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace


class State(StrEnum):
    """The state of the process; also the reason why it is not ready."""

    STARTING = "starting"
    STANDBY = "standby"  # another process owns its task. It is ready, or a rollout would hang
    UNREACHABLE = "unreachable"  # no broker is reached: the process waits, and the lag is unknown
    RESTORING = "restoring"
    RUNNING = "running"
    PAUSED_DISK = "paused:disk"
    PAUSED_DEAD_LETTERS = "paused:dead_letters"
    PAUSED_SCHEMAS = "paused:schemas"
    DRAINING = "draining"
    FENCED = "fenced"


class Cause(StrEnum):
    """Why a process is not live."""

    LOOP = "loop"  # the loop is stuck: a call or a callback does not return
    PROGRESS = "progress"  # the loop runs but moves no records, although some are available


READY = frozenset({State.RUNNING, State.STANDBY})


class Status(Struct, frozen=True):
    """The fields of ``/status`` beside the metrics: no payload, no seed, no secret."""

    state: State = State.STARTING
    detail: str = ""  # one sentence for a person; empty when the state says it all
    scheme: str = ""  # scheme fingerprint
    index_id: str = ""
    tasks: tuple[str, ...] = ()  # names of the tasks this process owns
    owners: Mapping[str, str] = field(default_factory=dict)  # last writer of each standby's task
    positions: Mapping[str, int] = field(default_factory=dict)  # next to judge, ``topic/partition``
    lag: Mapping[str, int] = field(default_factory=dict)  # records behind, ``topic/partition``
    documents: int = 0
    restore_remaining: int = 0  # changelog records still to be applied
    backup_made: float | None = None  # Unix time of the newest whole backup; 0: there is none
    backup_failure: str = ""  # why the last backup failed; empty after one that did not


class Liveness(Struct, frozen=True):
    """Whether the loop ran recently and moves the available records."""

    cause: Cause | None  # None if the process is live
    reason: str
    age_seconds: float  # since the last heartbeat
    bound_seconds: float

    @property
    def alive(self) -> bool:
        """Return True if the process is live."""
        return self.cause is None


class Health:
    """The latest `Status` and the loop's heartbeat."""

    def __init__(
        self, *, bound_seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with a first beat now; a loop silent for *bound_seconds* counts as stuck."""
        self._bound = bound_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._beat = clock()
        self._started = clock()
        self._stall = ""
        self._status = Status()

    def beat(self) -> None:
        """Record a heartbeat of the loop: once per batch, restore step or idle poll."""
        with self._lock:
            self._beat = self._clock()

    def stall(self, reason: str) -> None:
        """Report why the loop runs but moves nothing; '' when it moves records again."""
        with self._lock:
            self._stall = reason

    def enter(self, state: State, detail: str = "") -> None:
        """Change the state; a change also counts as a heartbeat."""
        with self._lock:
            self._beat = self._clock()
            self._status = replace(self._status, state=state, detail=detail)

    def report(self, **changes: Any) -> None:
        """Replace fields of the status (``positions=…``, ``lag=…``); unknown ones raise."""
        with self._lock:
            self._status = replace(self._status, **changes)

    @property
    def status(self) -> Status:
        """Return the latest status, as one consistent value."""
        with self._lock:
            return self._status

    @property
    def uptime_seconds(self) -> float:
        return self._clock() - self._started

    @property
    def ready(self) -> bool:
        """Return True when the process works, or stands by."""
        return self.status.state in READY

    @property
    def liveness(self) -> Liveness:
        """Return the age of the last heartbeat, and the cause if the process is not live."""
        with self._lock:
            age, stall = max(0.0, self._clock() - self._beat), self._stall
        if age > self._bound:
            reason = f"the loop has not turned for {age:.0f} s (http.stalled_after)"
            return Liveness(Cause.LOOP, reason, age, self._bound)
        return Liveness(Cause.PROGRESS if stall else None, stall, age, self._bound)


def instance() -> str:
    """Return the process's name: its host's, which a container has of its pod, and its id."""
    return f"{socket.gethostname()}-{os.getpid()}"
