"""What should have come of it: the committed order, and a sequential model fed in that order.

The order is what the changelog's batch records say. They are read here with a few lines of
our own, not by the code under test.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.simulator.broker import Partition
from tests.simulator.process import CANDIDATES, DEAD, DUPLICATES, UNIQUE
from tests.simulator.texts import THRESHOLD, Input, sketch_of
from tests.simulator.world import FAR_FUTURE, Failure, Shape
from tests.support.model import SequentialModel

HEADER, DOCUMENT, BATCH, FORGET = 1, 2, 3, 4
NAMED, WRITER_BYTES = 2, 16
"""Version of a batch that begins with its writer's name, and how long that is."""
_BATCH, _SPAN = struct.Struct("<QQQqI"), struct.Struct("<Iqq")

Place = tuple[int, int]
"""Partition and offset of an input record."""
Found = tuple[str, float, int, Place]
"""A match: id, similarity, bands, place."""


@dataclass(frozen=True, slots=True)
class Told:
    """One batch as the changelog tells of it."""

    number: int
    first_ordinal: int
    next_ordinal: int
    spans: dict[int, tuple[int, int]]
    documents: list[int]
    """Ordinals of the document records before it."""
    forgotten: list[int]
    """Those of before that leave with it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the model says of one input record."""

    source: Input
    place: tuple[int, int, int]
    """Batch, partition, offset: the order of judgement."""
    topic: str
    verdict: str = ""
    matches: tuple[Found, ...] = ()


@dataclass(slots=True)
class History:
    """One task's whole life, as it should have been."""

    model: SequentialModel
    batches: list[Told] = field(default_factory=list)
    expected: dict[Place, Expected] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)
    """Next offset that was never judged."""
    inputs: dict[str, Input] = field(default_factory=dict)
    """What was judged, by its name."""


def read_batches(changelog: Partition) -> list[Told]:
    """Return the batches of a changelog partition, in order."""
    batches: list[Told] = []
    documents: list[int] = []
    forgotten: list[int] = []
    for count, (offset, value) in enumerate(changelog.committed(changelog.start)):
        kind = value[1]
        if (kind == HEADER) != (count == 0):
            raise Failure("changelog", f"offset {offset} holds a record of kind {kind}")
        if kind == DOCUMENT:
            documents.append(struct.unpack_from("<Q", value, 2)[0])
        elif kind == FORGET:
            forgotten += struct.unpack(f"<{len(value) // 8}Q", value[2:])
        elif kind == BATCH:
            body = value[2 + WRITER_BYTES * (value[0] == NAMED) :]
            number, first, after, _, count = _BATCH.unpack_from(body)
            tail = body[_BATCH.size :]
            spans = {p: (begin, end) for p, begin, end in _SPAN.iter_unpack(tail)}
            assert len(spans) == count
            batches.append(Told(number, first, after, spans, documents, forgotten))
            documents, forgotten = [], []
    if documents:
        raise Failure("changelog", f"documents {documents} without a batch record")
    return batches


def positions(changelog: Partition) -> dict[int, int]:
    """Return the next offset never judged, by partition, as the last batch says."""
    batches = read_batches(changelog)
    return {p: end for p, (_, end) in batches[-1].spans.items()} if batches else {}


def relive(
    changelog: Partition,
    inputs: Mapping[int, list[Input]],
    skipped: Mapping[tuple[int, int], int],
    shape: Shape,
    until: int | None = None,
) -> History:
    """Return what should have come of *inputs* in the committed order.

    Args:
        changelog: of one task.
        inputs: the records by partition, in order of offset.
        skipped: (partition, from) → to, where an operator accepted a jump.
        shape: of the world; some of its outputs may refuse a record of the far future.
        until: so many batches; None: all.
    """
    model = SequentialModel(threshold=THRESHOLD, max_candidates=CANDIDATES, cap=shape.cap)
    history = History(model, read_batches(changelog)[:until])
    for count, batch in enumerate(history.batches):
        if batch.number != count:
            raise Failure("changelog", f"batch {batch.number} where {count} was to come")
        if batch.first_ordinal != history.model.next_ordinal:
            raise Failure("changelog", f"batch {count} begins with ordinal {batch.first_ordinal}")
        _judge(history, batch, inputs, skipped, shape.strict)
        if batch.next_ordinal != history.model.next_ordinal:
            raise Failure("changelog", f"batch {count} ends with ordinal {batch.next_ordinal}")
        stored = [o for o in history.model.documents if o >= batch.first_ordinal]
        if batch.documents != stored:
            raise Failure("changelog", f"batch {count} stores {batch.documents}, not {stored}")
        gone = sorted(ordinal for ordinal in history.model.gone if ordinal < batch.first_ordinal)
        if batch.forgotten != gone:
            raise Failure("changelog", f"batch {count} forgets {batch.forgotten}, not {gone}")
        history.model.end_batch()
    return history


def _judge(
    history: History,
    batch: Told,
    inputs: Mapping[int, list[Input]],
    skipped: Mapping[tuple[int, int], int],
    strict: Sequence[str],
) -> None:
    for p, (begin, end) in sorted(batch.spans.items()):
        known = history.known.get(p, begin)
        if begin not in (known, skipped.get((p, known), known)):
            raise Failure(
                "changelog",
                f"batch {batch.number} judges {p} from {begin} to {end}, after {known} was reached",
            )
        history.known[p] = end
        for each in inputs[p]:
            if begin <= each.place[1] < end:
                place = (batch.number, *each.place)
                history.expected[each.place] = _expect(history, each, place, strict)


def _expect(
    history: History, each: Input, place: tuple[int, int, int], strict: Sequence[str]
) -> Expected:
    forwarded = each.kind in ("document", "passthrough", "tombstone")
    if each.record.timestamp == FAR_FUTURE and (UNIQUE if forwarded else DEAD) in strict:
        return Expected(each, place, DEAD, "refused")  # as if it had never been a document
    if each.kind == "tombstone":
        for other in history.inputs.values():
            if other.id == each.id:
                history.model.forget_id(other.name)
    if each.kind in ("passthrough", "tombstone"):
        return Expected(each, place, UNIQUE)
    if each.kind != "document":
        return Expected(each, place, DEAD, each.kind)
    history.inputs[each.name] = each
    verdict = history.model.judge(each.name, sketch_of(each.text), 0)
    if verdict.verdict == "unique":
        return Expected(each, place, UNIQUE)
    met = ((history.inputs[name], sim, bands) for name, sim, bands in verdict.matches)
    matches = tuple((other.id, sim, bands, other.place) for other, sim, bands in met)
    return Expected(each, place, DUPLICATES, verdict.verdict, matches)
