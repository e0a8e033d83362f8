"""What the engine asks of the world: a membership, a log and a clock; a store is `tasks.store`'s.

The engine, and the tasks that it moves batches for, are one thread of plain calls on these
protocols. They never sleep, start a thread or read a clock but through them, so that a
simulator can stand behind them and crash, delay, fence and rebalance between any two calls.
`kafka/` is the real thing. Trouble comes as one of the exceptions below; what a caller may
do next depends on the class alone, never on a library's error code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from streamfilter.model import Headers, Positions, Record, Source, noun
from streamfilter.stops import ExitCode, Fenced, Refused, Stop, Temporary

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


class LogError(Exception):
    """Trouble with Kafka; the subclass says what may be done about it."""


class Retriable(LogError):
    """Nothing is decided yet: make the very same call again."""


class Abortable(LogError):
    """The transaction is lost: abort it, poll the membership, perhaps try the batch again."""


class RecordsRefused(Abortable):
    """A broker refuses records for good: to send them again would change nothing."""

    def __init__(self, message: str, blame: Blame | None = None) -> None:
        """Say so; without *blame*, deliveries were not watched."""
        super().__init__(message)
        self.blame = blame


class ProducerFenced(LogError):
    """The broker has a newer owner of our transactional id, or timed our transaction out.

    The producer is dead for good; nothing of the open transaction will ever be visible.
    """


class OutcomeUnknown(LogError):
    """The producer cannot go on, and what became of the transaction only the broker knows."""


class Denied(LogError):
    """The broker knows us and refuses: an ACL or a credential is missing."""


class InputLost(LogError):
    """The input does not hold what was asked for: retention passed it, or it was recreated."""


def without_frames(error: E) -> E:
    """Return *error* with its message only, to be kept after its handler has ended.

    An `except` block only notes what happened. Kafka's client is called after the block: if its C
    code raises inside the block, the binding (confluent-kafka 2.16.1) keeps the handled exception
    for ever. That exception's traceback keeps the frames, and they keep the transactor and the
    index. A kept exception must not refer to frames either: it would form a cycle with them.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def as_stop(error: LogError) -> Stop:
    """Return *error* as the end of the process, for where nobody can go on from it."""
    if isinstance(error, Retriable):
        return Temporary(f"{error}; the broker may be away: try again later")
    if isinstance(error, Denied):
        return Refused(f"{error}; grant this right or mend the credentials")
    if isinstance(error, ProducerFenced):
        return Fenced(f"{error}; another process has our place")
    if isinstance(error, InputLost):
        return Stop(str(error), exit_code=ExitCode.CONFIG)
    return Stop(str(error))


@dataclass(frozen=True, slots=True)
class Blame:
    """What delivery reports say of records that a broker refused."""

    numbers: tuple[int, ...]
    """Of the records blamed: how many were produced in the transaction before each."""
    each: bool
    """True: every one of them was refused. False: one of them at least, and the others are
    blamed for having been sent with it."""
    reason: str
    for_time: bool = False
    """True: for their timestamps."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What happened to the tasks of this process since the last poll of the membership."""

    gained: frozenset[int] = frozenset()
    """Tasks assigned (also again): each starts over with step 1."""
    gone: frozenset[int] = frozenset()
    """Tasks revoked or lost: whatever they hold is to be dropped."""
    lost: bool = False
    """True if the group threw us out, so that somebody else may already work."""

    def __bool__(self) -> bool:
        return bool(self.gained or self.gone or self.lost)

    def among(self, tasks: int) -> Moves:
        """Return the moves of tasks that exist: a changelog may have more partitions."""
        real = range(tasks)
        return Moves(self.gained.intersection(real), self.gone.intersection(real), self.lost)


@dataclass(frozen=True, slots=True)
class Member:
    """Our place in the group at this moment, as the transaction will present it."""

    generation: int
    member_id: str
    token: bytes
    """What `Log.send_offsets` wants, unread by the engine."""


class Membership(Protocol):
    """Who owns which task: the group's assignment of the changelog's partitions."""

    def poll(self, timeout: float) -> Moves:
        """Serve the group for at most *timeout* seconds; return what moved."""

    def member(self) -> Member:
        """Return our place in the group now."""

    def close(self) -> None:
        """Leave the group."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How many partitions the topics have; a topic gets more, never fewer."""

    inputs: int
    outputs: Mapping[str, int]
    """By topic."""

    @property
    def partitions(self) -> tuple[int, ...]:
        """Return the input's partitions."""
        return tuple(range(self.inputs))


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The changelog partition: first offset, and the offset after the last record or marker."""

    start: int
    end: int
    """Read uncommitted: a bound that no open transaction can shorten."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed record of the changelog."""

    offset: int
    value: bytes
    by: str = ""
    """The process that wrote it, where the record tells."""


