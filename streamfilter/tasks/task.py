"""One task owns an index, from its start (`task_start.py`) through its loop (`transactor.py`).

A task has input partitions, a changelog partition, a transactional id and an index. Its `advance`
does one piece and returns, so that the service can poll the membership between two pieces.
"""

from collections.abc import Mapping
from contextlib import suppress

from streamfilter.assembly import IndexDirectory
from streamfilter.engine.parts import Parts, StepResult
from streamfilter.engine.ports import Clock, Layout, LogError, RecordSource
from streamfilter.engine.start_checks import Names
from streamfilter.engine.transactor import Transactor
from streamfilter.index.protocol import Index
from streamfilter.killpoints import kill_point
from streamfilter.model import Positions
from streamfilter.process.health import State
from streamfilter.tasks.index_backups import IndexBackups
from streamfilter.tasks.index_storage import IndexKeeper
from streamfilter.tasks.plan import Doing, Plan, Script
from streamfilter.tasks.task_start import TaskStart

HELD_SECONDS = 10.0  # a position stands still so long before brokers are asked, and again


class OpenTransactions:
    """Finds input partitions that another producer's open transaction holds back.

    A read-committed consumer gets no record after the first open transaction. The positions then
    stand still while records wait. This is no fault, and it ends by itself: brokers abort a
    transaction after the ``transaction.timeout.ms`` of its producer. librdkafka cannot find out the
    producer (DescribeProducers); Kafka's own tool can.
    """

    def __init__(self, source: RecordSource, clock: Clock, names: Names) -> None:
        self._source, self._clock, self._names = source, clock, names
        self._stood: dict[int, tuple[int, float]] = {}
        """By partition: a position with records after it, and the time it was first seen there."""
        self._ask_at = 0.0
        self._found: Positions = {}

    def look(self, positions: Positions, ends: Positions) -> None:
        """Find *positions* before the *ends* that an open transaction holds back."""
        now = self._clock.monotonic()
        waiting = {p: offset for p, offset in positions.items() if ends.get(p, 0) > offset}
        before = self._stood
        self._stood = {
            p: before[p] if p in before and before[p][0] == offset else (offset, now)
            for p, offset in waiting.items()
        }
        still = [p for p, (_, since) in self._stood.items() if now - since >= HELD_SECONDS]
        self._found = {p: o for p, o in self._found.items() if waiting.get(p) == o}
        if still and now >= self._ask_at:
            self._ask_at = now + HELD_SECONDS
            with suppress(LogError):  # a broker that does not answer proves nothing
                stable = self._source.start_positions(still, "latest")
                self._found = {p: waiting[p] for p in still if stable[p] == waiting[p]}

    def __str__(self) -> str:
        """Return a message about the partition held back; empty if there is none known."""
        if not self._found:
            return ""
        number, offset = min(self._found.items())
        topic, partition = self._names.spot(number)
        more = f" (and {len(self._found) - 1} more)" if len(self._found) > 1 else ""
        return (
            f"{topic}/{partition} waits at offset {offset}{more}: a transaction of another "
            "producer is open there, and brokers end it after its transaction.timeout.ms. "
            f"`kafka-transactions.sh describe-producers --topic {topic} --partition "
            f"{partition}` names it"
        )


LOOKS = 5  # a task is stuck after so many checks in a row that find an unread record


class StallDetector:
    """Detects a stuck task: records wait, but its consumer gets none, without an error.

    No heartbeat shows this state, because the loop turns and the broker answers. The input's end
    does not show it either: markers and aborted records take offsets that no consumer gets. So
    while no record moves, another consumer reads at the task's positions from time to time. If it
    gets a record several times in a row, the task is stuck.

    An unreachable broker does not count: the task waits for it. Checks are counted, not seconds, so
    that a process that was paused does not report itself.
    """

    def __init__(self, source: RecordSource, clock: Clock, names: Names, *, seconds: float) -> None:
        """Begin as if a record had just moved; a task is stuck after *seconds* without one."""
        self._source, self._clock, self._names, self._seconds = source, clock, names, seconds
        self.moved()

    def moved(self) -> None:
        """Reset the count: a record was moved, or the task pauses on purpose."""
        self._found = 0
        self._wait()

    def _wait(self) -> None:
        self._look_at = self._clock.monotonic() + self._seconds / LOOKS

    def reason(self, positions: Positions) -> str:
        """Return why the task at *positions* is stuck; '' as long as it is not."""
        if self._clock.monotonic() >= self._look_at:
            self._found = self._found + 1 if self._unread(positions) else 0
            self._wait()
        if self._found < LOOKS:
            return ""
        return (
            f"nothing was committed for {self._seconds:g} s, though another consumer reads records "
            f"from the positions {self._names.places(dict(sorted(positions.items())))} on"
        )

    def _unread(self, positions: Positions) -> bool:
        try:
            return self._source.unread(positions)
        except LogError:
            return False  # a broker that does not answer proves nothing


