"""What should have come of it: the committed order, and a sequential model fed in that order.

The order is what the changelog's batch records say. They are read here with a few lines of
our own, not by the code under test.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

from streamfilter.matching import forgetting
from streamfilter.matching.law import Bounds, Law, Settings
from streamfilter.matching.retention import Retention
from streamfilter.model import EVER, Window
from tests.simulator.broker import Partition
from tests.simulator.process import CANDIDATES, DEAD, DUPLICATES, UNIQUE
from tests.simulator.texts import THRESHOLD, Input, sketch_of
from tests.simulator.world import FAR_FUTURE, Failure, Shape
from tests.support.arrivals import arrival

HEADER, DOCUMENT, BATCH, FORGET = 1, 2, 3, 4
NAMED, AGED, DATED, WRITER_BYTES = 2, 3, 4, 16
"""Versions of a batch that begins with its writer's name, and how long that is."""
ANEW = 5
"""Version of a header that begins or ends what is written anew."""
NUMBER_MAX = 1 << 63
_BATCH, _SPAN = struct.Struct("<QQQqI"), struct.Struct("<Iqq")

Place = tuple[int, int]
"""Partition and offset of an input record."""
Found = tuple[str, float, int, Place]
"""A match: id, similarity, bands, place."""


@dataclass(frozen=True, slots=True)
class Age:
    """What the changelog tells of one document."""

    place: Place
    horizon: int
    time: int


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
    ages: tuple[Age, ...] = ()
    """Of its documents, if the changelog tells them."""


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

    model: Law
    batches: list[Told] = field(default_factory=list)
    expected: dict[Place, Expected] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)
    """Next offset that was never judged."""
    inputs: dict[str, Input] = field(default_factory=dict)
    """What was judged, by its name."""
    retention: Retention | None = None
    """What was in force all the time; None: it was changed."""
    anew: bool = False
    """Whether the changelog was written anew."""


def read_batches(changelog: Partition) -> list[Told]:
    """Return the batches of a changelog partition, in order, also those that were cut off."""
    batches: list[Told] = []
    documents: list[int] = []
    forgotten: list[int] = []
    opens: Window | None = None
    anew: int | None = None
    """The batch that comes next of what is written anew; -1: any, None: nothing is."""
    for count, (offset, value) in enumerate(changelog.committed(0)):
        kind = value[1]
        if count == 0 and kind != HEADER:
            raise Failure("changelog", f"offset {offset} holds a record of kind {kind}")
        if value[0] == ANEW and kind == HEADER:
            begins = json.loads(value[2:])["anew"] == "begin"
            if not begins and anew != len(batches):
                raise Failure("changelog", f"what is written anew ends at {anew}, at {offset}")
            anew, documents, opens = -1 if begins else None, [], None
        elif kind == HEADER and anew is not None:
            pass
        elif kind == HEADER:
            told = json.loads(value[2:]).get("window")
            if documents or opens or (told is None) != (count == 0):
                raise Failure("changelog", f"offset {offset} holds a header with window {told}")
            opens = Window(*told, offset) if told else None
        elif kind == DOCUMENT:
            documents.append(struct.unpack_from("<Q", value, 2)[0])
        elif kind == FORGET:
            forgotten += struct.unpack(f"<{len(value) // 8}Q", value[2:])
        elif kind == BATCH:
            body = value[2 + WRITER_BYTES * (value[0] in (NAMED, AGED, DATED)) :]
            number, first, after, time, count = _BATCH.unpack_from(body)
            end = _BATCH.size + count * _SPAN.size
            spans = {p: (a, b) for p, a, b in _SPAN.iter_unpack(body[_BATCH.size : end])}
            horizon = int.from_bytes(body[end : end + 8], "little")
            assert len(spans) == count
            time = time if value[0] in (AGED, DATED) else -1
            age = opens, horizon, time, _ages(body[end + 8 :], spans, after - first)
            batch = Told(number, first, after, spans, documents, forgotten, *age)
            if anew is not None and number < len(batches):
                _check_anew(batch, batches[number], anew)
                anew = number + 1
            else:
                batches.append(batch)
                anew = None
            documents, forgotten, opens = [], [], None
    if documents:
        raise Failure("changelog", f"documents {documents} without a batch record")
    return batches


def anew_at(changelog: Partition, window: int) -> int:
    """Return where the last part that was written anew, and ended, begins with *window*; or 0."""
    begun: list[tuple[int, int]] = []
    whole: list[tuple[int, int]] = []
    for offset, value in changelog.committed(0):
        if value[1] == HEADER:
            told = json.loads(value[2:])
            if told.get("anew") == "begin":
                begun = []
            begun.append((offset, (told.get("window") or [0])[0]))
            whole = begun if told.get("anew") == "end" else whole
    return next((offset for offset, number in reversed(whole[:-1]) if number <= window), 0)


