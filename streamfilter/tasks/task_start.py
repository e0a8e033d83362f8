"""Steps 1 to 6 of a task, a little at a time.

    1   open a producer: it fences every predecessor and ends its transaction
    2   read the input's partitions, and the group's committed offsets of them, stable only
    3   after 2: read the changelog's bounds, uncommitted
    4   check that they and the index fit together (`start_checks.py`), and whose index it is
    5   the index catches up with the changelog (`restore.py`)
    6   consume from the positions; a fresh task first opens its changelog

It is a script, so that the membership is polled between two pieces. Otherwise a long restore would
lose the very task that it restores. It yields the state of the process and the reason for a wait.
It runs whole for every new producer. Another process may have replaced the old producer meanwhile,
and then our own counters are wrong.
"""

from collections.abc import Callable
from contextlib import closing

from msgspec.structs import replace

from streamfilter.engine import start_checks
from streamfilter.engine.messages.changelog_header import GROWN, Header, Successor
from streamfilter.engine.parts import Parts, StepResult
from streamfilter.engine.ports import Layout, Watermarks
from streamfilter.engine.task_position import TaskPosition
from streamfilter.engine.transactor import Transactor
from streamfilter.engine.trimming import said_of_lost_beginning
from streamfilter.engine.writer_check import WriterCheck
from streamfilter.index.input_table import FACT, ONE_TOPIC, InputTable, table_of
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Index
from streamfilter.killpoints import kill_point
from streamfilter.model import InputTopic, Positions
from streamfilter.process.health import State
from streamfilter.stops import counted
from streamfilter.tasks.changelog_rewrite import Rewriting
from streamfilter.tasks.index_storage import IndexKeeper, Opened
from streamfilter.tasks.plan import Plan, Script, patiently
from streamfilter.tasks.take_over import TakingOver, fenced

HEAR_SECONDS = 10.0
"""Longest wait until brokers know a partition that a predecessor has read. After that the input
counts as recreated."""


