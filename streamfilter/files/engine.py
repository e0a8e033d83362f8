"""The loop over files: read, judge, write, remember; the guarantees of the Kafka loop, on lines.

Outputs appear only when complete, so a kept index is never behind them. If a run dies, run it
again. Lines that the index already holds are re-read as of their own time and get the same
verdict; the other lines are new. An index with a retention limit starts again from where the dead
run began (`Unfinished`). The batches of two runs may differ; the verdicts do not.

If the lines of a complete run are read again, documents of dropped windows are not found. The log
warns of it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.config.settings.process import BatchSection
from streamfilter.files.formats.protocol import Input, Stretch, continued
from streamfilter.files.placement import Placement
from streamfilter.files.sources import Sources
from streamfilter.index.ages import first_met
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes, Index, Removals
from streamfilter.killpoints import kill_point
from streamfilter.matching.batch import Decided, Prepared, Rules, decide, forgets_first
from streamfilter.matching.blocking.forgetting import CutBatch, named_removals
from streamfilter.matching.blocking.retention import EVERYTHING, Extent, Retention
from streamfilter.matching.pipeline import accept
from streamfilter.model import Record, Span
from streamfilter.process.signals import INTERRUPTION
from streamfilter.stops import SchemeMismatch
from streamfilter.workers.preparing import Preparing

Given = TypeVar("Given")
Made = TypeVar("Made")

AHEAD = 2
"""Batches read ahead. With only one, a worker that finishes its part early sits idle.

It would wait until the other workers finish, this batch is written, and another one is read."""


def at_once(
    given: Iterable[Given], make: Callable[[Given], Made]
) -> Iterator[tuple[Given, Callable[[], Made]]]:
    """Yield each of *given* with a function that calls *make* on it."""
    for each in given:
        yield each, partial(make, each)


def some_ahead(
    given: Iterable[Given], make: Callable[[Given], Made]
) -> Iterator[tuple[Given, Callable[[], Made]]]:
    """Yield as `at_once` does, and prepare the next items meanwhile, in threads.

    The result of *make* must depend only on its argument. If *given* raises, the items before the
    error are yielded first.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow import: only if needed

    with ThreadPoolExecutor(AHEAD, thread_name_prefix="ahead") as threads:
        waiting: deque[tuple[Given, Callable[[], Made]]] = deque()
        try:
            for each in given:
                waiting.append((each, threads.submit(make, each).result))
                if len(waiting) > AHEAD:
                    yield waiting.popleft()
        except Exception:
            yield from waiting
            raise
        yield from waiting


logger = logging.getLogger("streamfilter.filter")

STRETCH_GROWTH = 4  # after a batch that ended early, the next takes at most so many times more


