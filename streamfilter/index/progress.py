"""The position of an index in its input, and how a batch moves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.index.ages import Ages
from streamfilter.model import BatchMark, Positions, Span

if TYPE_CHECKING:
    from streamfilter.matching.blocking.retention import Extent


class Progress(Struct, frozen=True):
    """The position of an index, stored in the same WriteBatch as the entries it describes."""

    changelog_offset: int = -1  # of the last applied record; -1 before it (always, for files)
    record_hash: bytes = b""  # BLAKE2b-128 of that changelog record's value
    positions: Positions | None = None  # next offset to judge per partition; None: none judged
    next_batch: int = 0
    next_ordinal: int = 0
    highest_timestamp: int = -1
    horizon: int = 0  # below it documents are forgotten, even if still stored. Never falls

    @property
    def as_of(self) -> str:
        """Return for people up to where the changelog is applied; nothing if there is none."""
        offset = self.changelog_offset
        return f", as of changelog offset {offset}" if offset >= 0 else ""

    def advanced(
        self, documents: int, spans: Sequence[Span], extent: Extent, ages: Ages | None = None
    ) -> tuple[Progress, BatchMark]:
        """Return the progress after a batch of *documents* over *spans*, and its mark.

        Example: a batch of two documents reads the offsets 5 and 6 of partition 0. Before it,
        `positions` is {0: 5} and `next_ordinal` is 10. After it they are {0: 7} and 12.
        """
        ends = {span.partition: span.end for span in spans}
        following = self.next_ordinal + documents
        after = replace(
            self,
            positions={**(self.positions or {}), **ends} if spans else self.positions,
            next_batch=self.next_batch + 1,
            next_ordinal=following,
            highest_timestamp=max(self.highest_timestamp, extent.stream_time),
            horizon=extent.horizon,
        )
        mark = BatchMark(
            self.next_batch, self.next_ordinal, following, tuple(spans), extent.horizon,
            extent.marked_time, ages.encoded(spans) if ages else b"",
        )  # fmt: skip
        return after, mark
