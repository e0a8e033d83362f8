"""Micro-batches of a `RecordSource`: bounded in records, bytes and time; in order of judgement.

A batch is closed by the first bound that it reaches. Until then its records wait here. Every call
returns soon, so that the loop can answer the group and signals. The bytes of a call are known only
afterwards. So each call asks for as many records as fit, by the recent average size. Surplus
records wait for the next batch.

Example: a batch may have 1,000 bytes, and the average record has 400. The first call asks for two
records. If they have 500 and 600 bytes, the batch holds the first, and the second one waits.
"""

from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter

from msgspec import Struct, field

from streamfilter.documents.codecs.schemas import SchemasAway
from streamfilter.engine.ports import Clock, LogError, RecordSource, Worker
from streamfilter.matching.batch import Prepared
from streamfilter.model import Positions, Record

RECORD_BYTES = 200  # memory of a record without its key, its value and its headers
HEADER_BYTES = 150  # memory of a header without its name and value: a pair, a string, bytes
WAIT_SECONDS_MAX = 0.1  # longest wait of one call for records
WAIT_SECONDS_MIN = 0.001  # shorter waits of a call would spin until the latency is over


def bytes_of(record: Record) -> int:
    total = RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
    for name, content in record.headers:
        total += HEADER_BYTES + len(name) + len(content or b"")
    return total


def in_order(records: list[Record]) -> list[Record]:
    """Return *records* by (partition, offset): the order of judgement."""
    ordered = sorted(records, key=attrgetter("source.offset"))
    if len({record.source.number for record in records}) > 1:
        ordered.sort(key=attrgetter("source.number"))
    return ordered


class Taken(Struct, frozen=True):
    """A batch in the order of judgement, empty while none is closed."""

    records: Sequence[Record] = ()
    reached: Positions = field(default_factory=dict)  # where the next batch starts


class Intake:
    """Takes batches from a source of records."""

    def __init__(
        self,
        source: RecordSource,
        clock: Clock,
        *,
        documents: int,
        size: int,
        latency: float,
        share: Callable[[], float] = lambda: 1.0,
        order: Callable[[list[Record]], Sequence[Record]] = in_order,
    ) -> None:
        """Close a batch at so many records, bytes or seconds; of the first two it has a *share*."""
        self._source, self._clock, self._order = source, clock, order
        self._full_documents, self._full_size, self._latency = documents, size, latency
        self._share = share
        self._waiting: deque[tuple[Record, int]] = deque()  # waiting records with their bytes
        self._held = 0  # bytes of the waiting records
        self._since = self._drained = clock.monotonic()
        """Earliest arrival of the first waiting record, and the last time the log had no more."""
        self._average = float(RECORD_BYTES)

    def next(self, timeout: float) -> Taken:
        """Return a batch; empty while none is closed."""
        if not self._is_full():
            self._fetch(min(timeout, WAIT_SECONDS_MAX))
        late = self._source.ended or self._clock.monotonic() - self._since >= self._latency
        closed = self._waiting and (late or self._is_full())
        return Taken(self._take() if closed else (), self._reached())

    def full(self) -> Taken:
        """Return the next batch if it is full already; never wait."""
        if not self._is_full():
            self._fetch(0.0)
        return Taken(self._take() if self._is_full() else (), self._reached())

    def put_back(self, records: Sequence[Record]) -> None:
        """Let the next batch begin with *records*, which were taken and not judged."""
        sized = [(record, bytes_of(record)) for record in records]
        self._waiting.extendleft(reversed(sized))
        self._held += sum(size for _, size in sized)

    def _reached(self) -> Positions:
        """Return the first offsets that were not taken yet, from the waiting records or the log."""
        reached = self._source.reached()
        for record, _ in reversed(self._waiting):
            reached[record.source.number] = record.source.offset
        return reached

    @property
    def _documents(self) -> int:
        return max(1, int(self._full_documents * self._share()))

    @property
    def _size(self) -> int:
        return max(1, int(self._full_size * self._share()))

    def share_of(self, records: Sequence[Record]) -> float:
        """Return how full a batch of *records* is, 0 to 1."""
        size = sum(map(bytes_of, records))
        return min(1.0, max(len(records) / self._full_documents, size / self._full_size))

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._documents or self._held >= self._size

    def _fetch(self, timeout: float) -> None:
        if not self._waiting:
            self._since = self._drained
            if timeout > self._latency and not self._await_first(timeout):
                return
        # Records that arrived during a commit have waited already, and do not wait again.
        left = self._since + self._latency - self._clock.monotonic()
        shortest = min(WAIT_SECONDS_MIN, self._latency)
        room = int((self._size - self._held) / self._average)
        count = max(1, min(self._documents - len(self._waiting), room))
        self._ask(count, min(timeout, max(shortest, left)))

    def _await_first(self, timeout: float) -> bool:
        """Wait for a record longer than the latency, so that an idle log does not cause a spin."""
        begun = self._clock.monotonic()
        came = self._ask(1, timeout)
        now = self._clock.monotonic()
        if now - begun > WAIT_SECONDS_MIN:
            self._since = now
        return came

    def _ask(self, count: int, timeout: float) -> bool:
        """Take up to *count* records from the log; return whether any came."""
        records = self._source.consume(count, timeout)
        if len(records) < count:
            self._drained = self._clock.monotonic()
        if records:
            sizes = [*map(bytes_of, records)]
            size = sum(sizes)
            self._waiting.extend(zip(records, sizes, strict=True))
            self._held += size
            # The latest call weighs as much as all before it, because sizes change in bursts.
            self._average = max(size / len(records), (self._average + size / len(records)) / 2)
        return bool(records)

    def _take(self) -> Sequence[Record]:
        if len(self._waiting) <= self._documents and self._held <= self._size:
            batch = [record for record, _ in self._waiting]
            self._waiting.clear()
            self._held = 0
            return self._order(batch)
        batch = []
        room = self._size
        while self._waiting and len(batch) < self._documents:
            record, size = self._waiting[0]
            if batch and size > room:
                break
            self._waiting.popleft()
            room -= size
            self._held -= size
            batch.append(record)
        return self._order(batch)