class Engine(Struct, frozen=True):
    """One run over its inputs."""

    batch: BatchSection
    rules: Rules
    retention: Retention
    now: int
    """Start of the run in milliseconds since the epoch: the timestamp of all lines, which have
    none of their own."""
    preparing: Preparing
    index: Index
    sources: Sources
    placement: Placement
    ahead: bool = False  # whether the next batches are read and prepared while this one is judged

    def run(self, inputs: Iterable[Input], advanced: Callable[[int], None]) -> None:
        """Filter *inputs* in their order and publish the outputs, or raise `Stop` before.

        ``advanced`` is called with the number of stored bytes read since its last call.
        """
        if max(self.index.progress.positions or {-1: 0}) >= len(self.sources):
            raise SchemeMismatch(
                "the state directory's index knows more inputs than its table of sources; "
                "remove the directory and run again"
            )
        for input_ in inputs:
            self._filter(input_, advanced)
        kill_point("close.begun")
        INTERRUPTION.obey()
        self.placement.outputs.publish()

    def _filter(self, input_: Input, advanced: Callable[[int], None]) -> None:
        """Filter one input; record how far it was read, also after an error."""
        number = self.sources.number_of(input_.name)
        known = self.sources.known(number)
        done, digest, seen = 0, "", 0
        stretches = continued(
            input_,
            (known.lines, known.digest),
            documents=self.batch.documents,
            size=self.batch.bytes,
            changed=lambda: _changed(input_.name, known.lines),
            summed=self.sources.kept,
        )
        prepare = partial(self.preparing.prepare, partition=number)
        turns = some_ahead if self.ahead else at_once
        try:
            for stretch, prepared in turns(stretches, lambda each: prepare(each.records)):
                INTERRUPTION.obey()
                self._step(number, stretch, prepared)
                done, digest = stretch.end - 1, stretch.digest
                advanced(stretch.bytes_read - seen)
                seen = stretch.bytes_read
        finally:
            # Also after a broken line: the judged lines must not change while it is repaired.
            self.sources.remember(number, lines=done, digest=digest)

    def _step(self, number: int, stretch: Stretch, prepared: Callable[[], Prepared]) -> None:
        """Process one batch: first the lines judged before, then the new ones, in line order."""
        whole = prepared()
        records = whole.records
        position = (self.index.progress.positions or {}).get(number, 1)
        accepted = accept({0: position}, records)

        def part(some: Sequence[Record]) -> Prepared:
            if len(some) == len(records):
                return whole
            return self.preparing.prepare(some, partition=number)

        if accepted.reread:
            self._note_forgotten(accepted.reread[0].source.topic, number, stretch)
            self.placement.write(self._decided(part(accepted.reread), EVERYTHING, reread=True))
        if stretch.end > position:
            span = Span(number, max(position, stretch.start), stretch.end)
            self._take(accepted.new, span, part)
        summary = self.placement.summary
        summary.lines += len(records) + stretch.blank
        summary.blank += stretch.blank
        summary.reread += len(accepted.reread)

    def _take(
        self, records: Sequence[Record], span: Span, part: Callable[[Sequence[Record]], Prepared]
    ) -> None:
        """Process new *records*, the lines of *span*, in as many batches as needed."""
        most = len(records)
        while span.start < span.end:
            decided = self._first(records[:most], part)
            done = len(decided.prepared.records)
            end = span.end if done == len(records) else records[done].source.offset
            self.placement.write(decided)
            self.placement.summary.updates += decided.forgotten.updates
            kill_point("batch.decided")
            removals = named_removals(
                decided.forgotten.stored, self.index, self.preparing.sketcher.keys_of
            )
            part_of = replace(span, end=end if done or not records else span.start)
            self.index.apply(_changes(self.index.progress, decided, part_of, removals))
            kill_point("index.applied")
            most = STRETCH_GROWTH * max(done, 1)
            records, span = records[done:], replace(span, start=part_of.end)

    def _first(
        self, records: Sequence[Record], part: Callable[[Sequence[Record]], Prepared]
    ) -> Decided:
        """Judge as many of the new *records* as one batch may hold, from the first one on."""
        while True:
            prepared = part(records)
            extent = self.retention.extent_of(self.index, records, prepared.rows, self.now)
            try:
                return self._decided(prepared, extent, reread=False)
            except CutBatch as cut:
                if cut.ordinals is not None:
                    return forgets_first(cut.ordinals, self.retention.rest(self.index))
                records = records[: cut.records]

    def _note_forgotten(self, name: str, number: int, stretch: Stretch) -> None:
        """Warn at the first line of an input that was judged before if its matches are dropped."""
        if stretch.start > 1:
            return
        (mark,) = self.index.marks_covering(np.array([number]), np.array([stretch.start]))
        # The first line was compared with the oldest documents: these are dropped first.
        if mark is None or first_met(mark) < self.index.windows[0].first_ordinal:
            logger.warning(
                "%s was judged before, and it or what it met is older than what index.retention "
                "and index.documents_max remember: lines that are forgotten, or whose first copy "
                "is, come out as unique",
                name,
            )

    def _decided(self, prepared: Prepared, extent: Extent, *, reread: bool) -> Decided:
        progress = self.index.progress
        return decide(
            prepared,
            self.index,
            self.rules,
            number=progress.next_batch,
            first_ordinal=progress.next_ordinal,
            reread=reread,
            extent=extent,
        )


def _changes(
    progress: Progress, decided: Decided, span: Span, removals: Removals | None
) -> Changes:
    """Return the index write of a batch: what it adds and forgets, its mark, its end."""
    extent = decided.extent
    # An index that forgets nothing stores no time at all, in its progress as in its marks.
    dated = replace(extent, stream_time=extent.marked_time)
    judged = len(decided.prepared.rows)
    spans = (span,) if span.start < span.end else ()
    after, mark = progress.advanced(judged, spans, dated, decided.ages)
    return Changes(after, decided.additions, (mark,), removals, extent.opens)


def _changed(name: str, lines: int) -> SchemeMismatch:
    return SchemeMismatch(
        f"{name} is not what it was: its first {lines} lines are in the index under this name, "
        "and they differ now\n    cure: give other data another name (standard input: "
        "--stdin-name), or use another --state directory"
    )
