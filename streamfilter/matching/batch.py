"""One micro-batch from records to outcomes: the same path for `run` and `filter`.

`prepare` (sketching) needs no index, so the next batch may be prepared while this one is written.
`decide` reads the index and changes nothing. It needs only the value that `prepare` returns. The
caller acts on the outcomes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamfilter.index.ages import Ages
from streamfilter.index.protocol import Additions, Index
from streamfilter.matching.forgetting import NOTHING, CutBatch, Forgetting, Forgotten, Tombstone
from streamfilter.matching.pipeline import Batch, Judgement, Locate, judge
from streamfilter.matching.policy import MatchPolicy
from streamfilter.matching.retention import EVERYTHING, Extent
from streamfilter.model import (
    Decision,
    Document,
    ErrorCode,
    Malformed,
    Reading,
    Record,
    Unjudged,
)
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Drawn, Sketcher, Sketches


@dataclass(frozen=True, slots=True)
class Rules:
    """How the documents of one index are judged."""

    policy: MatchPolicy
    locate: Locate
    """Turns the two numbers by which the index stores a source into that source."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that was read and sketched. Only records that are no documents keep their reading."""

    records: Sequence[Record]
    others: dict[int, Unjudged | Malformed]
    """Row of ``records`` → its reading, for records that are not judged."""
    rows: Sequence[int]
    """The rows of ``records`` that are documents, rising."""
    batch: Batch
    sketches: Sketches | None
    """None if there are no documents to judge."""
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Seconds of preparation by stage; they may overlap with the commit of the batch before."""

    @property
    def rejected(self) -> tuple[int, str]:
        """Return how many records could not be read, and the place and error of the last one."""
        broken = [(row, each) for row, each in self.others.items() if isinstance(each, Malformed)]
        if not broken:
            return 0, ""
        row, why = broken[-1]
        at = self.records[row].source
        return len(broken), f"{at.topic}/{at.partition} at {at.offset} ({why.code}: {why.message})"

    @property
    def tombstones(self) -> list[Tombstone]:
        """Return the tombstones (requests to forget documents), in the order of judgement."""
        return [
            Tombstone(row, bisect_left(self.rows, row), next(iter(other.forgets), None))
            for row, other in sorted(self.others.items())
            if isinstance(other, Unjudged) and other.forgets is not None
        ]

    @property
    def ids(self) -> dict[int, str]:
        """Return the id of each document, by its row of ``records``."""
        return dict(zip(self.rows, self.batch.ids, strict=True))


@dataclass(frozen=True, slots=True)
class Decided:
    """A batch with an outcome for every record."""

    prepared: Prepared
    extent: Extent
    """The extent with which it was judged."""
    judgement: Judgement | None
    outcomes: Sequence[Decision | Unjudged | Malformed]
    """One for each record, in their order."""
    forgotten: Forgotten = NOTHING
    """Documents that its tombstones forget; none in a batch that is read again."""

    @property
    def ages(self) -> Ages | None:
        """Return when each of its documents arrived; None if the batch's mark does not store it."""
        extent, batch = self.extent, self.prepared.batch
        if extent.horizons is None or not len(extent.horizons):
            return None
        return Ages(batch.partitions, batch.offsets, extent.horizons, extent.times)

    @property
    def additions(self) -> Additions | None:
        """Return the documents that the index should add."""
        return self.judgement.additions if self.judgement else None


def prepare(
    records: Sequence[Record],
    readings: list[Reading],
    sketcher: Sketcher,
    *,
    partition: int | None = None,
    drawn: Drawn | None = None,
) -> Prepared:
    """Sketch the documents of a batch. Later steps do not use their texts.

    Args:
        records: Records in the order of judgement.
        readings: One for each; a text that breaks the sketcher becomes Malformed here.
        sketcher: Sketcher with the index's scheme and seed.
        partition: Number by which the index knows the input of all *records*; None: each record's
            own partition.
        drawn: Sketches that were made already, for readings without a text.
    """
    if drawn is None:
        sketches = _sketch(readings, sketcher.sketch, sketcher)
    else:
        sketches = _completed(drawn, readings, sketcher)
    rows = [row for row, reading in enumerate(readings) if isinstance(reading, Document)]
    documents = [records[row] for row in rows]
    batch = Batch(
        ids=[reading.id for reading in readings if isinstance(reading, Document)],
        partitions=_partitions(documents, partition),
        offsets=np.array([each.source.offset for each in documents], np.int64),
        timestamps=np.array([each.timestamp for each in documents], np.int64),
    )
    others = {row: each for row, each in enumerate(readings) if not isinstance(each, Document)}
    return Prepared(records, others, rows, batch, sketches)


