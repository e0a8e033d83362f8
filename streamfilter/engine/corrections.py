"""Corrections: chosen records of a side topic are sent on, each once (`release`, `replay`).

A copy and the note of it are one transaction. The note is a record in the side topic, in the
partition of the record that it names. Nothing is sent twice, whatever is killed, and if several
people do it at once:

1. `Sink.open` fences every earlier correction of the group. None of them can commit any more.
2. The ends of the side topic are asked after that, read uncommitted. A note lies behind its record
   in the same partition. So a reader that comes from a record to the end has met its note.
3. A later correction fences this one, whose next commit then fails.

So after every `open` the notes are read again. Retention removes a note only after its record,
because it removes the beginning of a partition. A note has a key of its own, so that compaction
keeps it. The note is not an offset of a group: what was chosen is no prefix of the topic. It is not
in the changelog: there our fences would stop the service.

Memory holds one transaction, and 16 bytes for each run of records that was sent before.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Protocol

from msgspec import Struct

from streamfilter.engine.messages.forwarding import size_of
from streamfilter.engine.ports import (
    Abortable,
    Clock,
    Outgoing,
    RecordsRefused,
    Retriable,
    Sink,
    without_frames,
)
from streamfilter.killpoints import kill_point
from streamfilter.matching.verdict.side_records import (
    CorrectionCounts,
    Note,
    Noted,
    SideRecord,
    Span,
    read_back,
)
from streamfilter.model import Record, Source
from streamfilter.stops import Temporary

BATCH_RECORDS, BATCH_BYTES = 500, 4 * 1024 * 1024
COMMITS_MAX = 5
ROUNDS_MAX = 20
"""How often in a row a correction begins again without progress. A refused record is progress."""
SHRUNK = 4  # a transaction that was not delivered is tried again with a quarter of its records

Bounds = Mapping[int, tuple[int, int]]
Seen = Callable[[SideRecord, Record | None, Outgoing | str], None]
"""Called with each chosen record, its original, and its copy or why there is none."""


class SideLog(Protocol):
    """A side topic, and the input that its records came from."""

    def bounds(self) -> Bounds:
        """Return what to look at: to the end, read uncommitted."""

    def records(self, bounds: Bounds) -> Iterator[Record]:
        """Yield the committed records in *bounds*, in the order of each partition."""

    def original_of(self, side: SideRecord) -> Record | None:
        """Return the original from the input; None if it is not there any more."""


class Verb(Protocol):
    """The choice of records, and what becomes of them."""

    def wanted(self, side: SideRecord) -> bool:
        """Return whether the record is chosen."""

    def label(self, side: SideRecord) -> str:
        """Return the name under which the record is counted."""

    def copy(self, side: SideRecord, original: Record) -> Outgoing | str:
        """Return the record to send, or why it stays."""


class _Copy(Struct, frozen=True):
    """A record of the next transaction."""

    place: Source  # in the side topic
    follows: int  # offset of the record before it in its partition; -1: not read
    out: Outgoing
    label: str


class Correction:
    """One run of `release` or `replay` over one side topic."""

    def __init__(self, log: SideLog, verb: Verb, seen: Seen = lambda *_: None) -> None:
        self._log, self._verb, self._seen = log, verb, seen
        self._refused: dict[Source, str] = {}
        self._most = BATCH_RECORDS  # of a transaction; fewer once one was too slow
        self._batch: list[_Copy] = []
        self.tally = CorrectionCounts()

    def preview(self) -> None:
        for each in self._copies():
            self.tally.sent[each.label] += 1

    def run(self, sink: Sink, fence: Callable[[], None], clock: Clock, slow: float) -> None:
        """Send the chosen records. *fence* opens the sink, and waits for it.

        A commit that takes more than *slow* seconds may leave a request in flight. It would end the
        next transaction of the same producer. Raises `LogError` or `Stop`: what was committed
        stays; run it again for the rest.
        """
        why, left = "commits are slow", ROUNDS_MAX
        while left:
            done = self._progress
            fence()
            refusal: RecordsRefused | None = None
            try:
                if self._send(sink, clock, slow):
                    return
            except RecordsRefused as error:
                refusal = without_frames(error)
            except Abortable as error:
                if len(self._batch) < 2:
                    raise
                # Not delivered in time: by a quota, or over a thin line.
                self._most, why = max(1, len(self._batch) // SHRUNK), str(error)
            # A new producer begins: `README.md` says what an abort or a slow commit may leave. It
            # fences, so the notes are read again.
            if refusal is not None:
                self._most, why = self._most if self._refused_since(refusal) else 1, str(refusal)
            left = ROUNDS_MAX if self._progress > done else left - 1
        raise Temporary(f"no progress with {ROUNDS_MAX} new producers: {why}")

    @property
    def _progress(self) -> int:
        return self.tally.sent.total() + len(self._refused)

    def _send(self, sink: Sink, clock: Clock, slow: float) -> bool:
        """Send what is left; return False to begin with a new producer."""
        batch: list[_Copy] = []
        size = 0
        for each in self._copies():
            weight = size_of(each.out.key, each.out.value, each.out.headers)
            if batch and (len(batch) >= self._most or size + weight > BATCH_BYTES):
                if self._transact(sink, batch, clock) > slow:
                    return False
                batch, size = [], 0
            batch.append(each)
            size += weight
        if batch:
            self._transact(sink, batch, clock)
        return True

    def _transact(self, sink: Sink, batch: list[_Copy], clock: Clock) -> float:
        self._batch = batch
        sink.begin()
        kill_point("transaction.begun")
        sink.produce([each.out for each in batch])
        kill_point("transaction.outputs")
        sink.produce(list(_notes(batch)))
        kill_point("transaction.produced")
        sink.flush()
        kill_point("transaction.flushed")
        seconds = _commit(sink, clock)
        kill_point("transaction.committed")
        self.tally.sent.update(each.label for each in batch)
        return seconds

    def _refused_since(self, error: RecordsRefused) -> bool:
        """Note which records were refused; return False if it is not known yet."""
        blame, batch = error.blame, self._batch
        known = len(batch) == 1 or (blame is not None and blame.each)
        numbers = range(1) if len(batch) == 1 or blame is None else blame.numbers
        for number in numbers if known else ():
            if number >= len(batch):
                raise Temporary(f"the note of what was sent is refused: {error}")
            # The rest of the reason names this request, and would make each record its own label.
            why = str(error) if blame is None else blame.reason.partition(":")[0]
            self._refused[batch[number].place] = f"the output refuses it: {why}"
        return known

    def _copies(self) -> Iterator[_Copy]:
        """Yield what is to be sent, in the order of each partition."""
        self.tally.begin()
        earlier = self.tally.sent.total()  # before these refusals: their notes are read again
        noted, chosen = self._survey()
        latest: dict[int, int] = {}
        for record in self._log.records(chosen):
            place, side = record.source, read_back(record)
            follows = latest.get(place.partition, -1)
            latest[place.partition] = place.offset
            if not isinstance(side, SideRecord) or not self._verb.wanted(side):
                continue
            if noted.has(place.partition, place.offset):
                self.tally.before += 1
                continue
            label = self._verb.label(side)
            original, out = self._copy(side)
            self._seen(side, original, out)
            if isinstance(out, str):
                self.tally.stays[f"{label}: {out}"] += 1
            else:
                yield _Copy(place, follows, out, label)
        self.tally.before -= earlier

    def _copy(self, side: SideRecord) -> tuple[Record | None, Outgoing | str]:
        original = side.original or self._log.original_of(side)
        if original is None:
            return None, "its value is only in the input, which no longer has it"
        refused = self._refused.get(side.record.source)
        return original, refused or self._verb.copy(side, original)

    def _survey(self) -> tuple[Noted, Bounds]:
        noted, chosen = Noted(), dict[int, tuple[int, int]]()
        for record in self._log.records(self._log.bounds()):
            found, place = read_back(record), record.source
            if isinstance(found, Note):
                self.tally.noted += found.records
                noted.add(place.partition, found.spans)
            elif found is None:
                self.tally.foreign += 1
            elif self._verb.wanted(found):
                start, _ = chosen.get(place.partition, (place.offset, 0))
                chosen[place.partition] = start, place.offset + 1
        return noted, chosen


def _commit(sink: Sink, clock: Clock) -> float:
    """Commit, and return how long it took; infinite if it was repeated."""
    begun, again = clock.monotonic(), False
    for left in reversed(range(COMMITS_MAX)):
        try:
            sink.commit()
            break
        except Retriable:
            again = True
            if not left:
                raise
    return inf if again else clock.monotonic() - begun


def _notes(batch: list[_Copy]) -> Iterator[Outgoing]:
    """Yield a note for each partition of the *batch*.

    The copies of 4, 7 and 9 of a partition that has 4, 7, 8 and 9: the spans are 4 to 7, and 9.
    """
    spans: defaultdict[tuple[str, int], list[Span]] = defaultdict(list)
    counts: Counter[tuple[str, int]] = Counter()
    for each in batch:
        spot = each.place.topic, each.place.partition
        counts[spot] += 1
        if spans[spot] and spans[spot][-1][1] == each.follows:
            spans[spot][-1] = spans[spot][-1][0], each.place.offset
        else:
            spans[spot].append((each.place.offset, each.place.offset))
    for (topic, partition), found in spans.items():
        note = Note(tuple(found), counts[topic, partition])
        key = f"note/{topic}/{partition}/{found[0][0]}".encode()
        yield Outgoing(topic, partition, key, note.value, note.headers)
