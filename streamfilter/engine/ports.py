"""The engine's ports to Kafka, to time and to threads. The index has `tasks.index_storage`.

One task reads a `RecordSource` and writes a `Sink`; its index follows a `Changelog`.

The engine and its tasks are one thread of plain calls on these protocols. They sleep, start
threads and read clocks only through them. So a simulator can replace them, and can crash, delay,
fence and rebalance between any two calls. `kafka/` is the implementation for Kafka. Errors are
the exceptions below. The caller's next action depends only on the class, never on a library's
error code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from msgspec import Struct

from streamfilter.model import Headers, InputTopic, Positions, Record, Source
from streamfilter.stops import ExitCode, Fenced, Refused, Stop, Temporary

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


class LogError(Exception):
    """An error of Kafka; the subclass says what the caller may do next."""


class Retriable(LogError):
    """The outcome is not decided yet: repeat the same call."""


class Abortable(LogError):
    """The transaction is lost: abort it, poll the membership, perhaps try the batch again."""


class RecordsRefused(Abortable):
    """A broker refuses records for good: sending them again does not help."""

    def __init__(self, message: str, blame: Blame | None = None) -> None:
        """Keep the *blame*; None: deliveries were not watched."""
        super().__init__(message)
        self.blame = blame


class ProducerFenced(LogError):
    """The broker has a newer owner of our transactional id, or timed our transaction out.

    The producer cannot be used again. No record of the open transaction will ever be visible.
    """


class OutcomeUnknown(LogError):
    """The producer cannot go on, and only the broker knows if the transaction was committed."""


class Denied(LogError):
    """The broker denies the request: an ACL or a credential is missing."""


class Unfit(LogError):
    """The brokers do not take a setting of this process."""


class Unlike(LogError):
    """The group has members with another setting than this process. They may end."""


class InputLost(LogError):
    """The input does not hold the requested offset: retention removed it, or it was recreated."""


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
    """Return the `Stop` that ends the process for *error*, where no caller can recover."""
    if isinstance(error, Retriable):
        return Temporary(f"{error}; the broker may be away: try again later")
    if isinstance(error, Denied):
        return Refused(f"{error}; grant this right or mend the credentials")
    if isinstance(error, ProducerFenced):
        return Fenced(f"{error}; another process has our place")
    if isinstance(error, InputLost):
        cure = "start again: a start names what is gone, and the ways out"
        return Stop(f"{error}\n    cure: {cure}", exit_code=ExitCode.CONFIG)
    if isinstance(error, Unfit):
        return Stop(str(error), exit_code=ExitCode.CONFIG)
    if isinstance(error, Unlike):
        return Temporary(str(error))
    return Stop(str(error))


class Blame(Struct, frozen=True):
    """The records that a broker refused, according to delivery reports."""

    numbers: tuple[int, ...]  # in the order of producing; the transaction's first is 0
    each: bool
    """True: every one of them was refused. False: at least one was refused, and the others were
    in the same request."""
    reason: str
    for_time: bool = False  # True: the timestamps were refused


class Moves(Struct, frozen=True):
    """Changes of this process's tasks after the previous poll of the membership."""

    gained: frozenset[int] = frozenset()  # assigned, perhaps again: each starts over
    gone: frozenset[int] = frozenset()  # revoked or lost: their state must be dropped
    lost: bool = False  # the group expelled this process: others may already own the tasks

    def __bool__(self) -> bool:
        return bool(self.gained or self.gone or self.lost)

    def among(self, tasks: int) -> Moves:
        """Return the moves of tasks that exist: a changelog may have more partitions."""
        real = range(tasks)
        return Moves(self.gained.intersection(real), self.gone.intersection(real), self.lost)


class Member(Struct, frozen=True):
    """Our current place in the group, as the transaction sends it."""

    generation: int
    member_id: str
    token: bytes  # opaque to the engine: an argument of `Sink.send_offsets`

    @property
    def has_place(self) -> bool:
        """Return whether a transaction that shows this place can be fenced: no generation is -1."""
        return self.generation >= 0 and bool(self.member_id)


class Membership(Protocol):
    """The owners of the tasks: the group's assignment of the changelog's partitions."""

    def poll(self, timeout: float) -> Moves:
        """Serve the group for at most *timeout* seconds; return what moved."""

    def member(self) -> Member:
        """Return our place in the group now."""

    def close(self) -> None:
        """Leave the group."""


class Layout(Struct, frozen=True):
    """How many partitions the topics have (never fewer), and which task reads which."""

    inputs: int
    outputs: Mapping[str, int]  # by topic
    whole: bool = True
    """True: one task reads the whole input (``index.scope: topic``). False: each partition has a
    task and an index of its own."""
    topics: tuple[InputTopic, ...] = ()  # of ``input.topics``, as they exist now

    @property
    def placing(self) -> int:
        """Return the partition count of every input topic; 0: they differ."""
        counts = {each.partitions for each in self.topics} or {self.inputs}
        return counts.pop() if len(counts) == 1 else 0

    @property
    def tasks(self) -> int:
        return 1 if self.whole else self.inputs

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(range(self.inputs))

    def read_by(self, task: int) -> tuple[int, ...]:
        return self.partitions if self.whole else (task,)


class Watermarks(Struct, frozen=True):
    """The changelog partition: first offset, and the offset after the last record or marker."""

    start: int
    end: int  # read uncommitted, so that an open transaction does not lower it


class Entry(Struct, frozen=True):
    """One committed record of the changelog."""

    offset: int
    value: bytes
    by: str = ""  # the process that wrote it, if the record says so