def _check_anew(batch: Told, told: Told, following: int) -> None:
    """Hold a batch that is written anew against the one of before."""
    spans = {p: span for p, span in told.spans.items() if span[0] < span[1]}
    same = replace(batch, opens=told.opens, spans=spans, forgotten=told.forgotten)
    if following not in (-1, batch.number) or same != replace(told, spans=spans):
        raise Failure("changelog", f"batch {told} is written anew as {batch}")
    if batch.spans != spans:
        raise Failure("changelog", f"batch {told} is written anew with {batch.spans}")


def _ages(data: bytes, spans: Mapping[int, tuple[int, int]], documents: int) -> tuple[Age, ...]:
    """Read columns of LEB128 differences: documents of each span, offsets, horizons, times."""
    if not data:
        return ()
    numbers, shift = [0], 0
    for byte in data:
        numbers[-1] |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(0)
            shift = 0
    holding = [(p, a) for p, (a, b) in sorted(spans.items()) if a < b]
    assert numbers.pop() == 0
    assert len(numbers) == len(holding) + 3 * documents
    places: list[Place] = []
    steps = iter(numbers[len(holding) :])
    for (p, offset), count in zip(holding, numbers, strict=False):
        for _ in range(count):
            offset += next(steps)
            places.append((p, offset))
    horizons, times = (accumulate(islice(steps, documents)) for _ in range(2))
    horizons, times = list(horizons), list(times)
    return tuple(map(Age, places, horizons, times))


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
    model = Law(Settings(threshold=THRESHOLD, max_candidates=CANDIDATES, bucket_cap=shape.cap))
    retention = shape.retentions[0] if len(shape.retentions) == 1 else None
    anew = anew_at(changelog, NUMBER_MAX) > 0
    history = History(model, read_batches(changelog)[:until], retention=retention, anew=anew)
    for count, batch in enumerate(history.batches):
        if batch.number != count:
            raise Failure("changelog", f"batch {batch.number} where {count} was to come")
        if batch.first_ordinal != history.model.next_ordinal:
            raise Failure("changelog", f"batch {count} begins with ordinal {batch.first_ordinal}")
        gone = _judge(history, batch, inputs, skipped, shape.strict)
        if batch.next_ordinal != history.model.next_ordinal:
            raise Failure("changelog", f"batch {count} ends with ordinal {batch.next_ordinal}")
        stored = [o for o in history.model.documents if o >= batch.first_ordinal]
        if batch.documents != stored:
            raise Failure("changelog", f"batch {count} stores {batch.documents}, not {stored}")
        oldest = windows_at(history.batches[:count])[
            0
        ].first_ordinal  # before it nobody is found by an id
        gone = sorted(o for o in gone if oldest <= o < batch.first_ordinal)
        if batch.forgotten != gone:
            raise Failure("changelog", f"batch {count} forgets {batch.forgotten}, not {gone}")
    return history


def _judge(
    history: History,
    batch: Told,
    inputs: Mapping[int, list[Input]],
    skipped: Mapping[tuple[int, int], int],
    strict: Sequence[str],
) -> list[int]:
    """Let the model judge a batch; return which documents it forgets."""
    gone = _forget_in_part(history, batch, inputs)
    aging = Aging(batch, history.batches[: batch.number], history.model, history.retention)
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
                aging.record(each.record.timestamp)
                gone += _forget(history, each, strict)
                history.expected[each.place] = _expect(history, each, place, strict, aging)
    aging.end()
    return gone


def _is_refused(each: Input, strict: Sequence[str]) -> bool:
    forwarded = each.kind in ("document", "passthrough", "tombstone")
    return each.record.timestamp == FAR_FUTURE and (UNIQUE if forwarded else DEAD) in strict


def _forget(history: History, each: Input, strict: Sequence[str]) -> list[int]:
    if each.kind != "tombstone" or _is_refused(each, strict):
        return []
    return history.model.forget_id(*_names(history, each))


def _names(history: History, tombstone: Input) -> list[str]:
    return [other.name for other in history.inputs.values() if other.id == tombstone.id]


def _forget_in_part(history: History, batch: Told, inputs: Mapping[int, list[Input]]) -> list[int]:
    """Take away what a batch without records forgets, for a tombstone that comes next.

    That names more than `FORGET_MAX` documents, and the batch forgets the oldest.
    """
    judged = any(begin < end for begin, end in batch.spans.values())
    if judged or not batch.forgotten:
        return []
    model, coming = history.model, []
    oldest, *_ = windows_at(history.batches[: batch.number])
    for p, (begin, _) in batch.spans.items():
        following = next((each for each in inputs[p] if each.place[1] >= begin), None)
        if following is not None and following.kind == "tombstone":
            names = _names(history, following)
            theirs = [o for o, each in model.documents.items() if each.id in names]
            theirs = sorted(o for o in theirs if o >= oldest.first_ordinal)
            if len(theirs) > forgetting.FORGET_MAX:
                coming.append(theirs[: forgetting.FORGET_MAX])
    if batch.forgotten not in coming:
        told = f"forgets {batch.forgotten}, and no tombstone that comes next asks for it"
        raise Failure("changelog", f"batch {batch.number} {told}")
    return model.forget_id(*(model.documents[ordinal].id for ordinal in batch.forgotten))


