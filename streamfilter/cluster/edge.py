"""An edge: it reads, sketches and signs records, and forwards them once the judge has decided.

A process has one edge for all partitions that the group gives to it, and one transaction for all of
them: outputs, the next offsets of the verdicts, and the input offsets behind them. It keeps no
state that a restart would miss. After each change of its partitions it begins again, whole.

    1   poll the membership, with no transaction open (`tasks.service`)
    2   read verdicts; after a resume, sign again from its offset
    3   forward what has its verdicts: begin, produce, send offsets as our member, commit
    4   take records while there is room, sketch and sign them; nothing waits for that
    5   if verdicts do not come, ask the judge how far it is
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from streamfilter.cluster.edge_start import Begun, EdgeParts, EdgeStart
from streamfilter.cluster.ranges import ALONE, BadRange, Outcome, decode_verdicts
from streamfilter.cluster.waiting import InputEnds, Ready
from streamfilter.documents.codecs.schemas import SchemasAway
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.batches.micro_batches import Intake
from streamfilter.engine.batches.pace import Stopwatch
from streamfilter.engine.filter_observer import Moved
from streamfilter.engine.parts import Parts, StepResult
from streamfilter.engine.ports import Layout, Member, Membership, Moves, NotReady
from streamfilter.engine.transaction import Load
from streamfilter.index.protocol import Applied
from streamfilter.matching.batch import Decided, Prepared
from streamfilter.matching.blocking.retention import EVERYTHING
from streamfilter.matching.pipeline import Batch
from streamfilter.model import Decision, ErrorCode, Malformed, Positions, Record
from streamfilter.process.health import State
from streamfilter.stops import ExitCode, Stop, Temporary
from streamfilter.tasks.plan import Doing, Plan, Script
from streamfilter.tasks.task import StallDetector

MESSAGES_MAX = 64  # verdict ranges of one fetch
PASS_SECONDS = 5.0  # without a commit, the positions move past markers
IDLE_COMMIT_SECONDS = 3_600.0  # no member subscribes to the input: brokers would expire offsets
LAG_SECONDS = 1.0


class Edge:
    """Drives the partitions of one process. It is a `tasks.service.Job`."""

    def __init__(self, plan: Plan, parts: Parts, edge: EdgeParts) -> None:
        self._plan, self._parts, self._edge = plan, parts, edge
        self._clock, self._observer = parts.clock, parts.observer
        self.doing: Doing = State.STARTING, ""
        stuck = parts.bounds.stuck_seconds
        verdicts = replace(plan.names, topic=edge.topic, inputs=Inputs(edge.topic))
        self._stall = StallDetector(parts.source, parts.clock, plan.names, seconds=stuck)
        self._deaf = StallDetector(edge.verdicts, parts.clock, verdicts, seconds=stuck)
        self._read: dict[str, int] = {}  # the partitions that were shown, by their names
        self.restart()

    @property
    def label(self) -> str:
        """Return the edge's name, as in its transactional id."""
        return f"{self._plan.names.group}.edge"

    @property
    def partitions(self) -> tuple[int, ...]:
        """Return the partitions that it reads."""
        return tuple(sorted(self._edge.owned()))

    @property
    def outlived(self) -> bool:
        """Return whether the last transaction failed because it timed out."""
        return self._parts.pace.outlived

    def restart(self) -> None:
        """Begin again with a new producer; what waited is read again."""
        self._parts.pace.outlived = False
        self._start: EdgeStart = EdgeStart(self._plan, self._parts, self._edge)
        self._script: Script[Begun] | None = self._start.run()
        self._begun: Begun | None = None
        self._taken: tuple[Positions, Sequence[Record], Callable[[], Prepared]] | None = None
        self._layout: Layout | None = None
        self._committed = self._signed_at = self._lag_at = self._clock.monotonic()
        self._ends = InputEnds(self._parts.source, self._clock, self._plan.names.topic)
        self.doing = State.STARTING, ""

    def rebuild(self, why: str) -> None:
        """Begin again: an edge has no index."""
        self.restart()

    def follow(self, layout: Layout) -> None:
        """Use the outputs' numbers of partitions from now on."""
        if layout != self._layout:
            self._layout = layout
            self._parts.forwarder.begin(layout, b"")  # it names no index

    def beside(self, positions: Positions) -> Positions:
        """Return the input offsets to commit with the *positions* of the verdicts."""
        inputs = self._start.inputs
        return {p: inputs[p] for p in positions if p in inputs}

    def advance(self, timeout: float) -> StepResult:
        """Do one piece of the start, or one step of the loop."""
        if self._parts.pace.resting:
            return StepResult.RETRY
        if self._script is not None:
            return self._advance_start(self._script)
        assert self._begun is not None
        self.doing = State.RUNNING, ""
        return self._step(self._begun, timeout)

    def _advance_start(self, script: Script[Begun]) -> StepResult:
        try:
            self.doing = next(script)
        except StopIteration as end:
            begun: Begun = end.value
            self._begun, self._script = begun, None
        except BadRange as error:
            raise _unreadable(error, self._edge.topic) from error
        else:
            return StepResult.RETRY if self.doing[1] else StepResult.STARTED
        bounds, pending = self._parts.bounds, self._edge.pending
        self._intake = Intake(
            self._parts.source,
            self._clock,
            documents=bounds.documents,
            size=bounds.size,
            latency=bounds.latency,
            share=lambda: begun.waiting.share(pending, bounds.documents, bounds.size),
        )
        self.doing = State.RUNNING, ""
        return StepResult.STARTED

    def _step(self, begun: Begun, timeout: float) -> StepResult:
        outstanding = bool(begun.signing.outstanding()) or begun.waiting.needs
        self._hear(begun, timeout if outstanding and self._taken is None else 0.0)
        for p in begun.signing.inquire():
            self._observer.process.note(f"partition {p} waits for a verdict: asked the judge")
        self._show(begun)
        step = self._forward(begun)
        if step is not StepResult.IDLE:
            return step
        if self._parts.breaker.tripped:
            self.doing = State.PAUSED_DEAD_LETTERS, self._parts.breaker.reason
            return StepResult.TRIPPED
        try:
            signed = self._sign(begun, 0.0 if outstanding else timeout)
        except SchemasAway as away:
            self.doing = State.PAUSED_SCHEMAS, f"{away}; it goes on by itself"
            return StepResult.SCHEMAS_AWAY
        return StepResult.MOVED if signed else StepResult.IDLE

    def _hear(self, begun: Begun, timeout: float) -> None:
        """Read verdicts, if there is room; those that name another index end the process."""
        if begun.waiting.judged >= self._edge.pending.records:
            self._deaf.moved()
            return  # far behind: each range that waits is ready, or makes it read the input
        for message in self._edge.verdicts.consume(MESSAGES_MAX, timeout):
            self._deaf.moved()
            p, offset = message.source.number, message.source.offset
            try:
                verdicts = decode_verdicts(
                    message.value or b"", begun.mark, self._parts.rules.locate
                )
            except BadRange as error:
                raise _unreadable(error, f"{self._edge.topic}/{p} at {offset}") from error
            missing = begun.waiting.hear(p, offset, verdicts)
            if missing and verdicts.cause == ALONE:
                note = f"partition {p}: one process has forwarded {missing} offsets meanwhile"
                self._observer.process.note(note)
            elif missing:
                where = f"{self._edge.topic}/{p} at {offset}"
                accept = self._plan.accept_positions
                self._observer.process.loudly(refuse_hole(where, missing, accept=accept))
            if begun.signing.hear(p, verdicts):
                self._edge.counted("edge_signed_again_total", 1)
                note = f"partition {p} is signed again from {verdicts.start}: the judge lacks it"
                self._observer.process.note(note)

    def _forward(self, begun: Begun) -> StepResult:
        """Forward what has its verdicts, in one transaction."""
        if begun.transactions.worn:
            self.restart()
            return StepResult.RETRY
        most = self._parts.bounds.documents
        ready = begun.waiting.ready(max(1, int(most * self._parts.pace.share)))
        if not ready.records:
            return self._commit_idle(begun, ready)
        watch = Stopwatch(self._clock, self._observer.process.spent)
        refused = self._parts.incoming.refusals.known
        outcomes = [
            Malformed(ErrorCode.REFUSED, why, stage="forward")
            if (why := refused.get((record.source.number, record.source.offset)))
            else outcome
            for record, outcome in zip(ready.records, ready.outcomes, strict=True)
        ]
        if not begun.signing.retract(_retracted(ready, outcomes)):
            return StepResult.RETRY
        decided = _decided(ready, outcomes)
        leaving = self._parts.forwarder.written(decided, {}, {})
        watch.lap("produce")
        full = min(1.0, len(ready.records) / most)
        load = Load(ready.verdicts, leaving, None, ready.records, lambda: full)
        if not self._commit(begun, ready, load):
            return StepResult.RETRY
        watch.lap("commit")
        self._parts.breaker.add(len(ready.records), *decided.prepared.rejected)
        begun.transactions.worn |= self._parts.incoming.refusals.committed(ready.records)
        self._observer.moved(Moved(decided, leaving, (), watch.seconds, 0), Applied())
        if ready.gone:
            self._edge.counted("edge_gone_records_total", ready.gone)
            self._observer.process.loudly(
                f"{ready.gone} records were judged and do not exist any more: they were not "
                "forwarded (the input is compacted, or retention has removed them)"
            )
        return StepResult.MOVED

    def _commit(self, begun: Begun, ready: Ready, load: Load) -> bool:
        member = self._member()
        if member is None:
            return False
        self._start.inputs = dict(ready.inputs)
        if begun.transactions.run(load, member) is None:
            return False
        begun.waiting.forwarded(ready)
        self._committed = self._clock.monotonic()
        return True

    def _commit_idle(self, begun: Begun, ready: Ready) -> StepResult:
        """Commit positions behind verdicts without records, and markers; now and then, all."""
        ready.verdicts = {
            p: max(offset, ready.verdicts[p])
            for p, offset in begun.waiting.passed(self._edge.verdicts.reached()).items()
        }
        moved = ready.verdicts != begun.waiting.verdicts
        seconds = PASS_SECONDS if moved else IDLE_COMMIT_SECONDS
        if self._clock.monotonic() - self._committed < seconds:
            return StepResult.IDLE
        self._commit(begun, ready, Load(ready.verdicts))
        return StepResult.RETRY

    def _member(self) -> Member | None:
        """Return our place in the group; None while we have none that could be fenced."""
        member = self._parts.member()
        return member if member.has_place else None

    def _sign(self, begun: Begun, timeout: float) -> bool:
        """Take records if there is room, and sign the batch that is sketched; return if it did."""
        waiting, signing, bounds = begun.waiting, begun.signing, self._parts.bounds
        room = waiting.share(self._edge.pending, bounds.documents, bounds.size) > 0
        if room:
            taken = self._intake.next(0.0 if self._taken else timeout)
            waiting.take(taken.records, taken.reached)
            room = not taken.records
        if not room:  # it has read, or pauses on purpose
            self._stall.moved()
        if self._taken is None:
            records = waiting.to_sign(signing.signed, bounds.documents, bounds.size)
            if not records:
                return self._skip_markers(begun)
            prepare = self._parts.incoming.prepare
            call = self._parts.worker.begin(lambda: prepare(records, begun.sketcher, self._clock))
            self._taken = dict(signing.signed), records, call
        before, _, result = self._taken
        try:
            prepared = result()
        except NotReady:
            return False
        except SchemasAway:
            self._taken = None
            raise
        self._taken, self._signed_at = None, self._clock.monotonic()
        signing.sign(prepared, before)
        return True

    def _skip_markers(self, begun: Begun) -> bool:
        """Sign offsets without a record after a while: retention must not pass the judge."""
        if self._clock.monotonic() - self._signed_at >= PASS_SECONDS:
            self._signed_at = self._clock.monotonic()
            begun.signing.skip(begun.waiting.reached)
        return False

    def _show(self, begun: Begun) -> None:
        now = self._clock.monotonic()
        if now < self._lag_at:
            return
        self._lag_at = now + LAG_SECONDS
        self._edge.shown("edge_waiting_records", begun.waiting.count)
        self._edge.shown("edge_waiting_seconds", begun.signing.quiet_seconds())
        reason = self._stall.reason(begun.waiting.reached)
        reason = reason or self._deaf.reason(self._edge.verdicts.reached())
        self._observer.process.stuck(self.label, reason)
        self._parts.sink.serve()
        names, at = self._plan.names, begun.waiting.inputs
        ends = self._parts.source.ends()
        self._ends.look(begun.waiting.ends, ends)
        lag = {p: max(0, end - at[p]) for p, end in ends.items() if p in at}
        self._read |= names.places(at)
        self._observer.process.at(names.places(at), names.places(lag))

    def close(self) -> None:
        """Release all resources; an open transaction is aborted."""
        if self._script is not None:
            self._script.close()
        self._script = self._begun = None
        self._parts.sink.close()
        self._parts.source.close()
        self._edge.verdicts.close()
        self._observer.process.left(self._read)


