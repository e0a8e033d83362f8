"""One task's life as it should have been: the law, fed in the order that its changelog says."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from streamfilter.matching.blocking import forgetting
from streamfilter.matching.blocking.retention import Retention
from streamfilter.matching.law import Arrival, Bounds, Law, Settings
from streamfilter.model import Record, Window
from tests.support.values import replace
from tests.truth.changelog import (
    NUMBER_MAX,
    SEEDS_FROM,
    Batch,
    Failure,
    Log,
    Place,
    anew_at,
    read_batches,
    windows_at,
)

Found = tuple[str, float, int, Place]
"""A match: id, similarity, bands, place."""
UNIQUE, DUPLICATES, DEAD = "unique", "duplicates", "dead_letter"


@dataclass(frozen=True, slots=True)
class Input:
    """One input record, and what it is: known because we wrote it, not because we read it."""

    record: Record
    kind: str
    """``document``, ``short`` (unjudged, with an ordinal), ``passthrough``, ``tombstone``, or the
    code of a dead letter; ``refused``: no output takes its timestamp."""
    name: str
    """Its own: no other record has it."""
    id: str
    """Of a document or an empty text, which may come again; or whose documents are forgotten."""
    text: str = ""
    values: tuple[str | None, ...] = ()
    """What is compared beside it, as canonical strings."""
    scope: bytes = b""
    """The scope in which it forgets, as the law names it; empty: all scopes."""

    @property
    def place(self) -> Place:
        return self.record.source.partition, self.record.source.offset


@dataclass(frozen=True, slots=True)
class Expected:
    """What the law says of one input record."""

    source: Input
    order: tuple[int, int, int]
    """Batch, partition, offset: the order of judgement."""
    topic: str
    verdict: str = ""
    """Of a duplicate; a dead letter's code."""
    matches: tuple[Found, ...] = ()
    ordinal: int = -1
    """Of a document."""
    horizon: int = 0
    """Documents below it were forgotten, or too old to match, when it was judged."""


Arrivals = Callable[[Sequence[Input]], Iterable[Arrival]]
"""Makes the law's documents of inputs, each under its name."""