LAG_SECONDS = 1.0  # time between two reads of the lag, which ask the client about every partition
MEASURE_SECONDS = 10.0  # between two measurements of the disk, which walk through files


class Task:
    """Drives one task."""

    def __init__(
        self,
        plan: Plan,
        parts: Parts,
        store: IndexDirectory,
        index: Index | None = None,
        backups: IndexBackups | None = None,
    ) -> None:
        self._plan, self._parts, self._store = plan, parts, store
        self._backups = backups
        self._keeper = IndexKeeper(plan, parts.changelog, parts.observer, store, index, backups)
        self._starter = TaskStart(plan, parts, self._keeper)
        self._script: Script[Transactor] | None = None
        self._transactor: Transactor | None = None
        stuck = parts.bounds.stuck_seconds
        self._progress = StallDetector(parts.source, parts.clock, plan.names, seconds=stuck)
        self.doing: Doing = State.STARTING, ""
        self._measure_at = self._lag_at = 0.0
        self._stood_at: Positions = {}
        self._held = OpenTransactions(parts.source, parts.clock, plan.names)
        self.partitions: tuple[int, ...] = ()  # of the input, as the last start found them
        self._read: Mapping[str, int] = {}  # the same partitions, by their names
        self.restart()

    @property
    def label(self) -> str:
        """Return the task's name, as in its transactional id."""
        return self._plan.label

    @property
    def outlived(self) -> bool:
        """Return whether the last transaction failed because it timed out."""
        return self._parts.pace.outlived

    def restart(self) -> None:
        """Begin again with step 1; the index stays open: it is a prefix of the changelog."""
        outlived = self.outlived
        self._begin()
        if not outlived:  # a timeout may repeat, and is no progress
            self._progress.moved()

    def _begin(self) -> None:
        self._transactor, self._parts.pace.outlived = None, False
        self._starter = TaskStart(self._plan, self._parts, self._keeper)
        self._script = self._starter.run()
        self.doing = State.STARTING, ""

    def follow(self, layout: Layout) -> None:
        """Begin again if the topics' numbers of partitions differ from those of the last start."""
        begun = self._starter.layout
        names = {each.name for each in layout.topics}
        waits = any(each.name not in names for each in begun.topics)  # for one that is gone
        if begun == layout or (self._transactor is None and not waits):
            return
        if self._script is not None:
            self._script.close()
        why = "topics have more partitions, and it uses them all"
        if names != {each.name for each in begun.topics}:
            why = f"it reads {len(names)} topics now, and read {len(begun.topics)}"
        self._parts.observer.process.loudly(f"{self.label} begins again: {why}")
        self.restart()

    def rebuild(self, why: str) -> None:
        """Remove the index and begin again; the start restores it from the changelog."""
        if self._script is not None:
            self._script.close()
        self._transactor = None  # its pending write is committed, so the changelog has it
        self._keeper.wipe(why)
        self.restart()

    def advance(self, timeout: float) -> StepResult:
        """Do one piece of the start, or one step of the loop, waiting *timeout* for records."""
        if self._parts.pace.resting:
            failed = f"{self._parts.pace.failures} transactions in a row have failed"
            self.doing = self.doing[0], failed
            return StepResult.RETRY
        if self._script is not None:
            return self._advance_start(self._script)
        assert self._transactor is not None
        step = self._transactor.step(timeout)
        self.doing = self._shown(step, self._transactor)
        self._look_for_progress(step, self._transactor)
        if step in (StepResult.IDLE, StepResult.MOVED):
            index = self._keeper.index
            if self._backups is not None and index is not None:
                self._backups.tick(index, self._keeper.index_id)
        if step is StepResult.REPLACE:
            self._show(self._transactor)
            self._begin()  # no progress: the cause may be a transaction that always fails
        elif step is not StepResult.IDLE or self._parts.clock.monotonic() >= self._lag_at:
            self._show(self._transactor)
        return step

    def _advance_start(self, script: Script[Transactor]) -> StepResult:
        try:
            self.doing = next(script)
        except StopIteration as end:
            transactor: Transactor = end.value
        else:
            return self._started_a_piece()
        self._parts.observer.process.spent("start")
        self._transactor, self._script = transactor, None
        read = self._parts.inputs.only_present(transactor.position.positions)
        self.partitions, before = tuple(read), self._read
        self._read = self._plan.names.places(read)
        self._parts.observer.process.left(before.keys() - self._read.keys())
        exist = len(self._starter.layout.topics)
        missing = len(self._parts.inputs.table.topics) - exist
        self._parts.observer.process.reading(exist, missing)
        self.doing = State.RUNNING, ""
        self._show(transactor)
        return StepResult.STARTED

    def _started_a_piece(self) -> StepResult:
        state, waiting = self.doing
        self._parts.observer.process.spent("restore" if state is State.RESTORING else "start")
        if state is State.PAUSED_DISK:
            return StepResult.DISK_FULL
        return StepResult.RETRY if waiting else StepResult.STARTED

    def _look_for_progress(self, step: StepResult, transactor: Transactor) -> None:
        """Report a stuck task; a pause on purpose does not count."""
        positions = transactor.position.positions
        did = step not in (StepResult.IDLE, StepResult.RETRY, StepResult.REPLACE)
        if did or positions != self._stood_at:
            self._progress.moved()
        self._stood_at = positions
        reason = self._progress.reason(positions)
        self._parts.observer.process.stuck(self.label, reason)

    def _shown(self, step: StepResult, transactor: Transactor) -> tuple[State, str]:
        if step is StepResult.SCHEMAS_AWAY:
            return State.PAUSED_SCHEMAS, f"{transactor.waits_for}; it goes on by itself"
        if step is StepResult.DISK_FULL:
            return State.PAUSED_DISK, transactor.waits_for
        if step is StepResult.TRIPPED:
            return State.PAUSED_DEAD_LETTERS, self._parts.breaker.reason
        return State.RUNNING, str(self._held)

    def _show(self, transactor: Transactor) -> None:
        index, parts = self._keeper.index, self._parts
        if index is None:
            return
        positions = parts.inputs.only_present(transactor.position.positions)
        names = self._plan.names
        now = parts.clock.monotonic()
        lag = self._lag(transactor) if now >= self._lag_at else None
        self._lag_at = now + LAG_SECONDS if lag is not None else self._lag_at
        parts.observer.holding(index)
        behind = None if lag is None else names.places(lag)
        newest = index.progress.highest_timestamp
        parts.observer.process.at(names.places(positions), behind, newest)
        if now >= self._measure_at:
            parts.observer.occupying(index, index.usage())
            self._measure_at = now + MEASURE_SECONDS

    def _lag(self, transactor: Transactor) -> Positions:
        """Return the offsets between each end and the committed position: taken records count."""
        self._parts.sink.serve()
        begin, ends = transactor.waits_from, self._parts.source.ends()
        before = str(self._held)
        self._held.look(begin, ends)
        if (now := str(self._held)) != before:
            self._parts.observer.process.loudly(
                now or "no open transaction holds the input back any more"
            )
        return {p: max(0, end - begin[p]) for p, end in ends.items()}

    def close(self) -> None:
        """Release all resources; an open transaction is aborted."""
        kill_point("close.begun")
        if self._script is not None:
            self._script.close()
        self._script = self._transactor = None
        self._parts.sink.close()
        self._parts.source.close()
        if self._backups is not None:
            self._backups.close()
        self._keeper.close()
        self._parts.observer.process.stuck(self.label, "")
        self._parts.observer.process.left(self._read)
        if self._parts.trimming is not None:
            self._parts.trimming.close()
        kill_point("close.done")
