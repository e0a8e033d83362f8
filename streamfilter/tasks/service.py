"""The tasks of a process: the group assigns and revokes them, and each is advanced in turn.

There is one thread. Every turn polls the membership once, with no transaction open. Then each task
does one piece; a long turn also polls between two tasks. A task that moved is dropped whole and
started whole. The coordinator decides at the commit which process owns a task, not the last
callback. A fence or a lost membership shows there, and this module finds out the cause.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from streamfilter.engine.observer import Observer
from streamfilter.engine.parts import StepResult
from streamfilter.engine.ports import (
    Clock,
    Denied,
    InputLost,
    Layout,
    LogError,
    Membership,
    Moves,
    ProducerFenced,
    Retriable,
    Unfit,
    as_stop,
    without_frames,
)
from streamfilter.index import errors
from streamfilter.index.errors import IndexDamaged, IndexFault, IndexRemoved
from streamfilter.index.protocol import Index
from streamfilter.process.health import State
from streamfilter.stops import Fenced, SchemeMismatch
from streamfilter.tasks.plan import Doing
from streamfilter.tasks.standby import Standbys


class Job(Protocol):
    """The work of one task, as the service drives it: whatever it moves, it has these nine names.

    `tasks.task.Task` filters the task's input partitions.
    """

    @property
    def label(self) -> str:
        """Return the task's name, as in its transactional id."""

    @property
    def partitions(self) -> tuple[int, ...]:
        """Return the input partitions that it reads, once it knows them."""

    @property
    def doing(self) -> Doing:
        """Return its state, and the reason for a wait."""

    @property
    def outlived(self) -> bool:
        """Return whether the last transaction failed because it timed out."""

    def advance(self, timeout: float) -> StepResult:
        """Do one piece, waiting at most *timeout* seconds for records.

        After a `LogError` it needs a new producer: `restart` it. After `IndexDamaged`, `rebuild`
        it.
        """

    def follow(self, layout: Layout) -> None:
        """Begin again if topics have got more partitions."""

    def restart(self) -> None:
        """Begin again with a new producer."""

    def rebuild(self, why: str) -> None:
        """Remove the index and begin again: it is restored from the changelog."""

    def close(self) -> None:
        """Release all resources; an open transaction is aborted."""


STANDBY_SECONDS = 0.25  # wait of a membership poll while there is no other work
IDLE_SECONDS = 0.02
"""All tasks of an idle process together wait at least so long for records, or the loop would spin.
A record that arrives ends its task's wait."""
RETRY_SECONDS = 0.1  # wait of a poll after an aborted transaction: a revoke often follows
PAUSED_SECONDS = 0.5
TURN_SECONDS = 1.0  # longest time between two polls: slow tasks must not cost the membership
FENCE_POLLS = 20  # polls after a fence, to find out whether the group revoked the task
REPLACEMENTS_MAX = 3  # new producers in a row without a commit; after more the process ends


