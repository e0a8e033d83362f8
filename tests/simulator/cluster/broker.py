"""A broker as far as it matters: partitions with markers, transactions, epochs.

A transaction is decided at once and marked later, partition by partition: between the two the
last stable offset stands still although the outcome is known. That is where real restores have
stopped short.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from streamfilter.engine.ports import Abortable, OutcomeUnknown, ProducerFenced


@dataclass(eq=False, slots=True)
class Txn:
    """One transaction: undecided, then committed or aborted, then marked everywhere."""

    tid: str
    begun: float
    committed: bool | None = None
    partitions: list[Partition] = field(default_factory=list)
    unmarked: list[Partition] = field(default_factory=list)
    offsets: dict[Any, int] | None = None
    """Next input offsets that become the group's if it commits."""

    @property
    def complete(self) -> bool:
        return self.committed is not None and not self.unmarked and self.offsets is None


@dataclass(slots=True)
class Cell:
    """One offset: a record (of a transaction, or not), or a marker that no one ever sees."""

    value: Any
    txn: Txn | None = None
    marker: bool = False


class Partition:
    """An append-only list of cells that may lose its beginning, and its end to a disaster."""

    def __init__(self, name: str) -> None:
        self.name, self.start = name, 0
        self.cells: list[Cell] = []
        self.open: dict[Txn, int] = {}
        """Transactions without their marker here, and where they began."""

    @property
    def end(self) -> int:
        return len(self.cells)

    @property
    def stable(self) -> int:
        """The last stable offset: where a reader of committed records has to stop."""
        return min(self.open.values(), default=self.end)

    def append(self, value: Any, txn: Txn | None = None, *, marker: bool = False) -> int:
        if txn is not None and not marker and txn not in self.open:
            self.open[txn] = self.end
            txn.partitions.append(self)
        self.cells.append(Cell(value, txn, marker))
        return self.end - 1

    def mark(self, txn: Txn) -> None:
        """Write the transaction's marker; it takes an offset."""
        self.append(None, txn, marker=True)
        self.open.pop(txn, None)

    def committed(self, begin: int, end: int | None = None) -> Iterator[tuple[int, Any]]:
        """Yield (offset, value) of what a reader of committed records gets."""
        stop = self.stable if end is None else min(end, self.stable)
        for offset in range(begin, stop):
            cell = self.cells[offset]
            if not cell.marker and (cell.txn is None or cell.txn.committed):
                yield offset, cell.value

    def copy(self, end: int | None = None) -> Partition:
        """Return a partition with the same cells, up to *end*; nothing may be open."""
        assert not self.open
        twin = Partition(self.name)
        twin.start, twin.cells = self.start, list(self.cells[:end])
        return twin


@dataclass(slots=True)
class Transactional:
    """What the coordinator remembers of one transactional id."""

    epoch: int = -1
    txn: Txn | None = None


class Broker:
    """Topics, and the coordinator of transactions."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Partition]] = {}
        self.offsets: dict[Any, int] = {}
        """The group's committed offsets of the input, by partition; others by group and topic."""
        self.ids: dict[str, Transactional] = {}
        self.unfinished: list[Txn] = []
        """Decided, but not yet marked everywhere."""

    def create(self, topic: str, partitions: int) -> None:
        self.topics[topic] = [Partition(f"{topic}/{p}") for p in range(partitions)]

    @property
    def undecided(self) -> list[Txn]:
        return [each.txn for each in self.ids.values() if each.txn and each.txn.committed is None]

    # What a producer asks of it.

    def init(self, tid: str) -> int:
        """Fence every producer of *tid*, end its transaction, and return a new epoch."""
        known = self.ids.setdefault(tid, Transactional())
        if known.txn is not None:
            self._decide(known.txn, commit=False)
            self.finish(known.txn)
        known.epoch, known.txn = known.epoch + 1, None
        return known.epoch

    def _known(self, tid: str, epoch: int) -> Transactional:
        known = self.ids[tid]
        if known.epoch != epoch:
            raise ProducerFenced(f"epoch {epoch} of {tid}: the broker has {known.epoch}")
        return known

    def begin(self, tid: str, epoch: int, now: float) -> Txn:
        """Begin a transaction: the first record or offset of it arrived."""
        known = self._known(tid, epoch)
        if known.txn is not None and known.txn.committed is not None:
            self.finish(known.txn)  # CONCURRENT_TRANSACTIONS until then: the client waits
        if known.txn is None or known.txn.committed is not None:
            known.txn = Txn(tid, now)
        return known.txn

    def produce(self, txn: Txn, epoch: int, partition: Partition, value: Any) -> int:
        """Append a record; one whose transaction was ended behind the client is refused."""
        self._known(txn.tid, epoch)
        if txn.committed is not None:
            raise Abortable("INVALID_TXN_STATE: the transaction was ended already")
        return partition.append(value, txn)

    def end_txn(self, tid: str, epoch: int, *, commit: bool) -> None:
        """Decide the transaction; the same decision again is fine."""
        txn = self._known(tid, epoch).txn
        if txn is None:
            raise OutcomeUnknown("INVALID_TXN_STATE: there is no transaction")
        if txn.committed not in (None, commit):
            raise OutcomeUnknown("INVALID_TXN_STATE: it was ended the other way")
        self._decide(txn, commit=commit)

    def end_txn_late(self, tid: str, epoch: int, *, commit: bool) -> bool:
        """Let an EndTxn arrive that its client has given up; return True if it did something."""
        known = self.ids[tid]
        if known.epoch != epoch or known.txn is None or known.txn.committed is not None:
            return False
        self._decide(known.txn, commit=commit)
        return True

    def expire(self, txn: Txn) -> None:
        """Abort a transaction that is too old, and fence its producer."""
        self.ids[txn.tid].epoch += 1
        self._decide(txn, commit=False)

    def _decide(self, txn: Txn, *, commit: bool) -> None:
        if txn.committed is None:
            txn.committed, txn.unmarked = commit, list(txn.partitions)
            if not txn.complete:
                self.unfinished.append(txn)

    # What happens later.

    def mark(self, txn: Txn, which: int) -> None:
        """Write one of the markers that *txn* still lacks; the group's offsets have one too."""
        which %= len(txn.unmarked) + (txn.offsets is not None)
        if which < len(txn.unmarked):
            txn.unmarked.pop(which).mark(txn)
        elif txn.offsets is not None:
            if txn.committed:
                self.offsets.update(txn.offsets)
            txn.offsets = None
        if txn.complete:
            self.unfinished.remove(txn)

    def finish(self, txn: Txn) -> None:
        """Write all of its markers."""
        assert txn.committed is not None
        while not txn.complete:
            self.mark(txn, 0)

    def unstable(self, partitions: tuple[Any, ...]) -> bool:
        """Return True if a transaction holds offsets of *partitions* that may yet count."""
        pending = [*self.unfinished, *self.undecided]
        return any(txn.offsets and not txn.offsets.keys().isdisjoint(partitions) for txn in pending)
