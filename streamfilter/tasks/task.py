"""One task: the owner of one index, from its start (`starting.py`) into the loop (`transactor.py`).

A task is its input partitions, its changelog partition, its transactional id and its index. It
never waits by itself: `advance` does one piece and returns, so that its owner can poll the
membership between any two.
"""

from __future__ import annotations

from streamfilter.engine.ports import Clock, Layout, Log, LogError
from streamfilter.engine.transactor import Parts, StepResult, Transactor
from streamfilter.index.protocol import Index
from streamfilter.killpoints import kill_point
from streamfilter.model import Positions
from streamfilter.process.health import State
from streamfilter.tasks.held_back import HeldBack
from streamfilter.tasks.plan import Plan, Script
from streamfilter.tasks.starting import Starter
from streamfilter.tasks.store import IndexStore

LOOKS = 5
"""So many looks in a row must find an unread record before it counts."""


class StallDetector:
    """Does a task move what there is to move? A consumer may get nothing for ever, silently.

    The loop turns, the broker answers, records wait, and yet nothing is committed: no heartbeat
    shows that. The end of the input does not either: markers and aborted records occupy offsets
    that no consumer gets. So while nothing moves, another consumer is asked now and then: does it
    get a record where ours stands? Only if it does, several times in a row, is the task stuck.

    A broker that is away answers nobody, and that is no fault of ours: it is waited for. Counting
    looks instead of seconds keeps a process that was paused from accusing itself.
    """

    def __init__(self, log: Log, clock: Clock, *, seconds: float) -> None:
        """Begin as if something had just moved.

        Args:
            log: whose `unread` asks another consumer.
            clock: for the time between two looks.
            seconds: from the last move to the reason why the task is stuck.
        """
        self._log, self._clock, self._seconds = log, clock, seconds
        self.moved()

    def moved(self) -> None:
        """Say that something was moved, or that the task rests on purpose."""
        self._found = 0
        self._wait()

    def _wait(self) -> None:
        self._look_at = self._clock.monotonic() + self._seconds / LOOKS

    def reason(self, positions: Positions) -> str:
        """Return why the task that stands at *positions* is stuck; '' as long as it is not."""
        if self._clock.monotonic() >= self._look_at:
            self._found = self._found + 1 if self._unread(positions) else 0
            self._wait()
        if self._found < LOOKS:
            return ""
        return (
            f"nothing was committed for {self._seconds:g} s, though another consumer reads records "
            f"from the positions {dict(sorted(positions.items()))} on"
        )

    def _unread(self, positions: Positions) -> bool:
        try:
            return self._log.unread(positions)
        except LogError:
            return False  # who does not answer says nothing about us


LAG_SECONDS = 1.0
"""Between two looks at the lag: it asks the client about every partition."""
MEASURE_SECONDS = 10.0
"""Between two looks at the disk: it costs a walk through the directory."""


