"""A micro-batch at the edge of Kafka: what came in is read, what was decided is written.

Between the two stands `batch`, the same for `run` and `filter`. `read` needs no index, and
`written` puts verdicts on records and knows nothing of the index either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamfilter.documents.reader import Reader
from streamfilter.engine.changelog import remembered_bytes
from streamfilter.engine.outgoing import Forwarder
from streamfilter.engine.ports import Outgoing
from streamfilter.matching.batch import Decided, Prepared, prepare
from streamfilter.model import Decision, Document, ErrorCode, Malformed, Reading, Record
from streamfilter.similarity.sketch import Sketcher

NOTHING_REFUSED: Mapping[tuple[int, int], str] = {}


def read(
    records: Sequence[Record],
    reader: Reader,
    forwarder: Forwarder,
    refused: Mapping[tuple[int, int], str] = NOTHING_REFUSED,
) -> list[Reading]:
    """Return what each record is; also one that cannot be forwarded is Malformed.

    *refused* says, by partition and offset, why a topic takes none of a record.
    """
    readings = [forwarder.check(record, reader.read(record)) for record in records]
    if refused:
        for row, record in enumerate(records):
            if why := refused.get((record.source.partition, record.source.offset)):
                readings[row] = _refused(readings[row], why)
    return readings


def _refused(reading: Reading, why: str) -> Malformed:
    """Return the verdict on a record that a topic refuses; if it was its letter, tell both."""
    if isinstance(reading, Malformed) and reading.code is not ErrorCode.REFUSED:
        why = f"{reading.code.value}: {reading.message}; its letter: {why}"
    return Malformed(ErrorCode.REFUSED, why, stage="forward")


def fitting(
    records: Sequence[Record], readings: list[Reading], sketcher: Sketcher, forwarder: Forwarder
) -> Prepared:
    """Sketch the documents of a batch; one that the changelog cannot take becomes Malformed.

    Of a text it holds a sample, but of a record with fields all that is compared.
    """
    first = prepare(records, readings, sketcher)
    if first.sketches is None:
        return first
    for row, size in zip(
        first.rows, remembered_bytes(first.batch.ids, first.sketches), strict=True
    ):
        readings[row] = forwarder.check_remembered(readings[row], size)
    fits = all(isinstance(readings[row], Document) for row in first.rows)
    return first if fits else prepare(records, readings, sketcher)


def written(decided: Decided, forwarder: Forwarder) -> list[Outgoing]:
    """Return the records that leave, in the order of judgement."""
    records, ids = decided.prepared.records, decided.prepared.ids
    leaving: list[Outgoing | None] = []
    for row, (record, outcome) in enumerate(zip(records, decided.outcomes, strict=True)):
        if isinstance(outcome, Decision):
            leaving.append(forwarder.judged(record, ids[row], outcome))
        else:
            leaving.append(forwarder.unjudged(record, outcome))
    return [each for each in leaving if each is not None]