Prepare = Callable[[Sequence[Record]], Prepared]


class _Begun(Struct, frozen=True):
    """A batch or a part of it, and the function that returns its `Prepared`."""

    taken: Taken
    result: Callable[[], Prepared]


class Ahead:
    """Returns batches, and prepares the next one early if it is full.

    Waiting for the broker leaves the processor idle, and reading and sketching need only the
    records. So a full next batch is taken before a transaction begins. A worker prepares it while
    the transaction is sent, committed and applied. The judgement still comes after that, because
    it reads the index that the previous batch has written.

    A prepared batch cannot become stale: a `Prepared` depends only on its records. Records taken
    ahead wait here instead of in the intake, and are dropped with the task's loop as well. Only
    the engine's thread uses the log.
    """

    def __init__(self, intake: Intake, worker: Worker, prepare: Prepare) -> None:
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
        """Let the worker prepare the next batch, if it is full; `next` raises the log's errors."""
        if self._next is not None or self._trouble is not None:
            return
        try:
            taken = self._intake.full()
        except LogError as error:
            self._trouble = error
            return
        if taken.records:
            self._next = self._begin(taken)

    def put_back(self, records: Sequence[Record]) -> None:
        """Fill the next batch anew: *records* of this one come first, then what was next."""
        after = self._next.taken.records if self._next else ()
        self._next = None
        self._intake.put_back([*records, *after])

    def prepared(self, records: Sequence[Record]) -> Prepared:
        """Return *records* prepared, or the first; after `NotReady`, `SchemasAway` ask again."""
        if self._current is None or self._current.taken.records != records:
            self._current = self._begin(Taken(records))
        try:
            return self._current.result()
        except SchemasAway:
            self._current = None  # the next call prepares it again
            raise

    def _begin(self, taken: Taken) -> _Begun:
        return _Begun(taken, self._worker.begin(lambda: self._prepare(taken.records)))
