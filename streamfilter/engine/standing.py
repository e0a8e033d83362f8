"""The progress of a task before and after a batch: pure arithmetic on offsets and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamfilter.engine.changelog import BatchRecord
from streamfilter.index.ages import Ages
from streamfilter.index.protocol import Progress
from streamfilter.matching.retention import EVERYTHING, Extent
from streamfilter.model import BatchMark, Positions, Record, Span


@dataclass(frozen=True, slots=True)
class Standing:
    """The counters of one task. A new producer begins with new ones.

    Example: a batch has two new documents, at the offsets 5 and 6 of partition 0. Before it,
    `positions` and `known` are {0: 5}, and `next_ordinal` is 10. After it they are {0: 7} and 12.
    """

    positions: Positions
    """Next offset to take, for every input partition."""
    known: Positions
    """First offset that was never judged, for every input partition. A record before it is
    re-read."""
    next_batch: int = 0
    next_ordinal: int = 0
    highest_timestamp: int = -1
    """The stream time of the last batch."""
    writer: bytes = b""
    """The writer's name in our batches."""

    @classmethod
    def of(
        cls, progress: Progress, *, positions: Positions, known: Positions, writer: bytes
    ) -> Standing:
        """Return the standing of an index with *progress* that goes on at *positions*."""
        return cls(
            positions,
            known,
            progress.next_batch,
            progress.next_ordinal,
            progress.highest_timestamp,
            writer,
        )

    def after(
        self,
        records: Sequence[Record],
        judged: int,
        extent: Extent,
        *,
        reread: bool,
        reached: Positions | None = None,
        ages: Ages | None = None,
    ) -> tuple[Standing, BatchRecord | None]:
        """Return the standing after *records*, and the batch record for it (None: re-read).

        Args:
            records: a batch that is all new or all re-read.
            judged: how many of them are documents.
            extent: the documents that they were compared with.
            reread: whether they were judged before; then only the positions move.
            reached: the next offsets after new records, if no other record is held.
            ages: the documents' ages, if the batch record stores them.
        """
        ends = {record.source.partition: record.source.offset + 1 for record in records}
        positions = self.positions | ends
        if reread:
            return replace(self, positions=positions), None
        new = replace(self, positions=positions)
        return new._moved_to(new._past(reached or {}), judged, extent, ages)

    def passed(
        self, reached: Positions, extent: Extent = EVERYTHING
    ) -> tuple[Standing, BatchRecord | None]:
        """Return the standing at *reached*, with no record on the way there.

        Only markers and aborted records lie between. A batch record covers them, so that the
        changelog agrees with the group's offsets; None if all of them were covered before.
        """
        after = self._past(reached)
        if after.known == self.known:
            return after, None
        return self._moved_to(after, 0, extent)

    def _past(self, reached: Positions) -> Standing:
        """Return this standing moved forward to *reached*, and known up to its positions."""
        positions = {p: max(offset, reached.get(p, offset)) for p, offset in self.positions.items()}
        known = {p: max(offset, positions[p]) for p, offset in self.known.items()}
        return replace(self, positions=positions, known=known)

    def opened(self, extent: Extent = EVERYTHING) -> tuple[Standing, BatchRecord]:
        """Return the first batch of a changelog, or the batch that ends a rewrite.

        It judges no record and holds the positions of all partitions.
        """
        return self._moved_to(self, 0, extent)

    def _moved_to(
        self, at: Standing, judged: int, extent: Extent, ages: Ages | None = None
    ) -> tuple[Standing, BatchRecord]:
        """Return the standing *at* those positions, and the batch record that leads there."""
        spans = tuple(Span(p, self.known[p], at.known[p]) for p in sorted(at.known))
        after = replace(
            at,
            next_batch=self.next_batch + 1,
            next_ordinal=self.next_ordinal + judged,
            highest_timestamp=max(self.highest_timestamp, extent.stream_time),
        )
        mark = BatchMark(
            self.next_batch,
            self.next_ordinal,
            after.next_ordinal,
            spans,
            extent.horizon,
            extent.marked_time,
            ages.encoded(spans) if ages else b"",
        )
        return after, BatchRecord(mark, after.highest_timestamp, self.writer)
