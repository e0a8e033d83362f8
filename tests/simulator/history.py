"""What should have come of it: the committed order, and a sequential model fed in that order.

The order is what the changelog's batch records say. They are read here with a few lines of
our own, not by the code under test.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamfilter.matching import forgetting
from streamfilter.matching.retention import Retention
from streamfilter.model import EVER, Window
from tests.simulator.broker import Partition
from tests.simulator.process import CANDIDATES, DEAD, DUPLICATES, UNIQUE
from tests.simulator.texts import THRESHOLD, Input, sketch_of
from tests.simulator.world import FAR_FUTURE, Failure, Shape
from tests.support.model import SequentialModel

HEADER, DOCUMENT, BATCH, FORGET = 1, 2, 3, 4
NAMED, AGED, WRITER_BYTES = 2, 3, 16
"""Versions of a batch that begins with its writer's name, and how long that is."""
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
    opens: Window | None = None
    horizon: int = 0
    time: int = -1
    """Of the stream, if the changelog tells it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the model says of one input record."""

    source: Input
    place: tuple[int, int, int]
    """Batch, partition, offset: the order of judgement."""
    topic: str
    verdict: str = ""
    matches: tuple[Found, ...] = ()
    horizon: int = 0
    """From where on documents were remembered when it was judged."""


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
    retention: Retention | None = None
    """What was in force all the time; None: it was changed."""


