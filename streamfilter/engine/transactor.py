"""The loop of one task: a protocol that survives a crash at any line.

    7   take a batch, in the order of judgement
    8   ask for our place in the group, and refuse to go on without one
    9   read, sketch, judge: reads the index, changes nothing
    10  begin; produce outputs; produce the changelog's records; flush
    11  send the next offsets, as our member: those that moved, once an hour those of all partitions
    12  commit
    13  only then write the index: entries, marks, positions and the changelog's offset at once

Kafka keeps all of 10-12 or nothing. The records it keeps contain everything that 13 writes.
So after a crash at any line the index holds a prefix of the committed changelog, and the restore
(`restore.py`) applies the rest. No batch may be judged while a write of 13 is pending.

Step 9 decides which documents are forgotten, from the index and the batch's timestamps. Step 10
writes that decision: into the batch, and into a header if a window begins. 13 only applies it.

A batch is all new or all re-read. A record below the known positions was judged before: an
operator rewound the group. It gets the verdict of its own batch and is forwarded again, and its
offsets are committed. It adds nothing to the changelog or the index.

An abortable error drops the transaction and returns RETRY. The caller polls the membership
first, and tries the same batch again only if no task moved. A retriable error repeats the
same call. Any other error is raised: it needs a new producer, which starts over with step 1.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.documents.codecs.schemas import SchemasAway
from streamfilter.engine.batches.micro_batches import Ahead, Intake, in_order
from streamfilter.engine.batches.pace import STRETCH_GROWTH, Stopwatch
from streamfilter.engine.filter_observer import Moved
from streamfilter.engine.messages.changelog import BatchRecord, Update
from streamfilter.engine.messages.changelog_header import GROWN, Header
from streamfilter.engine.parts import Parts, StepResult
from streamfilter.engine.ports import InputLost, Member, NotReady
from streamfilter.engine.task_position import TaskPosition
from streamfilter.engine.transaction import Load, Transactions
from streamfilter.engine.writer_check import WriterCheck
from streamfilter.index.errors import DiskFull
from streamfilter.index.format import recorded
from streamfilter.index.input_table import FACT
from streamfilter.index.protocol import Applied, Changes, Index
from streamfilter.killpoints import kill_point
from streamfilter.matching.batch import Decided, decide, forgets_first
from streamfilter.matching.blocking.forgetting import CutBatch, named_removals
from streamfilter.matching.blocking.retention import EVERYTHING
from streamfilter.matching.pipeline import accept
from streamfilter.model import Positions, Record, Window
from streamfilter.quality.live.audit import Audit, Auditing
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Sketcher

IDLE_COMMIT_SECONDS = 3_600.0  # no member subscribes, so brokers would expire the offsets
PASS_SECONDS = 5.0
"""After so long without a commit the positions move past markers and aborted records. A batch moves
past those before it; this is for an idle input. Otherwise retention, once it has removed all the
judged records, would seem to have removed unread ones."""


class _Owed(Struct, frozen=True):
    """Step 13 of a committed transaction."""

    changes: Changes
    moved: Moved | None
    prepares: bool = False  # whether the next window is prepared after the write
    header: Header | None = None


class Transactor:
    """Moves batches of one task, exactly once."""

    def __init__(
        self,
        parts: Parts,
        index: Index,
        sketcher: Sketcher,
        position: TaskPosition,
        writer_check: WriterCheck,
        header: Header,
    ) -> None:
        self._parts, self._index, self._sketcher = parts, index, sketcher
        self._header = header  # the changelog's header; it is repeated at the start of every window
        self._clock = parts.clock
        self._refusals = parts.incoming.refusals
        self.position = position
        audit = Audit(parts.rates, parts.rules.policy, index, sketcher.keys_of)
        self._auditing = Auditing(
            audit, parts.clock.monotonic, parts.observer.audited, share=parts.rates.time
        )
        bounds = parts.bounds
        intake = Intake(
            parts.source,
            parts.clock,
            documents=bounds.documents,
            size=bounds.size,
            latency=bounds.latency,
            share=lambda: parts.pace.share,
            order=list if parts.pace.fixed else in_order,
        )
        self._share_of = intake.share_of
        prepare = partial(parts.incoming.prepare, sketcher=sketcher, clock=parts.clock)
        self._batches = Ahead(intake, parts.worker, prepare)
        self._transactions = Transactions(parts, writer_check)
        self._held: Sequence[Record] = []
        self._stretch: int | None = None  # most records of the next try, after a cut; None: all
        self._reached: Positions = {}  # first offsets neither committed nor held, if known
        self._polled = 0.0  # seconds spent waiting for the next batch
        self._owed: _Owed | None = None
        self.waits_for = ""  # why the last step found the schemas away or the disk full

    def step(self, timeout: float) -> StepResult:
        """Move one batch, or finish the previous one."""
        if self._owed is not None:
            return self._apply()
        if self._transactions.worn:
            return StepResult.REPLACE
        if self._parts.breaker.tripped:
            return StepResult.TRIPPED
        if len(ordinals := self._parts.forwarder.retracts(self._index)):
            return self._forget(ordinals)
        if not self._held:
            watch = Stopwatch(self._clock, self._parts.observer.process.spent)
            taken = self._batches.next(timeout)
            self._held = taken.records
            self._reached = {} if self._parts.pace.fixed else taken.reached
            watch.lap("poll")
            self._polled += watch.seconds["poll"]
        if not self._held:
            return self._commit_idle()
        kill_point("batch.consumed")
        accepted = accept(self.position.known, self._held)
        step = StepResult.MOVED
        if accepted.reread:
            step = self._move(accepted.reread, reread=True)
        if accepted.new and step is StepResult.MOVED:
            self._held = accepted.new
            step = self._move(accepted.new, reread=False)
        return step

    def _move(self, records: Sequence[Record], *, reread: bool) -> StepResult:
        self._check_order(records)
        member = self._member()
        if member is None:
            return StepResult.RETRY
        kill_point("batch.member")
        watch = Stopwatch(self._clock, self._parts.observer.process.spent)
        try:
            decided = self._decide(records, watch, reread=reread)
        except NotReady:
            return StepResult.RETRY
        except SchemasAway as away:
            self.waits_for = str(away)
            return StepResult.SCHEMAS_AWAY
        count = len(decided.prepared.records)
        if self._parts.pace.fixed and count < len(self._held):
            # A seed: after a kill the next batch is full, so it is also full without one.
            self._batches.put_back(self._held[count:])
            self._held, self._stretch = self._held[:count], None
        return self._carry(decided, watch, member, reread=reread)

    def _forget(self, ordinals: I64) -> StepResult:
        """Forget documents whose records an output refused, in a batch without records."""
        member = self._member()
        if member is None:
            return StepResult.RETRY
        watch = Stopwatch(self._clock, self._parts.observer.process.spent)
        decided = forgets_first(ordinals, self._parts.retention.rest(self._index))
        return self._carry(decided, watch, member, reread=False)

    def _carry(
        self, decided: Decided, watch: Stopwatch, member: Member, *, reread: bool
    ) -> StepResult:
        """Take a batch through steps 10 to 13."""
        records = decided.prepared.records  # the others are held
        removals = named_removals(decided.forgotten.stored, self._index, self._sketcher.keys_of)
        after, batch = self.position.after(
            records,
            len(decided.prepared.rows),
            decided.extent,
            reread=reread,
            reached=self._reached if len(records) == len(self._held) else None,
            ages=decided.ages,
        )
        before = self.position.positions
        leaving = self._parts.forwarder.written(decided, before, after.positions)
        kill_point("batch.decided")
        header = self._header_of(decided.extent.opens, after.positions)
        additions = decided.additions and recorded(decided.additions)
        successor = self._header.successor
        update = Update.encoded(batch, header, additions, removals, successor) if batch else None
        watch.lap("produce")
        self._batches.look()
        watch.lap("poll")
        share = (lambda: self._share_of(records)) if records else None
        load = Load(after.positions, leaving, update, records, share)
        offset = self._transactions.run(load, member)
        if offset is None:
            return StepResult.RETRY
        self._parts.forwarder.committed()
        watch.lap("commit")
        watch.seconds["poll"] += self._polled
        self._polled = 0.0
        first_ordinal, self.position = self.position.progress.next_ordinal, after
        self._held = self._held[len(records) :]
        self._reached = {}
        self._parts.breaker.add(len(records), *decided.prepared.rejected)
        if self._refusals.committed(records):
            self._parts.observer.process.note("deliveries are watched no more")
            self._transactions.worn = True  # an unwatched producer is faster
        stages = {**decided.prepared.seconds, **watch.seconds}
        moved = Moved(decided, leaving, load.values, stages, first_ordinal)
        if update is None:
            self._parts.observer.moved(moved, Applied())
            return self._moved()
        self._owed = _Owed(update.changes(offset), moved, decided.extent.soon, header)
        return self._apply()

    def _header_of(self, opens: Window | None, positions: Positions) -> Header | None:
        """Return the header of a batch: it begins a window, or says how far a seed was read."""
        header, seeds = self._header, self._parts.seeds
        if seeds is not None:
            header = replace(header, inputs=seeds.table_at(positions), anew="" if opens else GROWN)
        elif opens is None:
            return None
        return replace(header, window=opens)

    def _member(self) -> Member | None:
        """Return our place in the group; None while we have none that could be fenced."""
        member = self._parts.member()
        return member if member.has_place else None

    def _check_order(self, records: Sequence[Record]) -> None:
        """Refuse records from before the requested position: the consumer lost a seek."""
        for record in records:
            position = self.position.positions[record.source.number]
            if record.source.offset < position:
                raise InputLost(
                    f"{record.source.topic}/{record.source.partition} gave offset "
                    f"{record.source.offset} after {position} was asked for"
                )

    def _decide(self, records: Sequence[Record], watch: Stopwatch, *, reread: bool) -> Decided:
        """Do step 9; only for the first records if the others are unreadable yet or too many."""
        progress, index = self.position.progress, self._index
        now = self._clock.wall_milliseconds()
        if self._parts.seeds is not None:
            now = self._parts.seeds.now(records, now, progress.highest_timestamp)
        retention, extent, held = self._parts.retention, EVERYTHING, records
        records = records[: self._stretch]
        while True:
            prepared = self._batches.prepared(records)
            records = records[: len(prepared.records)]
            watch.skip("prepare")  # `Incoming.prepare` times itself
            if not reread:
                extent = retention.extent_of(index, prepared.records, prepared.rows, now)
            cut = None
            try:
                decided = decide(
                    prepared,
                    index,
                    self._parts.rules,
                    number=progress.next_batch,
                    first_ordinal=progress.next_ordinal,
                    reread=reread,
                    extent=extent,
                )
            except CutBatch as found:
                cut = found.records, found.ordinals
            if cut is None:
                watch.lap("judge")
                self._stretch = STRETCH_GROWTH * len(records) if len(records) < len(held) else None
                return decided
            end, ordinals = cut
            if ordinals is not None:
                return forgets_first(ordinals, retention.rest(index))
            records = records[:end]

    def _apply(self) -> StepResult:
        """Do step 13; after a full disk it stays pending, and no batch is judged before it."""
        owed = self._owed
        assert owed is not None
        watch = Stopwatch(self._clock, self._parts.observer.process.spent)
        try:
            if owed.header is not None and owed.header.inputs:
                self._index.remember(FACT, owed.header.inputs.encode())
            applied = self._index.apply(owed.changes)
        except DiskFull as error:
            self.waits_for = str(error)
            return StepResult.DISK_FULL
        kill_point("index.applied")
        self._owed = None
        self._trim()
        if owed.prepares:  # the first batch of the next window does not wait for it
            with suppress(DiskFull):  # the write that needs the window will raise it again
                self._index.prepare()
            kill_point("window.prepared")
        if owed.moved is not None:
            watch.lap("apply")
            stages = {**owed.moved.stages, **watch.seconds}
            self._parts.observer.moved(replace(owed.moved, stages=stages), applied)
            self._auditing.batch(owed.moved.decided, first_ordinal=owed.moved.first_ordinal)
            watch.skip("audit")
        return self._moved()

    def _trim(self) -> None:
        if self._parts.trimming is not None:
            self._parts.trimming.look(self._index.windows)

    def _moved(self) -> StepResult:
        return StepResult.REPLACE if self._transactions.worn else StepResult.MOVED

    def number_inputs(self) -> StepResult:
        """Write the table that numbers further topics or partitions, and their start offsets."""
        if self._transactions.worn:
            return StepResult.REPLACE
        after, batch = self.position.opened(self._parts.retention.rest(self._index))
        return self._commit(after, batch, replace(self._header, anew=GROWN))

    def open_changelog(self) -> StepResult:
        """Write the first transaction of a new changelog: its owner and its start offsets."""
        if self._transactions.worn:
            return StepResult.REPLACE
        after, batch = self.position.opened()
        return self._commit(after, batch, self._header)

    def _commit_idle(self) -> StepResult:
        """Renew the committed offsets, and move them past markers, while no record arrives."""
        self._trim()
        self._auditing.look()
        self._parts.observer.process.spent("audit")
        rest = self._parts.retention.rest(self._index)
        after, batch = self.position.passed(self._reached, rest)
        seconds = PASS_SECONDS if after != self.position else IDLE_COMMIT_SECONDS
        if self._transactions.idle_seconds < seconds and not self._parts.forwarder.owes:
            return StepResult.IDLE
        return self._commit(after, batch, self._header_of(None, after.positions) if batch else None)

    def _commit(
        self, after: TaskPosition, batch: BatchRecord | None, header: Header | None = None
    ) -> StepResult:
        """Do steps 8 to 13 for a transaction without records."""
        member = self._member()
        if member is None:
            return StepResult.RETRY
        successor = self._header.successor
        update = Update.encoded(batch, header, successor=successor) if batch else None
        leaving = self._parts.forwarder.written(None, self.position.positions, after.positions)
        offset = self._transactions.run(Load(after.positions, leaving, update), member)
        if offset is None:
            return StepResult.RETRY
        self._parts.forwarder.committed()
        self.position = after
        if update is None:
            return self._moved()
        self._owed = _Owed(update.changes(offset), None, header=header)
        return self._apply()

    @property
    def waits_from(self) -> Positions:
        """Return the first offsets that may hold uncommitted records, taken or still to come."""
        if self._held:
            return self.position.positions
        return self.position.passed(self._reached)[0].positions
