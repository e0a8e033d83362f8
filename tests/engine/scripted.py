"""The engine's ports in memory, with a script of errors: for the policy, not for the promises.

Transactions are atomic here by construction, so nothing about Kafka is proved. What can be seen
is what the engine does with each class of error, call by call (`ScriptedLog.calls`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from streamfilter.engine.ports import (
    Entry,
    Member,
    Moves,
    OutcomeUnknown,
    Outgoing,
    ProducerFenced,
    StartAt,
    Watermarks,
)
from streamfilter.model import Positions, Record, Source


class FakeClock:
    """Time that passes only in `sleep`."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def wall_milliseconds(self) -> int:
        return round(self.now * 1_000)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class ScriptedSource:
    """The source of a task with one input partition, and the errors that its calls raise."""

    ended = False

    def __init__(self, values: Sequence[bytes], clock: FakeClock) -> None:
        self.input = [Record(Source("in", 0, n), None, v, (), 5) for n, v in enumerate(values)]
        self.outputs: list[Outgoing] = []
        self.changelog: list[bytes] = []
        self.offsets: Positions = {}
        self.errors: dict[str, deque[Exception]] = defaultdict(deque)
        self.calls: list[str] = []
        self.producers = self.served = 0
        self.commit_seconds = 0.0
        self.markers = 0
        """Offsets behind the last record that hold none."""
        self._clock = clock
        self._position = 0
        self._open: tuple[list[Outgoing], list[bytes], Positions] | None = None
        self._epochs, self._epoch, self._cut = [0], 0, [0]
        """In lists: a copy of this object is another process's (`test_ports.py`)."""

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.errors[name]:
            raise self.errors[name].popleft()

    def committed(self, partitions: Sequence[int]) -> Positions:
        self._call("committed")
        return dict(self.offsets)

    def ids(self) -> tuple[str, str]:
        return "", ""

    def start_positions(self, partitions: Sequence[int], start: StartAt) -> Positions:
        return {0: 0 if start == "earliest" else len(self.input)}

    def assign(self, positions: Positions) -> None:
        self._call("assign")
        self._position = positions[0]

    def consume(self, count: int, timeout: float) -> list[Record]:
        self._clock.sleep(timeout)
        found = self.input[self._position : self._position + count]
        self._position += len(found)
        return found

    def unread(self, positions: Positions) -> bool:
        self._call("unread")
        return positions[0] < len(self.input)

    def reached(self) -> Positions:
        at_end = self._position >= len(self.input)
        return {0: self._position + self.markers * at_end}

    def ends(self) -> Positions:
        return {0: len(self.input) + self.markers}


class ScriptedLog(ScriptedSource):
    """The same log as sink and changelog."""

    def open(self, *, watched: bool = False) -> None:
        self._call("open")
        self.producers += 1
        self._open = None
        self._epochs[0] += 1
        self._epoch = self._epochs[0]

    def bounds(self) -> Watermarks:
        return Watermarks(self._cut[0], len(self.changelog))

    def start(self) -> int:
        return self._cut[0]

    def trim(self, before: int) -> bool:
        self._call("trim")
        self._cut[0] = max(self._cut[0], before)
        return True

    def read(self, start: int, end: int) -> ListReader:
        last = min(end, len(self.changelog))
        return ListReader([Entry(n, self.changelog[n]) for n in range(start, last)], end, last)

    def begin(self) -> None:
        self._call("begin")
        if not self._epoch:
            raise OutcomeUnknown("there is no producer")
        assert self._open is None
        self._open = ([], [], {})

    def produce(self, records: Sequence[Outgoing]) -> None:
        self._call("produce")
        assert self._open is not None
        self._open[0].extend(records)

    def produce_changelog(self, values: Sequence[bytes]) -> None:
        assert self._open is not None
        self._open[1].extend(values)

    def flush(self) -> int:
        self._call("flush")
        assert self._open is not None
        return len(self.changelog) + len(self._open[1]) - 1 if self._open[1] else -1

    def send_offsets(self, positions: Positions, member: Member) -> None:
        self._call("send_offsets")
        assert self._open is not None
        self._open[2].update(positions)

    def commit(self) -> None:
        self._clock.sleep(self.commit_seconds)
        self._call("commit")
        if self._epoch != self._epochs[0]:
            raise ProducerFenced("by a newer instance")
        assert self._open is not None
        outputs, changelog, offsets = self._open
        self.outputs += outputs
        self.changelog += changelog
        self.offsets |= offsets
        self._open = None

    def abort(self) -> None:
        self._call("abort")
        self._open = None

    def refuse_changed(self) -> None:
        """No one changes its settings here."""

    def serve(self) -> None:
        self.served += 1

    def compacted(self, topics: Iterable[str]) -> list[str]:
        return []

    def close(self) -> None:
        self._call("close")


class ListReader:
    """A changelog that was read already; what comes after *last* never comes."""

    def __init__(self, entries: list[Entry], end: int, last: int | None = None) -> None:
        self._entries, self._end = deque(entries), end
        self._last = end if last is None else last

    def read(self, count: int, timeout: float) -> list[Entry]:
        return [self._entries.popleft() for _ in range(min(count, len(self._entries)))]

    @property
    def done(self) -> bool:
        return self.position >= self._end

    @property
    def position(self) -> int:
        return self._entries[0].offset if self._entries else self._last

    def close(self) -> None:
        pass


class FakeMembership:
    """Says what the test tells it to."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.moves: deque[Moves] = deque()
        self.generation = 1
        self.closed = False
        self.polled: list[float] = []
        """When."""

    def poll(self, timeout: float) -> Moves:
        self.polled.append(self._clock.now)
        self._clock.sleep(timeout)
        return self.moves.popleft() if self.moves else Moves()

    def member(self) -> Member:
        return Member(self.generation, "me" if self.generation >= 0 else "", b"")

    def close(self) -> None:
        self.closed = True