class ChangelogReader(Protocol):
    """Reads committed changelog records from one offset to another."""

    def read(self, count: int, timeout: float) -> Sequence[Entry]:
        """Return up to *count* records; none may mean that an open transaction is in the way."""

    @property
    def done(self) -> bool:
        """Return True when everything before the end was read."""

    @property
    def position(self) -> int:
        """Return the offset read next."""

    def close(self) -> None:
        """Release the connection."""


@noun()
class Outgoing:
    """One record to produce; the partition is always decided by us."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = -1
    """Milliseconds since the epoch; -1: the present."""
    source: Source | None = None
    """Of the input record that it is made of; not a part of what leaves."""


StartAt = datetime | str
"""Where a fresh group begins: ``earliest``, ``latest``, or a time."""


class Log(Protocol):
    """One task's side of Kafka. The steps are those of `starting.py` and `transactor.py`."""

    def open_producer(self, *, watched: bool = False) -> None:
        """Replace the producer, fence every predecessor and end its transaction (step 1).

        It waits shortly. After `Retriable` the next call goes on with what this one began, and
        until one returns there is no producer to be used.

        *watched*: it looks at every single delivery, and `flush` says which were refused.
        """

    def layout(self) -> Layout:
        """Return how many partitions the input and the outputs have now (step 2)."""

    def committed(self, partitions: Sequence[int]) -> Positions:
        """Return the group's stable offsets; a partition without one is left out (step 2)."""

    def input_ids(self) -> tuple[str, str]:
        """Return the input's id as committed by the group, and now; empty: unknown (step 2)."""

    def changelog_bounds(self) -> Watermarks:
        """Return the changelog's bounds, read uncommitted (step 3)."""

    def trim_changelog(self, before: int) -> bool:
        """Let the changelog begin at the offset *before*, unless it begins later.

        Return whether it is known to. It waits for nobody: until then, it is asked again.

        Raises:
            Denied: the right to delete records is missing.
        """

    def changelog_start(self) -> int:
        """Return where the changelog begins, as far as brokers told since the bounds; else -1.

        They are asked now and then, and never waited for.
        """

    def start_positions(self, partitions: Sequence[int], start: StartAt) -> Positions:
        """Return the offset that *start* means in each of these input partitions (step 4)."""

    def read_changelog(self, start: int, end: int) -> ChangelogReader:
        """Return a reader of the committed records with start <= offset < end (step 5)."""

    def assign(self, positions: Positions) -> None:
        """Make `consume` begin at *positions*, dropping whatever it had fetched (step 6)."""

    def consume(self, count: int, timeout: float) -> list[Record]:
        """Return up to *count* records, each partition's in rising order (step 7)."""

    def refuse_changed_changelog(self) -> None:
        """End the process if the changelog's settings are why it refuses records.

        Raises:
            Stop: they are.
        """

    def reached(self) -> Positions:
        """Return the next offset of each partition that `consume` has still to give.

        That is behind the last record it gave, or behind markers and aborted records that follow:
        they hold offsets, and nobody gets them.
        """

    def begin(self) -> None:
        """Open a transaction (step 10)."""

    def produce(self, records: Sequence[Outgoing]) -> None:
        """Add output records to the transaction."""

    def produce_changelog(self, values: Sequence[bytes]) -> None:
        """Add changelog records to the transaction; the last one's offset is remembered."""

    def flush(self) -> int:
        """Wait until all is delivered; return the last changelog record's offset, or -1.

        Raises:
            RecordsRefused: by a watched producer, with the blame.
        """

    def send_offsets(self, positions: Positions, member: Member) -> None:
        """Make the next offsets a part of the transaction (step 11)."""

    def commit(self) -> None:
        """Commit the transaction (step 12). Returned means committed."""

    def abort(self) -> None:
        """Abort the transaction."""

    def ends(self) -> Positions:
        """Return the end of each partition, as far as it is known from what was last fetched."""

    def unread(self, positions: Positions) -> bool:
        """Return whether another consumer gets a record at or after one of *positions*."""

    def compacted(self, topics: Iterable[str]) -> list[str]:
        """Return which of *topics* are compacted now; none if nobody tells.

        Such a one keeps the latest record of each key, and refuses those without.
        """

    def close(self) -> None:
        """Close every client of this task; an open transaction is aborted if possible."""


class NotReady(Exception):
    """A worker has not done yet what it was asked for: ask again."""


class Worker(Protocol):
    """Does what needs no port while the engine waits for Kafka: one thing after the other."""

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        """Begin *call*; what is returned waits for it, and returns or raises what it did.

        It may be asked more than once. It raises `NotReady` rather than wait long.
        """


class Clock(Protocol):
    """Time, which only the edges of the engine may know."""

    def monotonic(self) -> float:
        """Return seconds that never jump."""

    def wall_milliseconds(self) -> int:
        """Return milliseconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Do nothing for a while."""