class Service:
    """Runs the tasks that the group gives to this process."""

    def __init__(
        self,
        membership: Membership,
        new_job: Callable[[int, Index | None], Job],
        observer: Observer,
        clock: Clock,
        *,
        latency: float,
        standbys: Standbys | None = None,
        tasks: int = 1,
        look: Callable[[], Layout | None] = lambda: None,
        away: Callable[[], str] = lambda: "",
        hindered: Callable[[], str] = lambda: "",
    ) -> None:
        """Begin with no task.

        *new_job* makes a task's job by its number, with the open index of its standby if any.
        *latency* is the longest wait for a batch in seconds, for all *tasks* together. *look* is
        called once a turn; it returns the topics' numbers of partitions if known, and may end the
        process. *away* returns why no broker is reachable, and *hindered* what else hinders it.
        """
        self._membership, self._new_job = membership, new_job
        self._observer, self._clock = observer, clock
        self._patience = max(latency, IDLE_SECONDS)
        self._standbys = standbys or Standbys()
        self._count, self._look = tasks, look
        self._jobs: dict[int, Job] = {}
        self._replaced: dict[int, int] = {}
        self._rebuilt: set[int] = set()
        self._wait = STANDBY_SECONDS
        self._polled_at = clock.monotonic()
        self._away, self._hindered = away, hindered

    def run(self, stopping: Callable[[], bool]) -> None:
        """Work until *stopping*, then finish the batch and leave the group, or raise `Stop`."""
        try:
            while not stopping():
                self.turn()
            self._observer.enter(State.DRAINING)
        finally:
            self.close()

    def turn(self) -> None:
        """Poll the membership, and advance every task by one piece."""
        if (layout := self._look()) is not None:
            for job in self._jobs.values():
                job.follow(layout)
        self._take(self._poll(self._wait))
        steps = list(self._advance_all())
        self._wait = max((_WAITS.get(step, 0.0) for step in steps), default=0.0)
        if StepResult.MOVED in steps:
            self._wait = 0.0
        if not self._jobs:
            self._wait = self._stand_by()
        self._observer.enter(*self._state())

    def _advance_all(self) -> Iterator[StepResult]:
        for number, job in list(self._jobs.items()):
            if self._clock.monotonic() - self._polled_at >= TURN_SECONDS:
                self._take(self._poll(0.0))
            # A piece of one task may have dropped another, which is closed already.
            if self._jobs.get(number) is job:
                yield self._advance(number, job)

    def _stand_by(self) -> float:
        """Let a standby do a piece; return the wait of the next membership poll."""
        if self._membership.member().generation < 0:
            return STANDBY_SECONDS  # still joining: tailing now may read an assigned task twice
        with _stops():
            busy = self._standbys.advance()
        return 0.0 if busy else STANDBY_SECONDS / max(1, len(self._standbys))

    def _poll(self, timeout: float) -> Moves:
        try:
            return self._membership.poll(timeout).among(self._count)
        except Retriable as error:
            self._observer.note(str(error))
            return Moves()
        except LogError as error:
            raise as_stop(error) from error
        finally:
            self._polled_at = self._clock.monotonic()
            self._observer.spent("membership")

    def _take(self, moves: Moves) -> None:
        """Drop the lost tasks and begin the gained ones; a task gained again starts over."""
        if not moves:
            return
        self._observer.rebalanced(moves)
        for number in sorted((moves.gone | moves.gained) & self._jobs.keys()):
            job = self._jobs.pop(number)
            self._observer.note(f"{job.label} is no longer ours")
            job.close()
        for number in sorted(moves.gained):
            # Its tail ends before step 1 begins, so no other code writes this index from here on.
            self._jobs[number] = self._new_job(number, self._standbys.release(number))
            self._replaced[number] = 0
            self._rebuilt.discard(number)
        if self._jobs:
            self._standbys.close()
        self._show_owned()

    def _show_owned(self) -> None:
        partitions = sum(len(job.partitions) for job in self._jobs.values())
        self._observer.owning([job.label for job in self._jobs.values()], partitions)

    def _advance(self, number: int, job: Job) -> StepResult:
        try:
            with _stops():
                step = job.advance(self._patience / max(1, len(self._jobs)))
            if step is StepResult.STARTED:
                self._show_owned()  # the task knows its partitions now
            if step is StepResult.MOVED:
                self._replaced[number] = 0
            return step
        except (LogError, IndexDamaged) as error:
            trouble = without_frames(error)
        finally:
            self._observer.alive()  # many tasks that wait for a coordinator are no stuck loop
        if isinstance(trouble, IndexDamaged):
            return self._rebuild(number, job, trouble)
        if isinstance(trouble, ProducerFenced):
            return self._fenced(number, job, trouble)
        return self._replace(number, job, trouble)

    def _replace(self, number: int, job: Job, error: LogError) -> StepResult:
        """Restart a task of unknown outcome with a new producer; after a timeout, without limit."""
        self._replaced[number] += not job.outlived
        if self._replaced[number] > REPLACEMENTS_MAX:
            raise as_stop(error) from error
        self._observer.loudly(f"{job.label} begins again with a new producer: {error}")
        job.restart()
        return StepResult.RETRY

    def _rebuild(self, number: int, job: Job, error: IndexDamaged) -> StepResult:
        """Restore a damaged index, once per task: then a person must check the disk."""
        if number in self._rebuilt and not isinstance(error, IndexRemoved):
            raise SchemeMismatch(f"{error}; it was restored once already: look at the disk")
        if not isinstance(error, IndexRemoved):
            self._rebuilt.add(number)
        job.rebuild(str(error))
        return StepResult.RETRY

    def _fenced(self, number: int, job: Job, error: ProducerFenced) -> StepResult:
        """Find out whether another process took over, or the transaction was only too old.

        The broker's answer is the same. Another process owns the task if the group revoked it, or
        if the fence is repeated. Then this process ends, and its restart becomes a standby.
        """
        self._observer.enter(State.FENCED, str(error))
        for _ in range(FENCE_POLLS):
            moves = self._poll(RETRY_SECONDS)
            if number in moves.gone:
                raise Fenced(f"{job.label} was taken over by another process: {error}")
            self._take(moves)
            if self._jobs.get(number) is not job:
                return StepResult.RETRY  # started over; moves of other tasks do not count
        if self._replaced[number] >= REPLACEMENTS_MAX and not job.outlived:
            raise Fenced(
                f"{job.label}: another process uses this transactional id again and again: "
                f"{error}\n    cure: stop the other processes with this kafka.group, or give them "
                "another one"
            )
        return self._replace(number, job, error)

    def _state(self) -> tuple[State, str]:
        """Return the state of the process: the worst state of its tasks (`_WORRY`)."""
        doing = [job.doing for job in self._jobs.values()]
        if not doing and self._membership.member().generation < 0:
            doing = [(State.STARTING, "joining the group")]
        doing = doing or [self._standbys.doing]
        if away := self._away():
            doing.append((State.UNREACHABLE, away))
        state, reason = max(doing, key=lambda each: _WORRY.index(each[0]))
        return state, "; ".join(filter(None, (reason, self._hindered())))

    def close(self) -> None:
        """Close every task, then leave the group: the next owner must find them closed."""
        try:
            self._standbys.close()
            for number in list(self._jobs):
                self._jobs.pop(number).close()
        finally:
            self._membership.close()
            self._observer.spent("stop")


@contextmanager
def _stops() -> Iterator[None]:
    """Turn errors that a task cannot handle into the end of the process."""
    try:
        yield
    except (Denied, InputLost, Unfit) as error:
        raise as_stop(error) from error
    except IndexDamaged:
        raise  # the index can be restored
    except IndexFault as error:
        raise errors.as_stop(error) from error


_WAITS = {
    StepResult.RETRY: RETRY_SECONDS,
    StepResult.DISK_FULL: PAUSED_SECONDS,
    StepResult.SCHEMAS_AWAY: PAUSED_SECONDS,
    StepResult.TRIPPED: PAUSED_SECONDS,
}
_WORRY = (
    State.STANDBY,
    State.RUNNING,
    State.RESTORING,
    State.STARTING,
    State.PAUSED_SCHEMAS,
    State.UNREACHABLE,
    State.PAUSED_DEAD_LETTERS,
    State.PAUSED_DISK,
)