class TaskStart:
    """One start of one task."""

    def __init__(self, plan: Plan, parts: Parts, keeper: IndexKeeper) -> None:
        self._plan, self._parts, self._keeper = plan, parts, keeper
        self._observer = parts.observer.process
        self._successor: Successor | None = None  # who the changelog ends with
        self.layout = Layout(0, {})  # the numbers of partitions that the start found

    def run(self) -> Script[Transactor]:
        """Do all six steps; return the transactor, which does the others."""
        parts, plan, names = self._parts, self._plan, self._plan.names
        source, inputs = parts.source, parts.inputs
        yield from fenced(plan.predecessor)
        yield from patiently(
            State.STARTING, lambda: parts.sink.open(watched=parts.incoming.refusals.watching)
        )
        kill_point("start.producer")
        self.layout = yield from patiently(State.STARTING, parts.layout)
        partitions = inputs.take(inputs.table, self.layout, plan.number)
        committed = yield from patiently(State.STARTING, source.committed, partitions)
        remembered, present = yield from patiently(State.STARTING, source.ids)
        self._look_at_ids(remembered, present)
        kill_point("start.committed")
        # Only after step 2: batches committed before those offsets lie before this end.
        bounds = yield from patiently(State.STARTING, parts.changelog.bounds)
        if parts.trimming is not None:
            parts.trimming.begins(bounds.start)
        kill_point("start.bounds")
        header = yield from self._keeper.header(bounds)
        if header is None:
            start_checks.refuse_lost_changelog(names, committed)
        opened = yield from self._keeper.opened(header, bounds)
        kill_point("start.identity")
        if header is None:
            ask = source.start_positions
            positions = yield from patiently(State.STARTING, ask, partitions, plan.start)
            position = TaskPosition(positions, Progress(positions=positions), opened.writer)
            numbered = ONE_TOPIC
        else:
            yield from self._catch_up(opened, bounds)
            complete = yield from self._is_complete(opened.index, bounds)
            if not complete or (yield from self._was_late(opened.index, self.layout)):
                return (yield from self.run())
            numbered, table = self._numbered(opened.index, committed, remembered), inputs.table
            partitions = inputs.take(numbered, self.layout, plan.number)
            committed = inputs.renumbered(committed, table)
            position = yield from self._position(opened, committed, partitions)
        taking = TakingOver(plan, parts, opened, position, successor=self._successor)
        taken = yield from taking.position()
        position = yield from self._held(taken or position, fresh=not (header or taken))
        parts.forwarder.begin(self.layout, opened.writer)
        parts.incoming.refusals.begin_at(position.positions)
        source.assign(position.positions)
        kill_point("start.assigned")
        seconds = parts.bounds.transaction_seconds
        writer_check = WriterCheck(
            parts.changelog, parts.clock, names, end=bounds.end, transaction_seconds=seconds
        )
        own = Header(opened.identity.encode(), names.group, plan.bucket_cap, inputs=inputs.table)
        own = replace(own, successor=self._successor)
        if taken is not None:
            grown = None if inputs.table == numbered else replace(own, anew=GROWN)
            yield from taking.take(position, writer_check, own if header is None else grown)
            return (yield from self.run())
        if plan.rewrite_changelog and self._lost(opened.index):
            yield from Rewriting(parts, opened.index, position, writer_check, own).run()
            return (yield from self.run())
        if plan.rewrite_changelog:
            self._observer.note(f"{names.changelog} is whole: nothing is written again")
        transactor = Transactor(parts, opened.index, opened.sketcher, position, writer_check, own)
        if header is None:
            yield from _written(transactor.open_changelog)
        elif inputs.table != numbered:
            yield from _written(transactor.number_inputs)
        return transactor

    def _look_at_ids(self, remembered: str, present: str) -> None:
        names, accept = self._plan.names, self._plan.accept_positions
        for message in start_checks.refuse_other_input(names, remembered, present, accept=accept):
            self._observer.loudly(message)

    def _catch_up(self, opened: Opened, bounds: Watermarks) -> Script[None]:
        with closing(self._keeper.replay(opened, bounds, end=bounds.end)) as replay:
            begun = bounds.end - replay.position
            self._observer.note(f"{self._plan.label} restores {begun} changelog offsets")
            for waiting in replay.run():
                self._observer.restoring(max(0, bounds.end - replay.position))
                state = State.PAUSED_DISK if waiting else State.RESTORING
                yield state, waiting
            self._successor = replay.successor
        self._observer.restoring(0)
        self._observer.note(
            f"{self._plan.label} restored: {counted(len(opened.index), 'document')}"
        )

    def _is_complete(self, index: Index, bounds: Watermarks) -> Script[bool]:
        """Return False if the index must be restored once more, from a rewrite.

        A window is dropped and trimmed once the horizon has passed all its documents. An index
        whose oldest window begins after the horizon lacks documents. Raises `Refusal`: the index
        lacks documents, and the changelog holds no complete rewrite.
        """
        keeper, names = self._keeper, self._plan.names
        partial = index.windows[0].first_ordinal > index.progress.horizon
        if (partial or self._lost(index)) and not keeper.anew:
            yield from keeper.find_anew(bounds)
        if partial:
            # This partial index must not stay: a backup may bring the changelog back whole.
            why = f"{names.changelog} lacks what the oldest window begins with"
            keeper.wipe(why, damaged=False)
        if partial and not keeper.anew:
            raise start_checks.refuse_lost_beginning(names, bounds.start)
        if self._lost(index):
            keeper.lost = bounds.start  # this index is the only copy, and is not wiped
        if (trimming := self._parts.trimming) is not None:
            if self._lost(index):
                trimming.lost(said_of_lost_beginning(names.changelog, bounds.start))
            else:
                trimming.whole(keeper.anew)
        return not partial

    def _lost(self, index: Index) -> bool:
        """Return whether the changelog could not restore this whole *index*."""
        keeper = self._keeper
        unsure = self._plan.rewrite_changelog and keeper.begins_anew  # that may have no end
        return not keeper.anew and (unsure or keeper.is_cut_off(index))

    def _was_late(self, index: Index, layout: Layout) -> Script[bool]:
        """Return whether brokers now report partitions that a predecessor had read already."""
        clock = self._parts.clock
        missing = self._unknown_to(layout, index)
        deadline = clock.monotonic() + HEAR_SECONDS
        while missing > 0 and clock.monotonic() < deadline:
            yield State.STARTING, f"brokers do not know yet of {missing} partitions of the input"
            found = yield from patiently(State.STARTING, self._parts.layout)
            if self._unknown_to(found, index) < missing:
                return True
        return False

    def _unknown_to(self, layout: Layout, index: Index) -> int:
        """Return how many read partitions of present topics are not in the *layout*."""
        if not self._parts.inputs.several:
            return max(0, max(index.progress.positions or {0: 0}) - (layout.inputs - 1))
        known = table_of(index.fact(FACT)).topics
        numbered = (
            (known[each.name].partitions, each) for each in layout.topics if each.name in known
        )
        return sum(max(0, count - each.partitions) for count, each in numbered)

    def _numbered(self, index: Index, committed: Positions, remembered: str) -> InputTable:
        """Return the index's table of several topics, after a check against those that exist.

        A changelog of one topic is continued if the group has offsets of one topic only. Raises
        `Refusal`: a topic was recreated, or the table is not for these settings.
        """
        names, inputs, table = self._plan.names, self._parts.inputs, table_of(index.fact(FACT))
        if not inputs.several:
            if table.runs:
                raise start_checks.refuse_numbered(names, sorted(table.topics))
            return table
        if not table.runs:
            topics = sorted({inputs.spot(number)[0] for number in committed})
            if len(topics) != 1:
                raise start_checks.refuse_unnumbered(names, topics)
            count = max(index.progress.positions or {0: 0}) + 1
            table = replace(table, runs=(InputTopic(topics[0], remembered, count),))
        for topic in self.layout.topics:
            known = table.topics.get(topic.name, topic)
            if known.partitions > topic.partitions:
                raise start_checks.refuse_shrunk(names, topic.name, known.partitions)
            for message in start_checks.refuse_other_input(
                replace(names, topic=topic.name),
                known.id,
                topic.id,
                accept=self._plan.accept_positions,
            ):
                self._observer.loudly(message)
        return table

    def _position(
        self, opened: Opened, committed: Positions, partitions: tuple[int, ...]
    ) -> Script[TaskPosition]:
        """Return where to go on, given the group's offsets and the changelog's positions."""
        plan, progress, source = self._plan, opened.index.progress, self._parts.source
        earliest = yield from patiently(
            State.STARTING, source.start_positions, partitions, "earliest"
        )
        judged, inputs = dict(progress.positions or {}), self._parts.inputs
        begin = start_checks.reconcile(
            plan.names,
            committed,
            judged,
            inputs.reserved or partitions,
            accept=plan.accept_positions,
            begin=inputs.of_new_topics(earliest, judged),
        )
        if not plan.rewinds:
            start_checks.refuse_rewind(plan.names, begin)
        for message in begin.loudly:
            self._observer.loudly(message)
        progress = replace(progress, positions=begin.known)
        return TaskPosition(dict(begin.positions), progress, opened.writer)

    def _held(self, at: TaskPosition, *, fresh: bool) -> Script[TaskPosition]:
        """Return the position *at*, if the input holds it, or moved if accepted.

        Only where the input is read from is looked at: a seed does not read it, and what a taken
        position skips was judged by the other group. A *fresh* position was just asked for. Raises
        `Refusal`.
        """
        plan, ask = self._plan, self._parts.source.start_positions
        if self._parts.seeds is not None:
            return self._parts.seeds.joined(at)
        if fresh:
            return at
        present = self._parts.inputs.only_present(at.positions)
        earliest = yield from patiently(State.STARTING, ask, sorted(present), "earliest")
        latest = yield from patiently(State.STARTING, ask, sorted(present), "latest")
        accept = plan.accept_positions
        found = start_checks.refuse_lost_input(plan.names, present, earliest, latest, accept=accept)
        positions = at.positions | found
        known = {p: max(o, positions[p]) if accept else o for p, o in at.known.items()}
        return replace(at, positions=positions, progress=replace(at.progress, positions=known))


def _written(header: Callable[[], StepResult]) -> Script[None]:
    """Write a *header* in a transaction, which may be aborted like any other."""
    while header() is StepResult.RETRY:  # the membership is polled before the next try
        yield State.STARTING, "the first transaction was aborted"
