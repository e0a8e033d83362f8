"""The work of one task, as the service drives it: whatever it moves, it has these nine names."""

from __future__ import annotations

from typing import Protocol

from streamfilter.engine.parts import StepResult
from streamfilter.engine.ports import Layout
from streamfilter.tasks.plan import Doing


class Job(Protocol):
    """The work of one task. `tasks.task.Task` filters the task's input partitions."""

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
