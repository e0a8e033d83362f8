"""What a task works on, and the form of whatever takes long: a script, advanced in pieces."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from streamfilter.engine.beginning import Names
from streamfilter.engine.ports import Layout, Retriable, StartAt
from streamfilter.index.errors import DiskFull
from streamfilter.index.identity import Identity
from streamfilter.process.health import State
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Spread

P = ParamSpec("P")
T = TypeVar("T")
Doing = tuple[State, str]
"""What the process is doing; what it waits for, or the empty string."""
Script = Generator[Doing, None, T]
"""Between two pieces the membership is polled, so that no long work costs us our place."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task works on."""

    number: int
    names: Names
    whole: bool
    """Whether it takes all input partitions (``index.scope: topic``), or that of its number."""
    scheme: Scheme
    bucket_cap: int
    start: StartAt
    accept_positions: bool
    new_identity: Callable[[], Identity]
    """Draws an id, a seed and the time, for an index that begins."""
    spread: Spread | None = None
    """Makes sketches in other processes; None: this one does."""

    def partitions(self, layout: Layout) -> tuple[int, ...]:
        """Return the task's input partitions in a *layout*."""
        return layout.partitions if self.whole else (self.number,)

    @property
    def label(self) -> str:
        """Return the task's name, as its transactional id has it."""
        return f"{self.names.group}.{self.number}"


def patiently(state: State, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Script[T]:
    """Return what *call* returns, repeated while it is retriable; *state* is shown meanwhile."""
    while True:
        try:
            return call(*args, **kwargs)
        except Retriable as error:
            yield state, str(error)


def with_room(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Script[T]:
    """Return what *call* returns, repeated while the disk is full."""
    while True:
        try:
            return call(*args, **kwargs)
        except DiskFull as error:
            full = str(error)
        # Not in the handler: an error that is alive keeps what it met open, and RocksDB's lock.
        yield State.PAUSED_DISK, full