def read_batches(changelog: Partition) -> list[Told]:
    """Return the batches of a changelog partition, in order, also those that were cut off."""
    batches: list[Told] = []
    documents: list[int] = []
    forgotten: list[int] = []
    opens: Window | None = None
    for count, (offset, value) in enumerate(changelog.committed(0)):
        kind = value[1]
        if count == 0 and kind != HEADER:
            raise Failure("changelog", f"offset {offset} holds a record of kind {kind}")
        if kind == HEADER:
            told = json.loads(value[2:]).get("window")
            if documents or opens or (told is None) != (count == 0):
                raise Failure("changelog", f"offset {offset} holds a header with window {told}")
            opens = Window(*told, offset) if told else None
        elif kind == DOCUMENT:
            documents.append(struct.unpack_from("<Q", value, 2)[0])
        elif kind == FORGET:
            forgotten += struct.unpack(f"<{len(value) // 8}Q", value[2:])
        elif kind == BATCH:
            body = value[2 + WRITER_BYTES * (value[0] in (NAMED, AGED)) :]
            number, first, after, time, count = _BATCH.unpack_from(body)
            end = _BATCH.size + count * _SPAN.size
            spans = {p: (a, b) for p, a, b in _SPAN.iter_unpack(body[_BATCH.size : end])}
            horizon = int.from_bytes(body[end:], "little")
            assert len(spans) == count
            time = time if value[0] == AGED else -1
            age = opens, horizon, time
            batches.append(Told(number, first, after, spans, documents, forgotten, *age))
            documents, forgotten, opens = [], [], None
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
        shape: of the world: what its outputs refuse, and how much is remembered.
        until: so many batches; None: all.
    """
    model = SequentialModel(threshold=THRESHOLD, max_candidates=CANDIDATES, cap=shape.cap)
    retention = shape.retentions[0] if len(shape.retentions) == 1 else None
    history = History(model, read_batches(changelog)[:until], retention=retention)
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
        oldest = windows_at(history.batches[:count])[
            0
        ].first_ordinal  # before it nobody is found by an id
        gone = sorted(o for o in history.model.gone if oldest <= o < batch.first_ordinal)
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
    _forget(history, batch, inputs)
    for p, (begin, end) in sorted(batch.spans.items()):
        known = history.known.get(p, 0)
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


def _forget(history: History, batch: Told, inputs: Mapping[int, list[Input]]) -> None:
    """Check what a batch says of what is forgotten, and let the model forget it."""
    stamps = [
        each.record.timestamp
        for p, (begin, end) in batch.spans.items()
        for each in inputs[p]
        if begin <= each.place[1] < end
    ]
    check_age(batch, history.batches[: batch.number], stamps, history.retention)
    history.model.forget(batch.horizon, opens=batch.opens is not None)


def check_age(
    batch: Told, before: Sequence[Told], stamps: Sequence[int], retention: Retention | None
) -> None:
    """Check what a batch of records with *stamps* says of what is forgotten.

    The *retention* was in force all the time; None: it was changed.
    """
    windows = sum(each.opens is not None for each in before)
    last = before[-1] if before else Told(-1, 0, 0, {}, [], [])
    untold = batch.time < 0 and not (windows or last.horizon)
    if batch.horizon < last.horizon or (batch.time < last.time and not untold):
        raise Failure("changelog", f"batch {batch.number} goes back in time")
    undated = any(stamp < 0 or stamp > batch.time for stamp in stamps)  # the clock counts
    told = last.time >= 0 and not untold
    if told and not undated and batch.time not in (last.time, *stamps):
        raise Failure("changelog", f"batch {batch.number} is of the time {batch.time}: of nobody")
    wanted = last.horizon
    if retention is not None and stamps:
        wanted = max(wanted, _oldest(batch, before, retention))
    if retention is not None and batch.horizon != wanted:
        raise Failure("changelog", f"batch {batch.number} remembers from {batch.horizon} on, "
                      f"not from {wanted}")  # fmt: skip
    opens, first = batch.opens, batch.first_ordinal
    if opens is not None and opens != Window(windows + 1, first, batch.number, opens.offset):
        raise Failure("changelog", f"batch {batch.number} begins {opens}")


def _oldest(batch: Told, before: Sequence[Told], retention: Retention) -> int:
    """Return the first ordinal that the retention leaves, as it is written in the README."""
    count = batch.first_ordinal - retention.documents if retention.documents else 0
    begins = [each.number for each in (*before, batch) if each.opens is not None]
    if retention.time is None or not begins or begins[0] >= batch.number:
        return max(0, count)
    timed = before[begins[0] :]
    young = [each for each in timed if each.time > batch.time - retention.time]
    first = young[0].first_ordinal if young else batch.first_ordinal
    return max(count, first if not young or young[0] is not timed[0] else 0)


def windows_at(batches: Sequence[Told]) -> tuple[Window, ...]:
    """Return which windows are alive after *batches*."""
    opened = [EVER, *(batch.opens for batch in batches if batch.opens)]
    horizon = batches[-1].horizon if batches else 0
    gone = sum(each.first_ordinal <= horizon for each in opened[1:])
    return tuple(opened[gone:])


def _expect(
    history: History, each: Input, place: tuple[int, int, int], strict: Sequence[str]
) -> Expected:
    forwarded = each.kind in ("document", "passthrough", "tombstone")
    if each.record.timestamp == FAR_FUTURE and (UNIQUE if forwarded else DEAD) in strict:
        return Expected(each, place, DEAD, "refused")  # as if it had never been a document
    if each.kind == "tombstone":
        names = [other.name for other in history.inputs.values() if other.id == each.id]
        history.model.forget_id(*names, most=forgetting.FORGET_MAX)
    if each.kind in ("passthrough", "tombstone"):
        return Expected(each, place, UNIQUE)
    if each.kind != "document":
        return Expected(each, place, DEAD, each.kind)
    history.inputs[each.name] = each
    horizon = history.model.horizon
    verdict = history.model.judge(each.name, sketch_of(each.text), 0)
    if verdict.verdict == "unique":
        return Expected(each, place, UNIQUE, horizon=horizon)
    met = ((history.inputs[name], sim, bands) for name, sim, bands in verdict.matches)
    matches = tuple((other.id, sim, bands, other.place) for other, sim, bands in met)
    return Expected(each, place, DUPLICATES, verdict.verdict, matches, horizon)