class ChangelogReader(Protocol):
    """Reads committed changelog records from one offset to another."""

    def read(self, count: int, timeout: float) -> Sequence[Entry]:
        """Return up to *count* records; none may mean that an open transaction holds them back."""

    @property
    def done(self) -> bool:
        """Return True when everything before the end was read."""

    @property
    def position(self) -> int:
        """Return the offset read next."""

    def close(self) -> None:
        """Release the connection."""


class Outgoing(Struct, frozen=True):
    """One record to produce; the engine always chooses its partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = -1  # milliseconds since the epoch; -1: the present
    source: Source | None = None  # the input record that it was made from; it is not sent


StartAt = datetime | str  # where a fresh group begins: ``earliest``, ``latest``, or a time


class RecordSource(Protocol):
    """The input of one task. The steps are those of `task_start.py` and `transactor.py`."""

    @property
    def ended(self) -> bool:
        """Return whether no record will ever come: the last batch does not wait for others."""

    def committed(self, partitions: Sequence[int]) -> Positions:
        """Return the group's stable offsets; a partition without one is left out (step 2)."""

    def ids(self) -> tuple[str, str]:
        """Return the input's id as committed by the group, and now; empty: unknown (step 2)."""

    def start_positions(self, partitions: Sequence[int], start: StartAt) -> Positions:
        """Return the offset that *start* means in each of these input partitions (step 4)."""

    def assign(self, positions: Positions) -> None:
        """Make `consume` begin at *positions*, and drop all fetched records (step 6)."""

    def consume(self, count: int, timeout: float) -> list[Record]:
        """Return up to *count* records, each partition's in rising order (step 7)."""

    def reached(self) -> Positions:
        """Return the next offset of each partition that `consume` has not returned yet.

        It is after the last returned record, and after the markers and aborted records that
        follow. Those take offsets, but no consumer gets them.
        """

    def ends(self) -> Positions:
        """Return the end of each partition, if the last fetches have shown it."""

    def unread(self, positions: Positions) -> bool:
        """Return whether another consumer gets a record at or after one of *positions*."""

    def close(self) -> None:
        """Close its clients."""


class Changelog(Protocol):
    """The changelog partition of one task; every call may be made without a producer."""

    def bounds(self) -> Watermarks:
        """Return the first offset and the end, read uncommitted (step 3)."""

    def read(self, start: int, end: int) -> ChangelogReader:
        """Return a reader of the committed records with start <= offset < end (step 5)."""

    def trim(self, before: int) -> bool:
        """Let the changelog begin at the offset *before*, unless it begins later.

        Return True once the brokers have confirmed it. The call does not wait: repeat it until
        then. Raises `Denied`: the right to delete records is missing.
        """

    def start(self) -> int:
        """Return the first offset, if brokers reported it, else -1; it never waits for them."""

    def refuse_changed(self) -> None:
        """End the process (`Stop`) if settings of a topic are why it refuses records."""


class Sink(Protocol):
    """The transactions of one task: outputs, changelog records and offsets, all or nothing."""

    def open(self, *, watched: bool = False) -> None:
        """Replace the producer, fence every predecessor and end its transaction (step 1).

        It waits only shortly. After `Retriable` the next call continues this one. There is no
        usable producer until a call returns.

        *watched*: the producer checks every delivery, and `flush` reports the refused records.
        """

    def begin(self) -> None:
        """Open a transaction (step 10)."""

    def produce(self, records: Sequence[Outgoing]) -> None:
        """Add output records to the transaction."""

    def produce_changelog(self, values: Sequence[bytes]) -> None:
        """Add changelog records to the transaction; `flush` returns the last one's offset."""

    def flush(self) -> int:
        """Wait until all is delivered; return the last changelog record's offset, or -1.

        Raises `RecordsRefused`: a broker refused records; from a watched producer with the blame.
        """

    def send_offsets(self, positions: Positions, member: Member) -> None:
        """Add the next offsets to the transaction (step 11)."""

    def commit(self) -> None:
        """Commit the transaction (step 12). Returned means committed."""

    def abort(self) -> None:
        """Abort the transaction."""

    def serve(self) -> None:
        """Let the producer do what it does between transactions; it never waits."""

    def compacted(self, topics: Iterable[str]) -> list[str]:
        """Return which of *topics* are compacted now: they refuse records without a key."""

    def close(self) -> None:
        """Close the producer; an open transaction is left to the broker or the next producer."""


class Predecessor(Protocol):
    """Another group, with a changelog of its own, whose input this one takes over."""

    @property
    def group(self) -> str:
        """Return its name."""

    @property
    def sink(self) -> Sink:
        """Return our transactions under its transactional id: opening it fences its processes."""

    def positions(self, partitions: Sequence[int]) -> Positions | None:
        """Return its last positions of those *partitions* that it reads; None: we have them.

        Raises `Retriable` while a process of it is alive, and `Stop` if it cannot be taken over.
        """

    def farewell(self, index_id: str) -> Outgoing:
        """Return the record that ends its changelog, with the id of our index."""


class NotReady(Exception):
    """A worker has not finished its call yet: ask again."""


class Worker(Protocol):
    """Runs calls that need no port while the engine waits for Kafka, one after the other."""

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        """Begin *call*; return a function for its result, or `NotReady` instead of a wait."""


class Clock(Protocol):
    """The time; only the outer parts of the engine may read it."""

    def monotonic(self) -> float:
        """Return seconds that never jump."""

    def wall_milliseconds(self) -> int:
        """Return milliseconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Sleep for *seconds*."""
