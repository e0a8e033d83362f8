"""One batch ahead: what needs no index is done while the batch before it commits.

Waiting for the broker leaves the processor idle, and reading and sketching need nothing but the
records. So, before a transaction begins, the next batch is taken if it is full by then, and a
worker prepares it while the transaction is sent, committed and applied. Judging still waits for
its turn: it reads the index that the batch before it has written.

Nothing can go stale. A `Prepared` is a function of its records; records that were taken ahead
are only records that wait here instead of in the intake, and they die with the task's loop like
those. The log is touched by the engine's thread alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamfilter.engine.intake import Intake, Taken
from streamfilter.engine.ports import LogError, Worker
from streamfilter.matching.batch import Prepared
from streamfilter.model import Record

Prepare = Callable[[Sequence[Record]], Prepared]


@dataclass(frozen=True, slots=True)
class _Begun:
    """A batch or a part of it, and what gives its `Prepared` as soon as it is done."""

    taken: Taken
    result: Callable[[], Prepared]


class Ahead:
    """Hands out batches, the next one prepared if it could be taken early."""

    def __init__(self, intake: Intake, worker: Worker, prepare: Prepare) -> None:
        """Begin with nothing taken.

        Args:
            intake: where batches come from.
            worker: does one thing after the other, so *prepare* is never in two threads at once.
            prepare: a function of the records and of nothing else.
        """
        self._intake, self._worker, self._prepare = intake, worker, prepare
        self._current: _Begun | None = None
        self._next: _Begun | None = None
        self._trouble: LogError | None = None

    def next(self, timeout: float) -> Taken:
        """Return the next batch; empty while none is closed."""
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        self._current, self._next = self._next, None
        return self._current.taken if self._current else self._intake.next(timeout)

    def look(self) -> None:
        """Take the next batch if it is full already, and let the worker prepare it.

        Trouble with the log is raised by `next`, as if it had been met there: the batch that is
        about to be committed has no part in it.
        """
        if self._next is not None or self._trouble is not None:
            return
        try:
            taken = self._intake.full()
        except LogError as error:
            self._trouble = error
            return
        if taken.records:
            self._next = self._begin(taken)

    def prepared(self, records: Sequence[Record]) -> Prepared:
        """Return *records* prepared; the last batch handed out, or a part of it."""
        if self._current is None or self._current.taken.records != records:
            self._current = self._begin(Taken(records))
        return self._current.result()

    def _begin(self, taken: Taken) -> _Begun:
        return _Begun(taken, self._worker.begin(lambda: self._prepare(taken.records)))