def refuse_hole(where: str, missing: int, *, accept: bool) -> str:
    """Return a warning of verdicts that are *missing*; raise `Stop` unless they are accepted."""
    message = f"{where}: {missing} input offsets before have no verdict"
    if accept:
        return f"{message}; their records are left out, as accepted"
    raise Stop(
        f"{message}: the judge went on with --accept-positions, or the topic lost records.\n"
        "    ways out: bring the topic back; or leave these records out: `streamfilter run --role "
        "edge --accept-positions`",
        exit_code=ExitCode.CONFIG,
    )


def _unreadable(error: BadRange, where: str) -> Stop:
    if error.fault == "other_index":
        return Temporary(f"{where}: {error}; the index was replaced: start again")
    return Stop(f"{where}: {error}\n    cure: use one version of streamfilter, the judges' first")


def _retracted(ready: Ready, outcomes: Sequence[Outcome]) -> list[tuple[int, int]]:
    """Return the places of records that the judge stored, and that are not forwarded."""
    both = zip(ready.records, ready.outcomes, outcomes, strict=True)
    return [
        (record.source.number, record.source.offset)
        for record, judged, outcome in both
        if outcome is not judged and isinstance(judged, Decision)
    ]


def _decided(ready: Ready, outcomes: Sequence[Outcome]) -> Decided:
    """Return the outcomes as the forwarder and the observers of a single process know them."""
    rows = [row for row, outcome in enumerate(outcomes) if isinstance(outcome, Decision)]
    others = {row: o for row, o in enumerate(outcomes) if not isinstance(o, Decision)}
    ids = [ready.ids.get(row, "") for row in rows]
    nothing = np.zeros(0, np.int64)
    prepared = Prepared(ready.records, others, rows, Batch(ids, nothing, nothing, nothing), None)
    return Decided(prepared, EVERYTHING, None, outcomes)


class OneEdge:
    """`ports.Membership` that makes one task of all partitions that the group gives.

    The task begins again, whole, after every change of them.
    """

    def __init__(self, group: Membership, inputs: Callable[[], int]) -> None:
        """Begin without a partition; *inputs* returns how many the input has."""
        self._group, self._inputs = group, inputs
        self.owned: frozenset[int] = frozenset()

    def poll(self, timeout: float) -> Moves:
        """Serve the group; return what this means for the one task, number 0."""
        moves = self._group.poll(timeout).among(self._inputs())
        if not moves:
            return moves
        self.owned = (self.owned - moves.gone) | moves.gained
        one = frozenset({0})
        if self.owned:
            return Moves(gained=one, lost=moves.lost)
        return Moves(gone=one, lost=moves.lost)

    def member(self) -> Member:
        """Return our place in the group."""
        return self._group.member()

    def close(self) -> None:
        """Leave the group."""
        self._group.close()