def _partitions(documents: Sequence[Record], partition: int | None) -> I64:
    if partition is not None:
        return np.full(len(documents), partition, np.int64)
    return np.array([each.source.partition for each in documents], np.int64)


def _completed(drawn: Drawn, readings: list[Reading], sketcher: Sketcher) -> Sketches | None:
    """Sketch the documents that *drawn* does not have, and return all sketches in order."""
    there = [isinstance(each, Document) for each in readings]
    kept = np.flatnonzero(np.array(there, np.bool_)[drawn.rows])
    if len(kept) == len(drawn.rows) == sum(there):
        return drawn.sketches if len(kept) else None
    known = set(drawn.rows.tolist())
    rows = [row for row, document in enumerate(there) if document and row not in known]
    others = [readings[row] for row in rows]
    # In this process: the workers that did not sketch them would most likely fail again.
    sketches = _sketch(others, sketcher.alone, sketcher)
    for row, reading in zip(rows, others, strict=True):
        readings[row] = reading
    if sketches is None:
        return drawn.sketches.at(kept) if len(kept) else None
    rows = [row for row in rows if isinstance(readings[row], Document)]
    order = np.argsort(np.concatenate((drawn.rows[kept], np.array(rows, np.int64))))
    return Sketches.joined([drawn.sketches.at(kept), sketches]).at(order)


def _sketch(
    readings: list[Reading], make: Callable[[Sequence[str]], Sketches], sketcher: Sketcher
) -> Sketches | None:
    """Sketch the documents with *make*, which works as *sketcher* does.

    A document that breaks the sketcher becomes Malformed in *readings*: it would raise again after
    every restart. Errors of the machine (memory, disk) are raised.
    """
    texts = [reading.text for reading in readings if isinstance(reading, Document)]
    if not texts:
        return None
    try:
        return make(texts)
    except (MemoryError, OSError):
        raise
    except Exception:
        broken = [row for row, each in enumerate(readings) if _breaks(each, sketcher)]
        if not broken:
            raise
        for row in broken:
            message = "the text cannot be sketched; please report it"
            readings[row] = Malformed(ErrorCode.INTERNAL, message, stage="sketch")
        return _sketch(readings, make, sketcher)


def _breaks(reading: Reading, sketcher: Sketcher) -> bool:
    if not isinstance(reading, Document):
        return False
    try:
        sketcher.alone([reading.text])  # in this process: a worker's error is no fault of the text
    except (MemoryError, OSError):
        raise
    except Exception:
        return True
    return False


def decide(
    prepared: Prepared,
    index: Index,
    rules: Rules,
    *,
    number: int,
    first_ordinal: int,
    reread: bool,
    extent: Extent = EVERYTHING,
) -> Decided:
    """Judge the documents of *prepared* with *extent*; read *index*, change nothing.

    A re-read batch is judged with what was remembered when it was first judged, and adds nothing.

    Raises:
        CutBatch: The batch must end early; decide its first records by themselves.
    """
    judgement, batch = None, prepared.batch
    if extent.cut is not None:
        raise CutBatch(prepared.rows[extent.cut])
    tombstones = [] if reread else prepared.tombstones
    forgetting = Forgetting.of(
        tombstones, batch.ids, index, first_ordinal=first_ordinal, records=prepared.rows
    )
    if prepared.sketches is not None:
        judgement = judge(
            batch,
            prepared.sketches,
            index=index,
            policy=rules.policy,
            locate=rules.locate,
            number=number,
            first_ordinal=first_ordinal,
            as_of=index.marks_covering(batch.partitions, batch.offsets) if reread else None,
            extent=extent,
            forgetting=forgetting,
        )
    unique = judgement.unique if judgement else np.zeros(0, np.bool_)
    outcomes: dict[int, Decision | Unjudged | Malformed] = dict(prepared.others)
    if judgement is not None:
        outcomes |= zip(prepared.rows, judgement.decisions, strict=True)
    each = [outcomes[row] for row in range(len(prepared.records))]
    horizons = np.append(extent.since(len(batch.ids)), extent.horizon)
    forgotten = forgetting.forgotten(unique, horizons)
    return Decided(prepared, extent, judgement, each, forgotten)


def forgets_first(ordinals: I64, extent: Extent) -> Decided:
    """Return a batch without records that forgets *ordinals*; then the tombstone is read again."""
    nothing = Batch([], *(np.zeros((3, 0), np.int64)))
    return Decided(Prepared([], {}, [], nothing, None), extent, None, [], Forgotten(ordinals))
