"""Is the loop alive, may it get traffic, and what is it doing: the run loop writes, HTTP reads.

Liveness is the loop's own heartbeat, and that it moves what others can read; never the broker:
one that is down makes us wait, and killing a waiting process helps nobody. Readiness is the
state: working or standing by. All methods may be called from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypedDict, Unpack


class State(StrEnum):
    """What the process is doing; also the reason why it is not ready."""

    STARTING = "starting"
    STANDBY = "standby"
    """Waits for a task that another process owns. Ready: a rollout would hang otherwise."""
    UNREACHABLE = "unreachable"
    """No broker is reached: it waits, and nobody knows how much there is to do."""
    RESTORING = "restoring"
    RUNNING = "running"
    PAUSED_DISK = "paused:disk"
    PAUSED_DEAD_LETTERS = "paused:dead_letters"
    PAUSED_SCHEMAS = "paused:schemas"
    DRAINING = "draining"
    FENCED = "fenced"


class Cause(StrEnum):
    """Why a process is not live."""

    LOOP = "loop"
    """The loop does not turn: a call or a callback does not return."""
    PROGRESS = "progress"
    """It turns, and moves nothing although there is something to move."""


READY = frozenset({State.RUNNING, State.STANDBY})


@dataclass(frozen=True, slots=True)
class Status:
    """What ``/status`` tells beside the counts of the metrics: no payload, no seed, no secret."""

    state: State = State.STARTING
    detail: str = ""
    """One sentence for a person; empty when the state says it all."""
    scheme: str = ""
    """Scheme fingerprint."""
    index_id: str = ""
    tasks: tuple[str, ...] = ()
    """Names of the tasks this process owns."""
    owners: Mapping[str, str] = field(default_factory=dict)
    """Who wrote last for each task that this process stands by for, by the task's name."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """Next offset to judge, by ``topic/partition``."""
    lag: Mapping[str, int] = field(default_factory=dict)
    """Records behind the end, by ``topic/partition``."""
    documents: int = 0
    """Documents in the index."""
    restore_remaining: int = 0
    """Changelog records still to be applied."""


class StatusUpdate(TypedDict, total=False):
    """The fields of a `Status` that the loop reports as it goes; the state has its own call."""

    scheme: str
    index_id: str
    tasks: tuple[str, ...]
    owners: Mapping[str, str]
    positions: Mapping[str, int]
    lag: Mapping[str, int]
    documents: int
    restore_remaining: int


@dataclass(frozen=True, slots=True)
class Liveness:
    """Whether the loop turned recently, and moves what there is to move."""

    cause: Cause | None
    """None: it is alive."""
    reason: str
    """One sentence for a person; empty when it is alive."""
    age_seconds: float
    """Since the last heartbeat."""
    bound_seconds: float

    @property
    def alive(self) -> bool:
        """Return True when there is nothing to complain of."""
        return self.cause is None


class Health:
    """The latest `Status` and the loop's heartbeat."""

    def __init__(
        self, *, bound_seconds: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start as STARTING, with a first beat now.

        Args:
            bound_seconds: how long the loop may be silent before it counts as stuck.
            clock: a clock that never jumps.
        """
        self._bound = bound_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._beat = clock()
        self._started = clock()
        self._stall = ""
        self._status = Status()

    def beat(self) -> None:
        """Say that the loop turned: once per batch, restore step or idle poll."""
        with self._lock:
            self._beat = self._clock()

    def stall(self, reason: str) -> None:
        """Say why the loop moves nothing although it turns; '' when it moves again."""
        with self._lock:
            self._stall = reason

    def enter(self, state: State, detail: str = "") -> None:
        """Change the state; a change is a sign of life, so it beats too."""
        with self._lock:
            self._beat = self._clock()
            self._status = replace(self._status, state=state, detail=detail)

    def report(self, **changes: Unpack[StatusUpdate]) -> None:
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
        """Return the seconds since this object was made."""
        return self._clock() - self._started

    @property
    def ready(self) -> bool:
        """Return True when the process works, or stands by."""
        return self.status.state in READY

    @property
    def liveness(self) -> Liveness:
        """Return how long ago the loop last turned, and what is wrong with it if anything is."""
        with self._lock:
            age, stall = max(0.0, self._clock() - self._beat), self._stall
        if age > self._bound:
            reason = f"the loop has not turned for {age:.0f} s (http.stalled_after)"
            return Liveness(Cause.LOOP, reason, age, self._bound)
        return Liveness(Cause.PROGRESS if stall else None, stall, age, self._bound)