class Task:
    """Drives one task."""

    def __init__(
        self, plan: Plan, parts: Parts, store: IndexStore, index: Index | None = None
    ) -> None:
        """Prepare step 1; an open *index* is what a standby has brought up to date."""
        self.plan, self._parts, self._store = plan, parts, store
        self._starter: Starter | None = Starter(plan, parts, store, index)
        self._script: Script[Transactor] | None = None
        self._transactor: Transactor | None = None
        self._progress = StallDetector(parts.log, parts.clock, seconds=parts.bounds.stuck_seconds)
        self.state, self.detail = State.STARTING, ""
        self._measure_at = self._lag_at = 0.0
        self._stood_at: Positions = {}
        self._held = HeldBack(parts.log, parts.clock, plan.names.topic)
        self.partitions: tuple[int, ...] = ()
        """Of the input, as the last start found them."""
        self.restart()

    @property
    def _index(self) -> Index | None:
        return self._starter.index if self._starter else None

    @property
    def outlived(self) -> bool:
        """Return whether the last transaction failed for want of time, and for no other reason."""
        return self._parts.pace.outlived

    def restart(self) -> None:
        """Begin again with step 1; the index stays open, for it is a prefix of the changelog."""
        outlived = self.outlived
        self._begin()
        if not outlived:  # which may happen again and again, and is no progress
            self._progress.moved()

    def _begin(self) -> None:
        self._transactor, self._parts.pace.outlived = None, False
        self._starter = Starter(self.plan, self._parts, self._store, self._index)
        self._script = self._starter.run()
        self.state, self.detail = State.STARTING, ""

    def follow(self, layout: Layout) -> None:
        """Begin again if topics have other partitions by now than a start has found."""
        if self._transactor is None or self._starter is None or self._starter.layout == layout:
            return
        self._parts.observer.loudly(
            f"{self.plan.label} begins again: topics have more partitions, and it uses them all"
        )
        self.restart()

    def rebuild(self, why: str) -> None:
        """Remove the index, and begin again: it is restored from the changelog."""
        assert self._starter is not None
        if self._script is not None:
            self._script.close()
        self._transactor = None  # what it owed is committed, and in the changelog
        self._starter.wipe(why)
        self.restart()

    def advance(self, timeout: float) -> StepResult:
        """Do one piece of the start, or one step of the loop that waits *timeout* for records."""
        if self._parts.pace.resting:
            self.detail = f"{self._parts.pace.failures} transactions in a row have failed"
            return StepResult.RETRY
        if self._script is not None:
            return self._advance_start(self._script)
        assert self._transactor is not None
        step = self._transactor.step(timeout)
        self.state, self.detail = self._shown(step, self._transactor)
        self._look_for_progress(step, self._transactor)
        if step is StepResult.REPLACE:
            self._show(self._transactor)
            self._begin()  # which is no progress: it may be for a transaction that always fails
        elif step is not StepResult.IDLE or self._parts.clock.monotonic() >= self._lag_at:
            self._show(self._transactor)
        return step

    def _advance_start(self, script: Script[Transactor]) -> StepResult:
        try:
            self.state, self.detail = next(script)
        except StopIteration as end:
            transactor: Transactor = end.value
        else:
            return self._started_a_piece()
        self._parts.observer.spent("start")
        self._transactor, self._script = transactor, None
        self.partitions = tuple(transactor.standing.positions)
        self.state, self.detail = State.RUNNING, ""
        self._show(transactor)
        return StepResult.STARTED

    def _started_a_piece(self) -> StepResult:
        restoring = self.state is State.RESTORING
        self._parts.observer.spent("restore" if restoring else "start")
        if self.state is State.PAUSED_DISK:
            return StepResult.DISK_FULL
        return StepResult.RETRY if self.detail else StepResult.STARTED

    def _look_for_progress(self, step: StepResult, transactor: Transactor) -> None:
        """Say so if what there is to move is not moved; a rest on purpose is none of it."""
        positions = transactor.standing.positions
        did = step not in (StepResult.IDLE, StepResult.RETRY, StepResult.REPLACE)
        if did or positions != self._stood_at:
            self._progress.moved()
        self._stood_at = positions
        reason = self._progress.reason(positions)
        self._parts.observer.stuck(self.plan.label, reason)

    def _shown(self, step: StepResult, transactor: Transactor) -> tuple[State, str]:
        if step is StepResult.SCHEMAS_AWAY:
            return State.PAUSED_SCHEMAS, f"{transactor.waits_for}; it goes on by itself"
        if step is StepResult.DISK_FULL:
            return State.PAUSED_DISK, transactor.waits_for
        if step is StepResult.TRIPPED:
            return State.PAUSED_DEAD_LETTERS, self._parts.breaker.reason
        return State.RUNNING, str(self._held)

    def _show(self, transactor: Transactor) -> None:
        index, parts = self._index, self._parts
        if index is None:
            return
        positions, topic = transactor.standing.positions, self.plan.names.topic
        now = parts.clock.monotonic()
        lag = self._lag(transactor) if now >= self._lag_at else None
        self._lag_at = now + LAG_SECONDS if lag is not None else self._lag_at
        parts.observer.standing(index, positions, lag, topic)
        if now >= self._measure_at:
            parts.observer.occupying(index, self._store.usage(index))
            self._measure_at = now + MEASURE_SECONDS

    def _lag(self, transactor: Transactor) -> Positions:
        """Return how many offsets each partition's end is ahead of what is committed.

        Not of what was taken: if nothing is committed any more, what waits here waits too.
        """
        begin, ends = transactor.waits_from, self._parts.log.ends()
        self._look_who_holds(begin, ends)
        return {p: max(0, end - begin[p]) for p, end in ends.items()}

    def _look_who_holds(self, positions: Positions, ends: Positions) -> None:
        before = str(self._held)
        self._held.look(positions, ends)
        if (now := str(self._held)) != before:
            self._parts.observer.loudly(now or "no open transaction holds the input back any more")

    def close(self) -> None:
        """Release everything; an open transaction is aborted."""
        kill_point("close.begun")
        if self._script is not None:
            self._script.close()
        self._script = self._transactor = None
        self._parts.log.close()
        starter, self._starter = self._starter, None
        if starter is not None:
            starter.close()
        self._parts.observer.stuck(self.plan.label, "")
        self._parts.observer.left(self.partitions, self.plan.names.topic)
        if self._parts.trimming is not None:
            self._parts.trimming.close()
        kill_point("close.done")
