"""One Kafka transaction, steps 10 to 12: it is committed whole or not at all, and says which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from streamfilter.engine.batches.pace import Patience, Share
from streamfilter.engine.batches.refusals import Item, place_of
from streamfilter.engine.messages.changelog import Update
from streamfilter.engine.parts import Parts
from streamfilter.engine.ports import (
    Abortable,
    Member,
    Outgoing,
    ProducerFenced,
    RecordsRefused,
    without_frames,
)
from streamfilter.engine.writer_check import NotRead, WriterCheck
from streamfilter.killpoints import kill_point
from streamfilter.model import SEEDS_FROM, Positions, Record

MARKERS_SECONDS = 0.005
"""Pause after a commit, while the broker writes the commit markers. A transaction that begins
during that gets CONCURRENT_TRANSACTIONS, and librdkafka then sleeps for at least 20 ms."""


WHOLE_SECONDS = 3_600.0  # a transaction commits what it moved; once in this time, all


class Load(Struct, frozen=True):
    """The content of one transaction."""

    positions: Positions  # the next offset of every input partition after it
    leaving: Sequence[Outgoing] = ()
    update: Update | None = None  # None: it changes only positions
    records: Sequence[Record] = ()  # the input records that it is made from
    share: Share | None = None  # how full the batch is, 0 to 1; None: it has no records
    repeated: Sequence[bytes] = ()  # changelog records of a rewrite; only without an update

    @property
    def values(self) -> Sequence[bytes]:
        return self.update.values if self.update else self.repeated

    @property
    def items(self) -> list[Item]:
        """Return everything to produce, in the order of producing."""
        places = self.update.places if self.update else [None] * len(self.repeated)
        return [
            *(Item(out, place_of(out.source)) for out in self.leaving),
            *map(Item, self.values, places),
        ]


class Transactions:
    """Runs the transactions of one producer."""

    def __init__(self, parts: Parts, writer_check: WriterCheck) -> None:
        self._sink, self._changelog, self._clock = parts.sink, parts.changelog, parts.clock
        self._observer, self._pace = parts.observer.process, parts.pace
        self._writer_check, self._refusals = writer_check, parts.incoming.refusals
        self._sent: list[Item] = []
        self._patience = Patience(
            self._clock, parts.bounds.transaction_seconds, alive=self._observer.alive
        )
        self._socket_seconds = parts.bounds.socket_seconds
        self._committed_at = self._whole_at = self._clock.monotonic()
        self._positions: Positions = {}  # the positions of the last commit
        self.worn = False
        """True when the producer must be replaced before the next transaction.

        librdkafka has no KIP-890. After a commit or an abort that was slow, or failed at first, an
        EndTxn may still be in flight. It would end a later transaction of the same producer. A
        late commit would commit only a part of it. A late abort would lose its outputs:
        the offsets, sent after it, begin a new transaction, and only that one is committed.

        Records that were undelivered at an abort may be in flight, too. librdkafka gives their
        sequence numbers to the records of the next transaction. If the old records arrive before
        the abort, the broker takes the new ones for repetitions and acknowledges them. It has
        aborted the old ones, so the new ones count as committed and are lost. This happens if a
        broker is unreachable while the coordinator is not. A new producer has another epoch.

        A new producer also brings a start, which reads the gap that `WriterCheck` could not.
        """
        self._delivered = True  # False while records of the open transaction may be in flight
        self._learned = False  # whether the last one failed, and showed which records did it

    @property
    def idle_seconds(self) -> float:
        return self._clock.monotonic() - self._committed_at

    def run(self, load: Load, member: Member) -> int | None:
        """Run one transaction; return the last changelog record's offset, None if aborted."""
        begun = self._clock.monotonic()
        outcome = "failed"
        try:
            offset = self._send_and_commit(load, member)
            outcome = "aborted" if offset is None else "committed"
        except ProducerFenced:
            outcome = "fenced"
            raise
        finally:
            seconds = self._clock.monotonic() - begun
            self._observer.transaction(outcome, seconds)
            self._learn_pace(load, seconds, committed=outcome == "committed")
        if offset is not None:
            self._committed_at = self._clock.monotonic()
        return offset

    def _send_and_commit(self, load: Load, member: Member) -> int | None:
        try:
            offset = self._send(load, member)
            self._end(self._sink.commit)
            kill_point("transaction.committed")
            self._writer_check.committed(offset)
            if (now := self._clock.monotonic()) >= self._whole_at:
                self._whole_at = now + WHOLE_SECONDS
            self._positions = load.positions
            return offset
        except Abortable as error:
            failure = without_frames(error)
        self._abort(failure, load)
        return None

    def _learn_pace(self, load: Load, seconds: float, *, committed: bool) -> None:
        if committed:
            self._pace.committed(load.share, seconds)
            return
        if not self._learned:  # else the next transaction differs, and needs no rest
            self._pace.failed(load.share, seconds)
        if not self._pace.outlived:
            return
        if len(load.records) == 1:
            (record,) = load.records
            self._observer.loudly(
                f"{record.source.topic}/{record.source.partition} at {record.source.offset} has "
                f"{len(record.value or b'')} bytes, and was not delivered in {seconds:.0f} s: the "
                "way to the brokers is too slow for it; raise kafka.transaction_timeout, or a quota"
            )
        elif load.records and self._pace.fixed:
            self._observer.loudly(
                f"a batch of {len(load.records)} records was not delivered in {seconds:.0f} s, and "
                "is tried again as it is: raise kafka.transaction_timeout, or a quota; or stop it, "
                "and lower batch.documents"
            )

    def _abort(self, error: Abortable, load: Load) -> None:
        """Abort the transaction, after noting which records made it fail."""
        learned = ""
        self.worn |= not self._delivered or isinstance(error, NotRead)
        if isinstance(error, RecordsRefused):
            self._changelog.refuse_changed()
            keys = self._refusals.learn_compacted(load.items, self._sink.compacted)
            learned = keys or self._refusals.learn(self._sent or load.items, error.blame)
            self._learned = bool(keys) or error.blame is not None
            self.worn = True  # the next try needs a watched producer, or other records
        message = f"{error}; {learned}" if learned else str(error)
        self._observer.loudly(f"transaction aborted, to be tried again: {message}")
        self._end(self._sink.abort)
        kill_point("transaction.aborted")

    def _send(self, load: Load, member: Member) -> int:
        """Do steps 10 and 11; return the last changelog record's offset."""
        sink = self._sink
        pause = self._committed_at + MARKERS_SECONDS - self._clock.monotonic()
        if pause > 0:
            self._clock.sleep(pause)
        self._patience.call(sink.begin)
        kill_point("transaction.begun")
        self._delivered = self._learned = False
        self._sent = []
        if self._refusals.watching:
            self._produce_watched(load)
        else:
            self._produce(load)
        kill_point("transaction.produced")
        # Flush before the offsets: produce requests wait for the last commit's markers without
        # a pause, but the offsets' call would sleep for its whole back-off.
        offset = self._patience.call(sink.flush)
        self._delivered = True
        self._writer_check.check(offset, count=len(load.values))
        kill_point("transaction.flushed")
        self._patience.call(sink.send_offsets, self._to_commit(load.positions), member)
        kill_point("transaction.offsets")
        return offset

    def _to_commit(self, positions: Positions) -> Positions:
        """Return the *positions* that moved, and all of them once in `WHOLE_SECONDS`.

        A coordinator needs about two seconds to commit a thousand positions. The first transaction
        of a new producer has all, because others may have moved them. Later ones need all from
        time to time: no member subscribes to the input, so brokers expire old offsets. A seed has
        no offsets of the group.
        """
        positions = {p: offset for p, offset in positions.items() if p < SEEDS_FROM}
        moved = {p: offset for p, offset in positions.items() if self._positions.get(p) != offset}
        if not moved or self._clock.monotonic() >= self._whole_at:
            return positions
        return moved

    def _produce(self, load: Load) -> None:
        half = len(load.leaving) // 2
        self._sink.produce(load.leaving[:half])
        kill_point("transaction.producing")
        self._sink.produce(load.leaving[half:])
        kill_point("transaction.outputs")
        self._sink.produce_changelog(load.values)

    def _produce_watched(self, load: Load) -> None:
        """Produce piece by piece, so that a refusal points to one piece."""
        for piece in self._refusals.pieces(load.items):
            self._sent += piece
            outs = [item.out for item in piece]
            self._sink.produce([out for out in outs if isinstance(out, Outgoing)])
            self._sink.produce_changelog([out for out in outs if isinstance(out, bytes)])
            self._patience.call(self._sink.flush)
            kill_point("transaction.producing")

    def _end(self, call: Callable[[], None]) -> None:
        """Commit or abort, and repeat the call while the outcome is open."""
        begun = self._clock.monotonic()
        tries = 0

        def once() -> None:
            nonlocal tries
            tries += 1
            call()

        try:
            self._patience.call(once)
        finally:
            slow = self._clock.monotonic() - begun > self._socket_seconds
            self.worn |= tries > 1 or slow