@dataclass(slots=True)
class History:
    """One task's whole life; `follow` may be called again for more."""

    arrivals: Arrivals
    settings: Settings = field(default_factory=Settings)
    retention: Retention | None = None
    """What was in force all the time; None: it was changed."""
    skipped: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(partition, from) → to, where an operator accepted a jump."""
    refused: frozenset[str] = frozenset()
    """Names of records that outputs refuse after their verdict: a judge forgets them then."""
    law: Law = field(init=False)
    batches: list[Batch] = field(default_factory=list, init=False)
    expected: dict[Place, Expected] = field(default_factory=dict, init=False)
    known: dict[int, int] = field(default_factory=dict, init=False)
    """Next offset that was never judged, by partition."""
    judged: dict[str, Input] = field(default_factory=dict, init=False)
    """Documents by their names."""
    anew: bool = field(default=False, init=False)
    """Whether the changelog was written anew."""
    _names: dict[str, list[str]] = field(default_factory=dict, init=False)
    _forgetful: bool = field(default=False, init=False)
    _again: Callable[[History, int], None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.law = Law(self.settings)

    @property
    def _forgetting(self) -> tuple[str, ...]:
        """Return the kinds of records that forget the documents of their id."""
        updates = self.settings.known_id == "update"
        return ("tombstone", *(("document", "short", "passthrough") if updates else ()))

    def standing_at(self, batches: int) -> History:
        """Return what it was after so many batches: documents that went since are in it."""
        if not self._forgetful or batches == len(self.batches) or self._again is None:
            return self
        then = History(self.arrivals, self.settings, self.retention, self.skipped, self.refused)
        self._again(then, batches)
        return then

    def follow(
        self, changelog: Log, inputs: Mapping[int, Sequence[Input]], until: int | None = None
    ) -> History:
        """Judge what *changelog* says beyond what was followed before; return this history.

        Args:
            changelog: of this task, whole.
            inputs: the records by partition, in order of offset.
            until: so many batches; None: all.

        Raises:
            Failure: it has gaps, repeats, or documents that are not unique.
        """
        self._again = lambda history, until: history.follow(changelog, inputs, until) and None
        self.anew = anew_at(changelog, NUMBER_MAX) > 0
        batches = read_batches(changelog)[:until]
        for count, batch in enumerate(batches[len(self.batches) :], start=len(self.batches)):
            _demand(batch.number == count, f"batch {batch.number} where {count} was to come")
            first, law = batch.first_ordinal, self.law
            _demand(first == law.next_ordinal, f"batch {count} begins with ordinal {first}")
            forgotten = self._judge(batch, inputs)
            after = batch.next_ordinal
            _demand(after == law.next_ordinal, f"batch {count} ends with ordinal {after}")
            stored = [ordinal for ordinal in range(first, after) if ordinal in law.documents]
            _demand(batch.documents == stored, f"batch {count} stores {batch.documents}")
            oldest, *_ = windows_at(self.batches)  # older documents are not found by an id
            gone = sorted(each for each in forgotten if oldest.first_ordinal <= each < first)
            _demand(batch.forgotten == gone, f"batch {count} forgets {batch.forgotten}, not {gone}")
            self._forgetful |= bool(forgotten)
            self.batches.append(batch)
        return self

    def _judge(self, batch: Batch, inputs: Mapping[int, Sequence[Input]]) -> list[int]:
        """Let the law judge a batch; return which documents it forgets."""
        gone = self._forget_without_records(batch, inputs)
        aging = Aging(batch, self.batches, self.law, self.retention)
        records: list[Input] = []
        seeds: list[Input] = []  # in the order in which they are read
        for p, (begin, end) in sorted(batch.spans.items()):
            known = self.known.get(p, 0)
            where = f"batch {batch.number} judges {p} from {begin} to {end}, after {known}"
            _demand(begin in (known, self.skipped.get((p, known), known)), where)
            self.known[p] = end
            at = partial(bisect_left, inputs.get(p, ()), key=lambda each: each.place[1])
            found = inputs.get(p, ())[at(begin) : at(end)]
            if p >= SEEDS_FROM:
                seeds[:0] = found
            else:
                records += found
        read = aging.recent(seeds)
        records += sorted(read, key=lambda each: each.place)
        arrivals = iter(self.arrivals([each for each in records if each.kind == "document"]))
        for each in records:
            aging.record(each.record.timestamp)
            if each.kind in self._forgetting:
                gone += self.law.forget_id(*self._names.get(each.id, ()), scope=each.scope)
            order = batch.number, *each.place
            expected = self._expect(each, order, aging, arrivals)
            if each.name in self.refused:
                expected = replace(expected, topic=DEAD, verdict="refused", matches=())
            self.expected[each.place] = expected
        aging.end()
        return gone

    def _forget_without_records(
        self, batch: Batch, inputs: Mapping[int, Sequence[Input]]
    ) -> list[int]:
        """Take away what a batch without records forgets: what was refused, or a tombstone's.

        The tombstone comes next. It names more than `FORGET_MAX` documents, and the batch forgets
        the oldest. Spans of such a batch hold markers at most.
        """
        judged = any(
            begin <= each.place[1] < end
            for p, (begin, end) in batch.spans.items()
            for each in inputs.get(p, ())
        )
        if judged or not batch.forgotten:
            return []
        names = [self.law.documents[o].id for o in batch.forgotten if o in self.law.documents]
        if len(names) == len(batch.forgotten) and self.refused.issuperset(names):
            return self.law.forget_id(*names)
        coming, (oldest, *_) = [], windows_at(self.batches)
        for p, (begin, _) in batch.spans.items():
            following = next((each for each in inputs[p] if each.place[1] >= begin), None)
            if following is not None and following.kind == "tombstone":
                names = self._names.get(following.id, ())
                scope, known = following.scope, self.law.documents.items()
                theirs = [o for o, e in known if e.id in names and scope in (b"", e.scope)]
                theirs = sorted(o for o in theirs if o >= oldest.first_ordinal)
                if len(theirs) > forgetting.FORGET_MAX:
                    coming.append(theirs[: forgetting.FORGET_MAX])
        what = f"forgets {batch.forgotten}, and no tombstone that comes next asks for it"
        _demand(batch.forgotten in coming, f"batch {batch.number} {what}")
        return self.law.forget_id(*(self.law.documents[each].id for each in batch.forgotten))

    def _expect(
        self, each: Input, order: tuple[int, int, int], aging: Aging, arrivals: Iterable[Arrival]
    ) -> Expected:
        if each.kind in ("document", "short"):
            aging.document(each.place)
        self.law.next_ordinal += each.kind == "short"
        if each.kind in ("passthrough", "short", "tombstone"):
            return Expected(each, order, UNIQUE)
        if each.kind != "document":
            return Expected(each, order, DEAD, each.kind)
        _demand(each.name not in self.judged, f"the story has {each.name} twice")
        self.judged[each.name] = each
        self._names.setdefault(each.id, []).append(each.name)
        age = self.law.next_ordinal, max(self.law.horizon, self.law.reach)
        ruling = self.law.judge(next(iter(arrivals)))
        if ruling.verdict == "unique":
            return Expected(each, order, UNIQUE, "", (), *age)
        matched = ((self.judged[name], s, bands) for name, s, bands in ruling.matches)
        matches = tuple((one.id, round(s, 6), bands, one.place) for one, s, bands in matched)
        return Expected(each, order, DUPLICATES, ruling.verdict, matches, *age)


class Aging:
    """What a batch says of what is forgotten, held against one record at a time."""

    def __init__(
        self, batch: Batch, before: Sequence[Batch], model: Law, retention: Retention | None
    ) -> None:
        """Begin a batch; the *retention* was in force all the time. None: it was changed."""
        self._batch, self._model, self._retention = batch, model, retention
        self._memory = retention and Bounds(
            retention.documents, retention.time, retention.least, retention.within
        )
        windows = sum(each.opens is not None for each in before)
        last = before[-1] if before else Batch(-1, 0, 0, {}, [], [])
        untold = batch.time < 0 and not (windows or last.horizon)
        if batch.horizon < last.horizon or (batch.time < last.time and not untold):
            raise self._wrong("goes back in time")
        self._timed = last.time >= 0 and not untold
        self._time, self._stamps = last.time, {last.time}
        self._records, self._undated = 0, False
        opens, first = batch.opens, batch.first_ordinal
        if opens is not None and opens != Window(windows + 1, first, batch.number, opens.offset):
            raise self._wrong(f"begins {opens}")
        self._ages = list(batch.ages)

    def _wrong(self, what: str) -> Failure:
        return Failure("changelog", f"batch {self._batch.number} {what}")

    def recent(self, seeds: Sequence[Input]) -> Iterator[Input]:
        """Yield the lines of *seeds* that are not older than the retention when they come."""
        newest, kept = self._time, self._retention and self._retention.time
        for each in seeds:
            stamp = each.record.timestamp
            if not (kept and 0 <= stamp < newest - kept):
                yield each
            newest = max(newest, stamp)

    def record(self, stamp: int) -> None:
        """Take the next record, of whatever kind."""
        self._records += 1
        self._stamps.add(stamp)
        self._undated |= stamp < 0 or stamp > self._batch.time  # the clock counts

    def _check_time(self, time: int) -> None:
        newest = max(self._stamps)
        if self._timed and not self._undated and time != newest:
            raise self._wrong(f"is of the time {time}, where the newest record is of {newest}")
        if time < self._time:
            raise self._wrong(f"goes back in time, from {self._time} to {time}")
        self._time = time

    def document(self, place: Place) -> None:
        """Take the last record for a document, which is about to be judged."""
        model, first = self._model, self._batch.first_ordinal == self._model.next_ordinal
        begins = first and self._batch.opens is not None
        if not self._batch.ages:
            if self._batch.time >= 0 or (
                self._retention and (self._retention.limited or self._retention.timed)
            ):
                raise self._wrong("does not say when its documents came")
            model.forget(model.horizon, opens=begins)
            return
        if not self._ages:
            raise self._wrong(f"says of fewer documents when they came than it judges: {place}")
        age = self._ages.pop(0)
        if age.place != place:
            raise self._wrong(f"tells of {age}, where {place} was judged")
        self._check_time(age.time)
        if self._memory is None:
            model.forget(age.horizon, opens=begins)
        elif model.arrive(age.time, self._memory) != begins:
            raise self._wrong(f"begins {self._batch.opens}; the model differs at {place}")
        since = max(model.horizon, model.reach)
        if since != age.horizon:
            raise self._wrong(f"judges {place} with the horizon {age.horizon}, not {since}")

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


def _demand(true: bool, otherwise: str) -> None:
    if not true:
        raise Failure("changelog", otherwise)
