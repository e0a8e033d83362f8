"""A task that reads seeds: documents of earlier enter the index and the changelog.

A seed is one more input partition of the task, with a number from 65,535 downward. Its batches go
through the same steps as those of the input, in the group's transactions. They differ in three
things: the source (`SeedSource`), no record leaves (`NoOutputs`), and each batch has a header. The
header's table says how far each seed was read, so a seed that was killed goes on there.

Example: a file of five lines, two of them in the index. Its transaction writes a header with the
position 6, three documents and a batch.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.documents.rows import place_of
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.filter_observer import FilterObserver, Moved
from streamfilter.engine.ports import Clock, Layout, Outgoing, RecordSource
from streamfilter.engine.task_position import TaskPosition
from streamfilter.index.input_table import InputTable, Piece, Seed
from streamfilter.index.protocol import Applied, Index
from streamfilter.matching.batch import Decided
from streamfilter.matching.blocking.forgetting import NO_ORDINALS
from streamfilter.matching.blocking.retention import Retention
from streamfilter.model import SEEDS_FROM, Malformed, Positions, Record, Source
from streamfilter.similarity.columns import I64
from streamfilter.stops import BrokenInput

put = object.__setattr__  # a row of a table has no constructor that could set a field again


class SeedReader(Protocol):
    """Reads a seed, or several at once, as often as the task starts."""

    @property
    def seeds(self) -> Sequence[Seed]:
        """Return for each its name, what it is, and where it begins."""

    def pieces(self, seeds: Mapping[str, Seed]) -> Iterator[Piece]:
        """Yield the records from the positions of *seeds* (by name) on, also empty pieces.

        The same positions give the same records in the same order. Raises `Stop`: a seed is not
        what it was, or cannot be read.
        """


class SeedCounts(Struct):
    """The counts of one run of `seed`; a batch counts when it is committed."""

    verdicts: Counter[str] = field(default_factory=Counter)
    broken: str = ""  # the first record that cannot be read, and why
    old: int = 0  # documents older than the retention

    @property
    def documents(self) -> int:
        return self.verdicts.total() + self.old


class SeedSource:
    """`ports.RecordSource` of seeds; the group's offsets stay those of the *input_*."""

    def __init__(
        self,
        input_: RecordSource,
        inputs: Inputs,
        readers: Sequence[SeedReader],
        counts: SeedCounts,
        *,
        retention: Retention,
        clock: Clock,
    ) -> None:
        """Read one after the other, without documents that are older than the *retention*."""
        self._inputs, self._counts, self._readers, self._clock = inputs, counts, readers, clock
        self._names = {seed.name for reader in readers for seed in reader.seeds}
        self._retention, self._newest = retention, -1
        self._queue: deque[Record] = deque()
        self._reached: Positions = {}
        self._end: Positions = {}  # of the piece in the queue
        self._sums: dict[int, list[tuple[int, str]]] = {}  # number → (lines, their digest), rising
        self._passed: Positions = {}  # up to where old documents were counted
        self._handed: Positions = {}
        self._moved: Positions = {}
        self._pieces: Iterator[Piece] = iter(())
        self._numbers: Mapping[str, int] = {}
        self._exhausted = False
        self.committed, self.ids = input_.committed, input_.ids
        self.start_positions, self.close = input_.start_positions, input_.close

    @property
    def ended(self) -> bool:
        return self._exhausted and not self._queue

    @property
    def done(self) -> bool:
        return self.ended and self._handed == self._moved

    def joined(self, position: TaskPosition) -> TaskPosition:
        progress = position.progress
        self._newest = progress.highest_timestamp
        at = {number: seed.position for number, seed in self._now_read().items()}
        known = replace(progress, positions=position.known | at)
        return replace(position, positions=position.positions | at, progress=known)

    def _now_read(self) -> Mapping[int, Seed]:
        seeds = self._inputs.table.by_number
        return {number: seed for number, seed in seeds.items() if seed.name in self._names}

    def assign(self, positions: Positions) -> None:
        self._queue.clear()
        self._reached = {n: at for n, at in positions.items() if n >= SEEDS_FROM}
        self._handed, self._moved, self._end = {}, {}, {}
        seeds = self._now_read()
        self._sums = {n: [(seed.lines, seed.digest)] for n, seed in seeds.items()}
        self._numbers = {seed.name: number for number, seed in seeds.items()}
        by_name = {
            seed.name: replace(seed, position=self._reached[number])
            for number, seed in seeds.items()
        }
        self._pieces, self._exhausted = self._read(by_name), False

    def _read(self, seeds: Mapping[str, Seed]) -> Iterator[Piece]:
        for reader in self._readers:
            yield from reader.pieces({each.name: seeds[each.name] for each in reader.seeds})

    def consume(self, count: int, timeout: float) -> list[Record]:
        if not self._queue and not self._exhausted:
            self._fetch()
        records = [self._queue.popleft() for _ in range(min(count, len(self._queue)))]
        ends = {each.source.number: each.source.offset + 1 for each in records}
        self._reached |= ends
        self._handed |= ends
        if not self._queue:
            self._reached |= self._end
        return records

    def _fetch(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            self._exhausted = True
            return
        for record in piece.records:
            name, offset = record.source.topic, record.source.offset
            put(record, "source", Source(name, self._numbers[name], offset))
        self._queue.extend(self._recent(piece.records))
        self._end = {self._numbers[name]: end for name, end in piece.ends.items()}
        if piece.digest:
            ((number, end),) = self._end.items()
            self._sums[number].append((end - 1, piece.digest))

    def _recent(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return *records* without those older than the retention when they come.

        That depends only on what comes before them, so a seed that was killed drops the same ones.
        """
        kept, before = self._retention.time, self._newest
        if kept is None or not records:
            return records
        now = self.now(records, self._clock.wall_milliseconds(), before)
        times = self._retention.stream_times(before, records, now).tolist()
        self._newest = times[-1]
        since = [time - kept for time in (before, *times)]
        recent = []
        for record, oldest in zip(records, since, strict=False):
            number, offset = record.source.number, record.source.offset
            if not 0 <= record.timestamp < oldest:
                recent.append(record)
            elif offset >= self._passed.get(number, 0):
                self._passed[number] = offset + 1
                self._counts.old += 1
        return recent

    def table_at(self, positions: Positions) -> InputTable:
        """Return the table of the changelog's header after the *positions* of the seeds."""
        seeds = []
        for number, seed in self._inputs.table.by_number.items():
            if number in self._sums:
                at, sums = positions[number], self._sums[number]
                while len(sums) > 1 and sums[1][0] < at:
                    sums.pop(0)  # an aborted batch is tried again, and ends no earlier
                seed = replace(seed, position=at, lines=sums[0][0], digest=sums[0][1])
            seeds.append(seed)
        return replace(self._inputs.table, seeds=tuple(seeds))

    def now(self, records: Sequence[Record], now: int, newest: int) -> int:
        """Return the time of *records* without a timestamp: that of the *newest* document.

        Otherwise the lines of a file would age the whole index. *now* is the time for others.
        """
        dated = not records or records[0].timestamp >= 0
        return now if dated or newest < 0 else newest

    def moved(self, records: Sequence[Record]) -> None:
        self._moved |= {each.source.number: each.source.offset + 1 for each in records}

    def reached(self) -> Positions:
        return dict(self._reached)

    def ends(self) -> Positions:
        return {}

    def unread(self, positions: Positions) -> bool:
        """Return False: nothing but this process reads it."""
        return False


class NoOutputs(Struct, frozen=True):
    """`parts.OutputMaker` of a seed: no record leaves."""

    counts: SeedCounts
    errors_max: int

    def begin(self, layout: Layout, writer: bytes) -> None:
        """Ignore the *layout*."""

    @property
    def owes(self) -> bool:
        """Return False: nothing leaves."""
        return False

    def retracts(self, index: Index) -> I64:
        return NO_ORDINALS

    def committed(self) -> None:
        """Nothing waits for a commit."""

    def written(
        self, decided: Decided | None, before: Positions, after: Positions
    ) -> list[Outgoing]:
        """Return nothing, or raise `BrokenInput`: there are too many records that are none."""
        if decided is None:
            return []
        rejected, records = self.counts.verdicts["broken"], decided.prepared.records
        for record, outcome in zip(records, decided.outcomes, strict=True):
            if isinstance(outcome, Malformed):
                rejected += 1
                said = f"{place_of(record)}: {outcome.code.value}: {outcome.message}"
                self.counts.broken = self.counts.broken or said
                if rejected > self.errors_max:
                    raise BrokenInput(
                        f"{said}\n    cure: mend it, or pass over so many of them with "
                        f"--max-errors {max(rejected, 100)}; run it again, and it goes on here"
                    )
        return []


class SeedObserver(FilterObserver):
    """Counts the batches of a seed; everything else is shown as the filter's."""

    source: SeedSource
    counts: SeedCounts

    def moved(self, moved: Moved, applied: Applied) -> None:
        for outcome in moved.decided.outcomes:
            said = "broken" if isinstance(outcome, Malformed) else outcome.verdict.value
            self.counts.verdicts[said] += 1
        self.source.moved(moved.decided.prepared.records)
