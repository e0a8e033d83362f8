"""Micro-batches out of `Log.consume`: bounded in records, bytes and time; in order of judgement.

A batch is closed by whatever bound it reaches first. Until then its records wait here, as they
would inside the client, and every call returns soon: a fuller batch is no reason to be deaf to
the group or to a signal. How many bytes a call brings is known afterwards only, so each asks
for what the average record of late would fill; what is too much waits for the next batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from streamfilter.documents.schemas import SchemasAway
from streamfilter.engine.ports import Clock, Log, LogError, Worker
from streamfilter.matching.batch import Prepared
from streamfilter.model import Positions, Record

RECORD_BYTES = 200
"""What a record occupies in memory beside its key, its value and its headers."""
HEADER_BYTES = 150
"""What a header occupies beside its name and value: a pair, a string, bytes."""
WAIT_SECONDS_MAX = 0.1
"""The longest that one call waits for records."""
WAIT_SECONDS_MIN = 0.001
"""A wait that shrinks towards nothing would spin before the latency is over."""


def bytes_of(record: Record) -> int:
    """Return roughly what *record* holds in memory."""
    total = RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
    for name, content in record.headers:
        total += HEADER_BYTES + len(name) + len(content or b"")
    return total


def in_order(records: list[Record]) -> list[Record]:
    """Return *records* by (partition, offset): the order of judgement."""
    return sorted(records, key=lambda record: (record.source.partition, record.source.offset))


@dataclass(frozen=True, slots=True)
class Taken:
    """A batch in the order of judgement, empty while none is closed."""

    records: Sequence[Record] = ()
    reached: Positions = field(default_factory=dict)
    """Where the next one begins: behind these records, and behind the markers after them."""


class Intake:
    """Takes batches from a log."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        *,
        documents: int,
        size: int,
        latency: float,
        share: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """Close a batch at *documents* records, *size* bytes, or *latency* seconds of waiting.

        *share* says how much of the first two a batch may have now.
        """
        self._log, self._clock = log, clock
        self._full_documents, self._full_size, self._latency = documents, size, latency
        self._share = share
        self._waiting: deque[tuple[Record, int]] = deque()
        """With their bytes."""
        self._held = 0
        """Bytes of what waits."""
        self._since = self._drained = clock.monotonic()
        """When the first of what waits may have come, and when the log last had no more."""
        self._average = float(RECORD_BYTES)

    def next(self, timeout: float) -> Taken:
        """Return a batch; empty while none is closed."""
        if not self._is_full():
            self._fetch(min(timeout, WAIT_SECONDS_MAX))
        late = self._clock.monotonic() - self._since >= self._latency
        closed = self._waiting and (late or self._is_full())
        return Taken(self._take() if closed else (), self._reached())

    def full(self) -> Taken:
        """Return the next batch if a full one has come already; never waits."""
        if not self._is_full():
            self._fetch(0.0)
        return Taken(self._take() if self._is_full() else (), self._reached())

    def _reached(self) -> Positions:
        """Return where what was not taken yet begins: records wait here, or the log has them."""
        reached = self._log.reached()
        for record, _ in reversed(self._waiting):
            reached[record.source.partition] = record.source.offset
        return reached

    @property
    def _documents(self) -> int:
        return max(1, int(self._full_documents * self._share()))

    @property
    def _size(self) -> int:
        return max(1, int(self._full_size * self._share()))

    def share_of(self, records: Sequence[Record]) -> float:
        """Return how much of a full batch *records* are."""
        size = sum(map(bytes_of, records))
        return min(1.0, max(len(records) / self._full_documents, size / self._full_size))

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._documents or self._held >= self._size

    def _fetch(self, timeout: float) -> None:
        if not self._waiting:
            self._since = self._drained
            if timeout > self._latency and not self._await_first(timeout):
                return
        # What came while a batch was committed has waited already, and is not kept waiting again.
        left = self._since + self._latency - self._clock.monotonic()
        shortest = min(WAIT_SECONDS_MIN, self._latency)
        room = int((self._size - self._held) / self._average)
        count = max(1, min(self._documents - len(self._waiting), room))
        self._ask(count, min(timeout, max(shortest, left)))

    def _await_first(self, timeout: float) -> bool:
        """Wait for a record longer than a latency lasts: an idle log would be asked without end."""
        begun = self._clock.monotonic()
        came = self._ask(1, timeout)
        now = self._clock.monotonic()
        if now - begun > WAIT_SECONDS_MIN:
            self._since = now
        return came

    def _ask(self, count: int, timeout: float) -> bool:
        """Take up to *count* records from the log; return whether any came."""
        records = self._log.consume(count, timeout)
        if len(records) < count:
            self._drained = self._clock.monotonic()
        if records:
            sizes = [*map(bytes_of, records)]
            size = sum(sizes)
            self._waiting.extend(zip(records, sizes, strict=True))
            self._held += size
            # The latest records weigh as much as all before: sizes change in bursts.
            self._average = max(size / len(records), (self._average + size / len(records)) / 2)
        return bool(records)

    def _take(self) -> list[Record]:
        batch: list[Record] = []
        room = self._size
        while self._waiting and len(batch) < self._documents:
            record, size = self._waiting[0]
            if batch and size > room:
                break
            self._waiting.popleft()
            room -= size
            self._held -= size
            batch.append(record)
        return in_order(batch)


Prepare = Callable[[Sequence[Record]], Prepared]


@dataclass(frozen=True, slots=True)
class _Begun:
    """A batch or a part of it, and what gives its `Prepared` as soon as it is done."""

    taken: Taken
    result: Callable[[], Prepared]


class Ahead:
    """Hands out batches, the next one prepared if it could be taken early.

    Waiting for the broker leaves the processor idle, and reading and sketching need nothing but
    the records. So, before a transaction begins, the next batch is taken if it is full by then,
    and a worker prepares it while the transaction is sent, committed and applied. Judging still
    waits for its turn: it reads the index that the batch before it has written.

    Nothing can go stale. A `Prepared` is a function of its records; records that were taken ahead
    are only records that wait here instead of in the intake, and they die with the task's loop
    like those. The log is touched by the engine's thread alone.
    """

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
        """Return *records* prepared, or the first of them; of the last batch handed out.

        Raises:
            NotReady: the worker has not done it yet; ask again.
            SchemasAway: nobody says how to read one of them; ask again.
        """
        if self._current is None or self._current.taken.records != records:
            self._current = self._begin(Taken(records))
        try:
            return self._current.result()
        except SchemasAway:
            self._current = None  # to be prepared anew
            raise

    def _begin(self, taken: Taken) -> _Begun:
        return _Begun(taken, self._worker.begin(lambda: self._prepare(taken.records)))
