"""Preparing: a batch of records is read and sketched, here or by workers on other cores.

The result depends only on the records, whichever process prepares them. So the next batch may be
prepared while this one is judged and written.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from msgspec import Struct, field

from streamfilter.documents.reader import Reader
from streamfilter.documents.sketching import sketched
from streamfilter.matching.batch import Prepared, scopes_of
from streamfilter.matching.pipeline import Batch
from streamfilter.model import Document, ErrorCode, Malformed, Reading, Record
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.workers.crew import Crew
from streamfilter.workers.frames import Drawn

Make = Callable[[Sequence[Document]], Sketches]


class Read(Struct, frozen=True):
    """A batch that was read; workers may have sketched some of its documents already."""

    records: Sequence[Record]
    readings: list[Reading]  # one for each record; a document that was read by a worker has no text
    drawn: Drawn | None = None  # the documents that were sketched already


class Preparing(Struct, frozen=True):
    """Reads and sketches records for one index."""

    reader: Reader
    sketcher: Sketcher
    crew: Crew = field(default_factory=lambda: Crew(0))

    def prepare(self, records: Sequence[Record], *, partition: int | None = None) -> Prepared:
        """Return *records*, read and sketched; *partition* as in `sketch`."""
        return self.sketch(self.read(records), partition=partition)

    def read(self, records: Sequence[Record], late: Callable[[], bool] | None = None) -> Read:
        """Return the readings of *records*; with *late*, maybe only of the first ones.

        A worker gets only the values. It returns only plain documents: sketches, and the ids that
        are in values, but no text. All other records are read here. Raises `SchemasAway`: as
        `Reader.read_all`.
        """
        drawn, recipe = None, self.reader.recipe_for(records)
        if recipe is not None and self.crew.workers:
            drawn = self.crew.read(self.sketcher, recipe, [each.value for each in records])
        if drawn is None:
            readings = self.reader.read_all(records, late)
            return Read(records[: len(readings)], readings)
        readings = self.reader.read_others(records, drawn.rows.tolist(), drawn.ids)
        return Read(records, readings, drawn)

    def sketch(self, read: Read, *, partition: int | None = None) -> Prepared:
        """Sketch the documents of a batch. Later steps do not use their texts.

        A text that breaks the sketcher becomes Malformed in the readings. *partition* is the number
        by which the index knows the input of all records; None: each record's own partition.
        """
        records, readings = read.records, read.readings
        if read.drawn is None:
            sketches = self._sketched(readings, partial(self.crew.sketch, self.sketcher))
        else:
            sketches = self._completed(readings, read.drawn)
        others = {row: each for row, each in enumerate(readings) if not isinstance(each, Document)}
        rows = [row for row in range(len(records)) if row not in others]
        documents = [records[row] for row in rows] if others else records
        batch = Batch(
            ids=[reading.id for reading in readings if isinstance(reading, Document)],
            partitions=_partitions(documents, partition),
            offsets=np.array([each.source.offset for each in documents], np.int64),
            timestamps=np.array([each.timestamp for each in documents], np.int64),
        )
        scopes = scopes_of(others, self.sketcher)
        return Prepared(records, others, rows, batch, sketches, scopes)

    def _completed(self, readings: list[Reading], drawn: Drawn) -> Sketches | None:
        """Sketch the documents that *drawn* does not have, and return all sketches in order."""
        there = [isinstance(each, Document) for each in readings]
        kept = np.flatnonzero(np.array(there, np.bool_)[drawn.rows])
        if len(kept) == len(drawn.rows) == sum(there):
            return drawn.sketches if len(kept) else None
        known = set(drawn.rows.tolist())
        rows = [row for row, document in enumerate(there) if document and row not in known]
        others = [readings[row] for row in rows]
        # In this process: the workers that did not sketch them would most likely fail again.
        sketches = self._sketched(others, partial(sketched, self.sketcher))
        for row, reading in zip(rows, others, strict=True):
            readings[row] = reading
        if sketches is None:
            return drawn.sketches.at(kept) if len(kept) else None
        rows = [row for row in rows if isinstance(readings[row], Document)]
        order = np.argsort(np.concatenate((drawn.rows[kept], np.array(rows, np.int64))))
        return Sketches.joined([drawn.sketches.at(kept), sketches]).at(order)

    def _sketched(self, readings: list[Reading], make: Make) -> Sketches | None:
        """Sketch the documents with *make*, which works as the sketcher does.

        A document that breaks it becomes Malformed in *readings*: it would raise again after every
        restart. Errors of the machine (memory, disk) are raised.
        """
        documents = [reading for reading in readings if isinstance(reading, Document)]
        if not documents:
            return None
        try:
            return make(documents)
        except (MemoryError, OSError):
            raise
        except Exception:
            broken = [row for row, each in enumerate(readings) if self._breaks(each)]
            if not broken:
                raise
            for row in broken:
                message = "the text cannot be sketched; please report it"
                readings[row] = Malformed(ErrorCode.INTERNAL, message, stage="sketch")
            return self._sketched(readings, make)

    def _breaks(self, reading: Reading) -> bool:
        if not isinstance(reading, Document):
            return False
        try:
            sketched(self.sketcher, [reading])  # here: a worker's error is no fault of the text
        except (MemoryError, OSError):
            raise
        except Exception:
            return True
        return False


def _partitions(documents: Sequence[Record], partition: int | None) -> I64:
    if partition is not None:
        return np.full(len(documents), partition, np.int64)
    return np.array([each.source.number for each in documents], np.int64)