class Aging:
    """What a batch says of what is forgotten, held against one record at a time."""

    def __init__(
        self,
        batch: Told,
        before: Sequence[Told],
        model: Law,
        retention: Retention | None,
    ) -> None:
        """Begin a batch; the *retention* was in force all the time. None: it was changed."""
        self._batch, self._model, self._retention = batch, model, retention
        self._memory = retention and Bounds(retention.documents, retention.time, retention.least)
        windows = sum(each.opens is not None for each in before)
        last = before[-1] if before else Told(-1, 0, 0, {}, [], [])
        untold = batch.time < 0 and not (windows or last.horizon)
        if batch.horizon < last.horizon or (batch.time < last.time and not untold):
            raise self._wrong("goes back in time")
        self._told = last.time >= 0 and not untold
        self._time, self._stamps = last.time, {last.time}
        self._records, self._undated = 0, False
        opens, first = batch.opens, batch.first_ordinal
        if opens is not None and opens != Window(windows + 1, first, batch.number, opens.offset):
            raise self._wrong(f"begins {opens}")
        self._ages = list(batch.ages)

    def _wrong(self, what: str) -> Failure:
        return Failure("changelog", f"batch {self._batch.number} {what}")

    def record(self, stamp: int) -> None:
        """Take the next record, of whatever kind."""
        self._records += 1
        self._stamps.add(stamp)
        self._undated |= stamp < 0 or stamp > self._batch.time  # the clock counts

    def _check_time(self, time: int) -> None:
        newest = max(self._stamps)
        if self._told and not self._undated and time != newest:
            raise self._wrong(f"is of the time {time}, where the newest record is of {newest}")
        if time < self._time:
            raise self._wrong(f"goes back in time, from {self._time} to {time}")
        self._time = time

    def document(self, place: Place) -> None:
        """Take the last record for a document, which is about to be judged."""
        model, first = self._model, self._batch.first_ordinal == self._model.next_ordinal
        begins = first and self._batch.opens is not None
        if not self._batch.ages:
            if self._batch.time >= 0 or (self._retention and self._retention.limited):
                raise self._wrong("does not say when its documents came")
            model.forget(model.horizon, opens=begins)
            return
        age = self._ages.pop(0)
        if age.place != place:
            raise self._wrong(f"tells of {age}, where {place} was judged")
        self._check_time(age.time)
        if self._memory is None:
            model.forget(age.horizon, opens=begins)
        elif model.arrive(age.time, self._memory) != begins:
            raise self._wrong(f"begins {self._batch.opens}; the model differs at {place}")
        if model.horizon != age.horizon:
            raise self._wrong(f"judges {place} with the horizon {age.horizon}, not {model.horizon}")

    def end(self) -> None:
        """Check what is forgotten after the batch."""
        batch, model = self._batch, self._model
        if not self._records:
            pass  # without records nothing ages
        elif self._memory is None:
            model.forget(batch.horizon, opens=False)
        else:
            self._check_time(max(batch.time, self._time))
            model.pass_time(self._time, self._memory)
        if batch.horizon != model.horizon:
            raise self._wrong(f"remembers from {batch.horizon} on, not from {model.horizon}")


def windows_at(batches: Sequence[Told]) -> tuple[Window, ...]:
    """Return which windows are alive after *batches*."""
    opened = [EVER, *(batch.opens for batch in batches if batch.opens)]
    horizon = batches[-1].horizon if batches else 0
    gone = sum(each.first_ordinal <= horizon for each in opened[1:])
    return tuple(opened[gone:])


def _expect(
    history: History,
    each: Input,
    place: tuple[int, int, int],
    strict: Sequence[str],
    aging: Aging,
) -> Expected:
    if _is_refused(each, strict):
        return Expected(each, place, DEAD, "refused")  # as if it had never been a document
    if each.kind in ("passthrough", "tombstone"):
        return Expected(each, place, UNIQUE)
    if each.kind != "document":
        return Expected(each, place, DEAD, each.kind)
    history.inputs[each.name] = each
    aging.document(each.place)
    horizon = history.model.horizon
    verdict = history.model.judge(arrival(each.name, sketch_of(each.text)))
    if verdict.verdict == "unique":
        return Expected(each, place, UNIQUE, horizon=horizon)
    met = ((history.inputs[name], sim, bands) for name, sim, bands in verdict.matches)
    matches = tuple((other.id, sim, bands, other.place) for other, sim, bands in met)
    return Expected(each, place, DUPLICATES, verdict.verdict, matches, horizon)
