"""The ports of one task: clients of the simulated broker, and what goes wrong with them.

Records wait in a local queue and reach the broker one by one, at any time until the flush. A
reply may be lost when the request was not, and a request may arrive long after its client
stopped waiting. What a client says of it is what `kafka.errors` makes of librdkafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.ports import (
    Abortable,
    Blame,
    Denied,
    Entry,
    InputLost,
    LogError,
    Member,
    OutcomeUnknown,
    Outgoing,
    ProducerFenced,
    RecordsRefused,
    Retriable,
    StartAt,
    Watermarks,
)
from streamfilter.model import Positions, Record, Source
from tests.simulator.cluster.broker import Partition, Txn
from tests.simulator.world import FAR_FUTURE, SOCKET_SECONDS, TRANSACTION_SECONDS, Life, World
from tests.support.values import replace

INPUT, CHANGELOG = "input", "changelog"


class _Client:
    """What the clients of one task in one process share."""

    def __init__(
        self,
        world: World,
        life: Life,
        task: int,
        inputs: Inputs | None = None,
        topic: str = INPUT,
        group: str = "",
    ) -> None:
        self._world, self._life, self._broker = world, life, world.broker
        self._inputs = inputs
        self._task = task
        self._tid = f"group.{task}"
        self._topic, self._group = topic, group

    def _key(self, p: int) -> Any:
        """Return the key of a committed offset: the number alone, of the input of the one group."""
        return (self._group, self._topic, p) if self._group else p

    def _port(self, name: str) -> None:
        self._world.port(self._life, name)

    def _tell(self, what: str) -> None:
        self._world.tell(self._life.name, f"{self._tid}: {what}")

    def _query(self, name: str) -> None:
        self._world.query(self._life, name)

    def _spots(self, numbers: Iterable[int]) -> dict[int, int]:
        """Return the partition of each number that the engine uses, if it exists now."""
        if (inputs := self._inputs) is None:
            return {number: number for number in numbers}
        return {n: int(inputs.spot(n)[0][1:]) for n in numbers if n in inputs.present}

    def _changelog(self) -> Partition:
        found = self._broker.topics.get(CHANGELOG)
        if found is None:
            raise InputLost(f"{CHANGELOG}: UNKNOWN_TOPIC_OR_PART")
        return found[self._task]


class SimSource(_Client):
    """`ports.RecordSource`."""

    ended = False

    resets = False  # where records are gone, it goes on with the first that is there

    def __init__(self, world: World, life: Life, task: int, *more: Any) -> None:
        super().__init__(world, life, task, *more)
        self._fetch: Positions = {}

    def committed(self, partitions: Sequence[int]) -> Positions:
        self._query("committed")
        keys = {n: self._key(p) for n, p in self._spots(partitions).items()}
        if self._broker.unstable(tuple(keys.values())):
            self._world.advance(0.2)
            raise Retriable("UNSTABLE_OFFSET_COMMIT")
        offsets = self._broker.offsets
        return {n: offsets[key] for n, key in keys.items() if key in offsets}

    def ids(self) -> tuple[str, str]:
        return "", ""

    def start_positions(self, partitions: Sequence[int], start: StartAt) -> Positions:
        self._query("start_positions")
        spots = {n: self._broker.topics[self._topic][p] for n, p in self._spots(partitions).items()}
        if start == "earliest":
            return {p: spot.start for p, spot in spots.items()}
        return {p: spot.stable for p, spot in spots.items()}

    def assign(self, positions: Positions) -> None:
        self._port("assign")
        self._fetch = {n: positions[n] for n in self._spots(positions)}

    def consume(self, count: int, timeout: float) -> list[Record]:
        self._port("consume")
        rng, found = self._world.rng, list[Record]()
        if self._world.chance("unavailable"):
            return found
        wanted = rng.randint(1, count)
        for n in rng.sample(sorted(self._fetch), len(self._fetch)):
            p = self._spots([n])[n]
            spot, begin = self._broker.topics[self._topic][p], self._fetch[n]
            if self.resets and begin < spot.start:
                begin = self._fetch[n] = spot.start
            if not spot.start <= begin <= spot.end:
                raise InputLost(f"{self._topic}/{p} at {begin}: OFFSET_OUT_OF_RANGE")
            share = rng.randint(0, wanted - len(found)) if len(self._fetch) > 1 else wanted
            for offset, record in spot.committed(begin):
                if share == 0:
                    break
                share -= 1
                if self._topic != INPUT:
                    message = record.value if isinstance(record, Outgoing) else record
                    record = Record(Source(self._topic, p, offset), None, message)
                elif isinstance(record, Outgoing):  # a dead letter that came back
                    record = Record(
                        Source(INPUT, p, offset),
                        record.key,
                        record.value,
                        record.headers,
                        record.timestamp,
                    )
                if self._inputs is not None:
                    record = replace(record, source=replace(record.source, numbered=n))
                found.append(record)
                self._fetch[n] = offset + 1
            else:
                if rng.random() < 0.5:  # the event that the end was reached comes with a next fetch
                    self._fetch[n] = max(self._fetch[n], spot.stable)
        if not found:
            self._world.advance(timeout)
        return found

    def reached(self) -> Positions:
        return dict(self._fetch)

    def unread(self, positions: Positions) -> bool:
        self._query("unread")
        spots = self._broker.topics[self._topic]
        places = self._spots(positions).items()
        return any(True for n, p in places for _ in spots[p].committed(positions[n]))

    def ends(self) -> Positions:
        return {
            n: self._broker.topics[self._topic][p].end for n, p in self._spots(self._fetch).items()
        }

    def close(self) -> None:
        """Nothing to release."""


class SimChangelog(_Client):
    """`ports.Changelog`."""

    def bounds(self) -> Watermarks:
        self._query("changelog_bounds")
        partition = self._changelog()
        return Watermarks(partition.start, partition.end)

    def start(self) -> int:
        return self._changelog().start

    def trim(self, before: int) -> bool:
        self._query("trim_changelog")
        if not self._world.shape.trims:
            raise Denied("DELETE: not allowed")
        partition = self._changelog()
        self._world.checks.trimmed(partition, before)
        self._tell(f"cuts off {partition.name} before {before}")
        known = partition.start >= before  # the answer comes later than the cut
        partition.start = max(partition.start, before)
        return known

    def read(self, start: int, end: int) -> SimReader:
        self._port("read_changelog")
        return SimReader(self._world, self._life, self._changelog(), start, end)

    def refuse_changed(self) -> None:
        """No one changes its settings here."""


class SimSink(_Client):
    """`ports.Sink`."""

    beside: Callable[[Positions], dict[Any, int]] = staticmethod(lambda positions: {})
    """Offsets of other topics that belong to the same transaction, by their keys."""

    def __init__(self, world: World, life: Life, task: int, *more: Any, tid: str = "") -> None:
        super().__init__(world, life, task, *more)
        self._tid = tid or self._tid
        self._members = world.groups[self._group]
        self._dead: LogError | None = OutcomeUnknown("there is no producer")
        self._epoch, self._initialising = -1, False
        self._txn: Txn | None = None
        self._queue: deque[tuple[Partition, Any]] = deque()
        self._count = self._numbers_from = 0
        """Of the open transaction: records produced, and the number of the queue's first."""
        self._watched = False
        self._undelivered: LogError | None = None
        self._last = -1
        self._numbered: dict[int, deque[int]] = {}
        """By partition: offsets that the broker has under the numbers of the next records."""

    def open(self, *, watched: bool = False) -> None:
        self._port("open_producer")
        if not self._initialising or watched != self._watched:
            self._forget_producer()
        self._watched, self._initialising = watched, False
        world = self._world
        lost = world.chance("init_lost")
        if lost:
            world.advance(SOCKET_SECONDS)
            if world.rng.random() < 0.5:
                self._initialising = True
                raise Retriable("init_transactions: timed out")
        if self._epoch < 0:
            self._epoch = self._broker.init(self._tid)
        self._tell(f"epoch {self._epoch}")
        if lost:
            trouble = world.rng.choice((Retriable, OutcomeUnknown))
            self._initialising = trouble is Retriable  # the next call raises it, however late
            raise trouble("init_transactions: no reply")
        self._dead = None

    def _forget_producer(self) -> None:
        self._dead, self._txn, self._epoch = OutcomeUnknown("there is no producer"), None, -1
        self._queue, self._numbered = deque(), {}

    def _call(self, name: str) -> None:
        """Begin a producer's call; a producer that is finished says so again."""
        self._port(name)
        if self._world.flights:
            self._world.land(self._tid)
        if self._dead is not None:
            raise type(self._dead)(f"{name}: {self._dead}")

    def _kill(self, error: LogError) -> LogError:
        self._dead = error
        return error

    def begin(self) -> None:
        self._call("begin")
        self._txn, self._undelivered, self._last = None, None, -1
        self._count = self._numbers_from = 0
        self._queue.clear()

    def produce(self, records: Sequence[Outgoing]) -> None:
        self._call("produce")
        self._send([(self._broker.topics[r.topic][r.partition], r) for r in records])

    def produce_changelog(self, values: Sequence[bytes]) -> None:
        self._call("produce_changelog")
        if values:
            partition = self._changelog()
            self._send([(partition, value) for value in values])

    def _send(self, records: Sequence[tuple[Partition, Any]]) -> None:
        if self._world.chance("produce_fails"):
            self._tell("produce fails")
            raise self._world.rng.choice((Abortable, OutcomeUnknown))("produce: queue full")
        self._queue.extend(records)
        self._count += len(records)
        self._deliver(self._world.rng.randint(0, len(self._queue)))

    def _deliver(self, count: int) -> None:
        while count > 0:
            batch = self._next_batch(count)
            count -= len(batch)
            numbers = range(self._numbers_from, self._numbers_from + len(batch))
            self._numbers_from += len(batch)
            if self._undelivered is None and not self._refused(batch, numbers):
                self._append(batch)

    def _next_batch(self, count: int) -> list[tuple[Partition, Any]]:
        """Take from the queue what goes to one partition at once, and fails at once."""
        size = self._world.rng.randint(1, count) if self._world.shape.strict else 1
        batch = [self._queue.popleft()]
        while self._queue and len(batch) < size and self._queue[0][0] is batch[0][0]:
            batch.append(self._queue.popleft())
        return batch

    def _refused(self, batch: Sequence[tuple[Partition, Any]], numbers: range) -> bool:
        """Return whether the broker refuses the batch; of two bad records it names each."""
        bad = [n for n, (_, value) in zip(numbers, batch, strict=True) if self._is_odd(value)]
        if not bad:
            return False
        each = len(bad) > 1 or len(batch) == 1
        blame = Blame(tuple(bad if each else numbers), each, "INVALID_TIMESTAMP")
        self._tell(f"{bad} of {numbers} are refused{', and watched' if self._watched else ''}")
        self._undelivered = RecordsRefused("refused", blame if self._watched else None)
        return True

    def _is_odd(self, value: Any) -> bool:
        strict = self._world.shape.strict
        return (
            isinstance(value, Outgoing) and value.topic in strict and value.timestamp == FAR_FUTURE
        )

    def _append(self, batch: Sequence[tuple[Partition, Any]]) -> None:
        for partition, value in batch:
            try:
                offset = self._appended(partition, value)
            except LogError as error:
                self._undelivered = error
                return
            if isinstance(value, bytes):
                self._last = offset

    def _appended(self, partition: Partition, value: Any) -> int:
        """Append a record, or take it for one that is there; return its offset."""
        if self._txn is None:
            self._txn = self._broker.begin(self._tid, self._epoch, self._world.now)
        if numbered := self._numbered.get(id(partition)):
            return numbered.popleft()
        return self._broker.produce(self._txn, self._epoch, partition, value)

    def _arrive_late(self) -> None:
        """Let what was not delivered reach the broker just before the abort.

        Its numbers are then given again to the next records, which the broker takes for the same.
        """
        late, self._queue = self._queue, deque()
        if not late or self._undelivered is not None or self._world.rng.random() < 0.5:
            return
        self._tell(f"{len(late)} records arrive before the abort")
        with suppress(LogError):
            for partition, value in late:
                offset = self._appended(partition, value)
                self._numbered.setdefault(id(partition), deque()).append(offset)

    def flush(self) -> int:
        self._call("flush")
        if self._world.chance("produce_fails"):
            self._deliver(self._world.rng.randint(0, len(self._queue)))
            self._tell("flush fails")
            raise Abortable("flush: not all was delivered")
        thin = self._world.shape.thin
        if thin is not None and self._count > thin:
            self._deliver(self._world.rng.randint(0, min(thin, len(self._queue))))
            self._tell(f"{self._count} records do not pass in time")
            self._world.advance(TRANSACTION_SECONDS)
            raise Abortable("flush: not all was delivered in time")
        self._deliver(len(self._queue))
        if isinstance(self._undelivered, RecordsRefused):
            raise self._undelivered
        if self._undelivered is not None:
            raise Abortable(f"flush: {self._undelivered}")
        return self._last

    def send_offsets(self, positions: Positions, member: Member) -> None:
        self._call("send_offsets")
        lost = self._world.chance("offsets_lost")
        if lost and self._world.rng.random() < 0.5:
            raise Retriable("send_offsets: timed out")
        try:
            # To the transactions' coordinator, for which this may be a transaction's first sign.
            txn = self._broker.begin(self._tid, self._epoch, self._world.now)
            self._members.check(member.token)
        except ProducerFenced as error:
            raise self._kill(error) from error
        offsets = {self._key(p): positions[n] for n, p in self._spots(positions).items()}
        offsets |= self.beside(positions)
        txn.offsets = {**(txn.offsets or {}), **offsets}
        self._txn = txn
        if lost:
            raise Retriable("send_offsets: no reply")

    def commit(self) -> None:
        self._call("commit")
        if self._world.chance("produce_fails"):
            self._tell("commit fails, to be aborted")
            raise Abortable("commit: not all was delivered")
        self._end(commit=True)

    def abort(self) -> None:
        self._call("abort")
        if isinstance(self._undelivered, ProducerFenced):
            raise self._kill(self._undelivered)
        self._arrive_late()
        self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        """Send EndTxn; the reply may be lost, the request may be late, or both."""
        world, name = self._world, "commit" if commit else "abort"
        if self._txn is None:
            return
        if world.chance("commit_lost" if commit else "abort_lost"):
            fate = world.rng.choice(("request lost", "request late", "reply lost"))
            self._tell(f"{name}: {fate}")
            if fate == "request late":
                world.send_late(self._tid, self._epoch, commit=commit)
            if fate == "reply lost":
                self._decide(commit=commit)
            raise Retriable(f"{name}: timed out")
        if commit and world.chance("commit_unknown"):
            done = world.rng.random() < 0.5
            self._tell(f"commit: fails for good, {'done' if done else 'not done'}")
            if done:
                self._decide(commit=True)
            elif world.rng.random() < 0.5:
                world.send_late(self._tid, self._epoch, commit=True)
            raise self._kill(OutcomeUnknown("commit: the producer broke"))
        if world.chance("commit_slow"):
            # The client asked twice by itself; the first request may still arrive.
            self._tell(f"{name} is slow, and was asked for twice")
            world.advance(SOCKET_SECONDS * 1.5)
            world.send_late(self._tid, self._epoch, commit=commit)
        self._decide(commit=commit)
        self._tell("committed" if commit else "aborted")
        self._txn = None

    def _decide(self, *, commit: bool) -> None:
        try:
            self._broker.end_txn(self._tid, self._epoch, commit=commit)
        except (ProducerFenced, OutcomeUnknown) as error:
            self._tell(str(error))
            raise self._kill(error) from error

    def compacted(self, topics: Iterable[str]) -> list[str]:
        return []

    def serve(self) -> None:
        """No callbacks wait."""

    def close(self) -> None:
        """Go away; an open transaction is left for the broker to end."""
        self._dead = OutcomeUnknown("closed")


class SimReader:
    """`ports.ChangelogReader`: committed records up to a fixed end."""

    def __init__(
        self, world: World, life: Life, partition: Partition, start: int, end: int
    ) -> None:
        self._world, self._life, self._partition = world, life, partition
        self.position, self._end = start, end

    @property
    def done(self) -> bool:
        return self.position >= self._end

    def read(self, count: int, timeout: float) -> list[Entry]:
        world = self._world
        world.port(self._life, "reader.read")
        count = min(count, world.rng.choice((1, 3, 10, 5_000)))
        found: list[Entry] = []
        if self.position < self._partition.start:
            raise OutcomeUnknown(f"{CHANGELOG} at {self.position}: OFFSET_OUT_OF_RANGE")
        if not world.chance("unavailable"):
            for offset, value in self._partition.committed(self.position):
                if offset >= self._end:
                    self.position = self._end
                    break
                if len(found) == count:
                    break
                found.append(Entry(offset, value))
                self.position = offset + 1
            else:
                # The end of what is stable, as the end-of-partition event tells it.
                self.position = max(self.position, self._partition.stable)
        if not found:
            world.advance(timeout)
        return found

    def close(self) -> None:
        """Nothing to release."""
