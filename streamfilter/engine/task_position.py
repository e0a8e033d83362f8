"""The position of a task in its input before and after a batch."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.engine.messages.changelog import BatchRecord
from streamfilter.index.ages import Ages
from streamfilter.index.progress import Progress
from streamfilter.matching.blocking.retention import EVERYTHING, Extent
from streamfilter.model import Positions, Record, Span


class TaskPosition(Struct, frozen=True):
    """The position of one task. A new producer begins with a new one."""

    positions: Positions  # next offset to take, for every input partition
    progress: Progress
    """Its positions are the first offsets that were never judged, for every input partition. A
    record before them is re-read."""
    writer: bytes = b""  # the writer's name in our batches

    @property
    def known(self) -> Positions:
        """Return the first offset that was never judged, for every input partition."""
        return self.progress.positions or {}

    def after(
        self,
        records: Sequence[Record],
        judged: int,
        extent: Extent,
        *,
        reread: bool,
        reached: Positions | None = None,
        ages: Ages | None = None,
    ) -> tuple[TaskPosition, BatchRecord | None]:
        """Return the position after *records*, and the batch record for it (None: re-read).

        The records are all new or all re-read; then only the positions move. *judged* of them are
        documents, with *ages* if the batch record stores them. *reached* are the next offsets after
        new records, if no other record is held.
        """
        ends = {record.source.number: record.source.offset + 1 for record in records}
        new = replace(self, positions=self.positions | ends)
        if reread:
            return new, None
        return new._past(reached or {})._judged(judged, extent, ages)

    def passed(
        self, reached: Positions, extent: Extent = EVERYTHING
    ) -> tuple[TaskPosition, BatchRecord | None]:
        """Return the position at *reached*, with no record on the way there.

        Only markers and aborted records lie between. A batch record covers them, so that the
        changelog agrees with the group's offsets; None if all of them were covered before.
        """
        at = self._past(reached)
        after, batch = at._judged(0, extent)
        return (at, None) if after.known == self.known else (after, batch)

    def _past(self, reached: Positions) -> TaskPosition:
        positions = {p: max(offset, reached.get(p, offset)) for p, offset in self.positions.items()}
        return replace(self, positions=positions)

    def _judged(
        self, documents: int, extent: Extent, ages: Ages | None = None
    ) -> tuple[TaskPosition, BatchRecord]:
        """Return the position after a batch up to its positions, and that batch's record."""
        ends = {p: max(start, self.positions[p]) for p, start in self.known.items()}
        return self._moved_to(ends, documents, extent, ages)

    def opened(self, extent: Extent = EVERYTHING) -> tuple[TaskPosition, BatchRecord]:
        """Return the first batch of a changelog, or a rewrite's last: positions, no record."""
        return self._moved_to(self.known, 0, extent)

    def _moved_to(
        self, ends: Positions, documents: int, extent: Extent, ages: Ages | None = None
    ) -> tuple[TaskPosition, BatchRecord]:
        """Return the position that knows the offsets before *ends*, and the batch leading there."""
        spans = tuple(Span(p, start, ends[p]) for p, start in sorted(self.known.items()))
        progress, mark = self.progress.advanced(documents, spans, extent, ages)
        return replace(self, progress=progress), BatchRecord(
            mark, progress.highest_timestamp, self.writer
        )
