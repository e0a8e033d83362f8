"""The settings of a task, and scripts: generators that run long work in pieces."""

from collections.abc import Callable, Generator
from typing import ParamSpec, TypeVar

from msgspec import Struct

from streamfilter.engine.parts import Parts
from streamfilter.engine.ports import OutcomeUnknown, Predecessor, Retriable, StartAt
from streamfilter.engine.start_checks import Names
from streamfilter.engine.transaction import Load, Transactions
from streamfilter.index.directory.identity import Identity
from streamfilter.index.errors import DiskFull
from streamfilter.process.health import State
from streamfilter.similarity.scheme import Scheme

P = ParamSpec("P")
T = TypeVar("T")
Doing = tuple[State, str]  # the state of the process, and the reason for a wait (or "")
Script = Generator[Doing, None, T]  # the membership is polled between two pieces


class Plan(Struct, frozen=True):
    """The settings of a task."""

    number: int
    names: Names
    scheme: Scheme
    bucket_cap: int
    start: StartAt
    accept_positions: bool
    new_identity: Callable[[], Identity]  # of a new index: random id, seed and time
    rewrite_changelog: bool = False  # if it lost its beginning, from a whole index
    rewinds: bool = True
    """Whether records before the changelog's positions are read again. False: a judge has no
    records, and its edges are rewound instead."""

    predecessor: Predecessor | None = None  # the group that this one takes over (`take_over.py`)

    @property
    def label(self) -> str:
        """Return the task's name, as in its transactional id."""
        return f"{self.names.group}.{self.number}"


def patiently(state: State, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Script[T]:
    """Return the result of *call*, repeated while it is retriable; show *state* meanwhile."""
    while True:
        try:
            return call(*args, **kwargs)
        except Retriable as error:
            yield state, str(error)


def with_room(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Script[T]:
    """Return the result of *call*, repeated while the disk is full."""
    while True:
        try:
            return call(*args, **kwargs)
        except DiskFull as error:
            full = str(error)
        # Yield after the handler: a live exception would keep RocksDB open, and hold its lock.
        yield State.PAUSED_DISK, full


def tried(parts: Parts, transactions: Transactions, load: Load) -> Script[bool]:
    """Run one transaction of a start; return whether it was committed, or raise `OutcomeUnknown`.

    Only the last one of a start has an update; after the others the same producer must go on.
    """
    yield State.RESTORING, ""
    while not (member := parts.member()).has_place:
        yield State.STARTING, "this process has no place in the group yet"
    offset = transactions.run(load, member)
    if transactions.worn and (offset is None or load.update is None):
        raise OutcomeUnknown("the start begins again, with a new producer")
    return offset is not None
