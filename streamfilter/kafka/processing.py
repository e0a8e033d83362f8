"""A micro-batch at the edge of Kafka: what came in is read, what was decided is written.

Between the two stands `batch`, the same for `run` and `filter`. `read` needs no index, and
`written` puts verdicts on records and knows nothing of the index either.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamfilter.batch import Decided
from streamfilter.documents import Reader
from streamfilter.kafka.outgoing import Forwarder
from streamfilter.kafka.ports import Outgoing
from streamfilter.model import Decision, Reading, Record


def read(records: Sequence[Record], reader: Reader, forwarder: Forwarder) -> list[Reading]:
    """Return what each record is; also one that could not be forwarded is Malformed."""
    return [forwarder.check(record, reader.read(record)) for record in records]


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
