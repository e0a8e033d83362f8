"""Incoming records: read, checked against their destinations, sketched.

The result depends only on the records and the known refused records. So a worker can prepare the
next batch while this one is committed (`micro_batches.Ahead`). This module does not use the index
or the log.

Sizes are checked before the judgement. A document in the index that could not be forwarded would
withhold its duplicates, and all copies would be lost. One that could not be written to the
changelog would be missing after a restore.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.documents.reader import Reader
from streamfilter.engine.batches.micro_batches import in_order
from streamfilter.engine.batches.pace import Stopwatch
from streamfilter.engine.batches.refusals import Refusals
from streamfilter.engine.messages.changelog import remembered_bytes
from streamfilter.engine.messages.forwarding import BATCH_OVERHEAD, Destinations, size_of
from streamfilter.engine.ports import Clock
from streamfilter.matching.batch import Prepared
from streamfilter.matching.verdict.evidence_headers import theirs_of
from streamfilter.model import ErrorCode, Malformed, Reading, Record
from streamfilter.similarity.sketch import Sketcher
from streamfilter.workers.crew import Crew
from streamfilter.workers.frames import Drawn
from streamfilter.workers.preparing import Preparing, Read

SHADOW_ALLOWANCE = 4 * 1024  # for our headers on a unique record: two ids of 1,024 bytes
READ_SECONDS = 5.0
"""After so long, a batch ends with the last record read; the others are the next batch. The time to
sketch the batch is bounded by its bytes."""


class Incoming(Struct, frozen=True):
    """Prepares records for the judgement."""

    reader: Reader
    to: Destinations
    shadow: bool = False  # whether unique records leave with headers of ours
    refusals: Refusals = field(default_factory=Refusals)
    crew: Crew = field(default_factory=lambda: Crew(0))
    fixed: bool = False  # whether a batch is put in order here, and never ends early

    def prepare(self, records: Sequence[Record], sketcher: Sketcher, clock: Clock) -> Prepared:
        """Read and sketch *records*; one that cannot be read, forwarded or stored is Malformed.

        The result may hold only the first records: those read in time, with known schemas. Raises
        `SchemasAway`: the schema of the first record is not available now, or of any if *fixed*.
        """
        preparing = Preparing(self.reader, sketcher, self.crew)
        watch, until = Stopwatch(clock), clock.monotonic() + READ_SECONDS
        records = in_order([*records]) if self.fixed else records
        late = None if self.fixed else lambda: clock.monotonic() >= until
        read = preparing.read(records, late)
        read = replace(read, readings=self.forwardable(read.records, read.readings))
        watch.lap("read" if read.drawn is None else "sketch")  # workers do both, mostly sketch
        prepared = self.fitting(read, preparing)
        watch.lap("sketch")
        return replace(prepared, seconds=watch.seconds)

    def forwardable(self, records: Sequence[Record], readings: Sequence[Reading]) -> list[Reading]:
        """Return the *readings*; a record that no topic would accept becomes Malformed."""
        readings = [*readings]
        if not self._all_fit(records):
            readings = [*map(self._forwardable, records, readings)]
        if refused := self.refusals.known:
            for row, record in enumerate(records):
                if why := refused.get((record.source.number, record.source.offset)):
                    readings[row] = _refused(readings[row], why)
        return readings

    def _all_fit(self, records: Sequence[Record]) -> bool:
        """Return whether even the longest key and value of *records* would fit in one record."""
        if self.shadow or self.to.unique in self.to.compacted or any(r.headers for r in records):
            return False
        key = max((len(each.key or b"") for each in records), default=0)
        value = max((len(each.value or b"") for each in records), default=0)
        return BATCH_OVERHEAD + key + value <= self.to.limits[self.to.unique]

    def _forwardable(self, record: Record, reading: Reading) -> Reading:
        """Return *reading*, or why *record* cannot be forwarded (also: `refusals.py`)."""
        if isinstance(reading, Malformed):
            return reading
        if record.key is None and self.to.unique in self.to.compacted:
            message = f"topic {self.to.unique} is compacted, and takes no record without a key"
            return Malformed(ErrorCode.REFUSED, message, stage="forward")
        limit = self.to.limits[self.to.unique]
        headers = theirs_of(record) if self.shadow else record.headers
        allowance = SHADOW_ALLOWANCE if self.shadow else 0
        size = size_of(record.key, record.value, headers) + allowance
        topic = f"topic {self.to.unique}"
        return reading if size <= limit else _too_large("the record", size, topic, limit)

    def fitting(self, read: Read, preparing: Preparing) -> Prepared:
        """Sketch the documents; one that the changelog does not take becomes Malformed."""
        first, readings = preparing.sketch(read), read.readings
        if first.sketches is None:
            return first
        limit, sizes = self.to.changelog_limit, remembered_bytes(first.batch.ids, first.sketches)
        if limit is None or BATCH_OVERHEAD + max(sizes) <= limit:
            return first
        for row, size in zip(first.rows, sizes, strict=True):
            readings[row] = _memorable(readings[row], BATCH_OVERHEAD + size, limit)
        drawn = Drawn(np.array(first.rows, np.int64), [], first.sketches)
        return preparing.sketch(replace(read, drawn=drawn))


def _memorable(reading: Reading, size: int, limit: int) -> Reading:
    """Return *reading*, or TOO_LARGE if the changelog takes no record of *size* bytes."""
    if size <= limit:
        return reading
    return _too_large("its changelog record", size, "the changelog", limit)


def _too_large(what: str, size: int, where: str, limit: int) -> Malformed:
    message = f"{what} has up to {size} bytes; {where} takes {limit} (max.message.bytes)"
    return Malformed(ErrorCode.TOO_LARGE, message, stage="forward")


def _refused(reading: Reading, why: str) -> Malformed:
    """Return the verdict on a refused record; for a refused dead letter it has both reasons."""
    if isinstance(reading, Malformed) and reading.code is not ErrorCode.REFUSED:
        why = f"{reading.code.value}: {reading.message}; its letter: {why}"
    return Malformed(ErrorCode.REFUSED, why, stage="forward")
