"""The judge: the task of a single process, which reads sketch ranges and writes verdict ranges.

`SketchLog` is the task's `RecordSource`. Its positions are offsets of the *input*. A record is
a row of an accepted sketch range, without key and value. `Received` prepares batches of them, and
`VerdictWriter` makes the messages to the edges. Transactor, changelog, index, restore and standby
are those of a single process.

The judge drops and counts the ranges that it cannot use. It answers each gap with a resume. If the
resume is lost, the edge inquires, and gets another one.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice, repeat
from operator import attrgetter

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.cluster.acceptance import Acceptance, acceptance
from streamfilter.cluster.ranges import (
    ALONE,
    NO_CAUSE,
    RANGE_BYTES,
    BadRange,
    SketchRange,
    VerdictRange,
    decode_sketches,
    encode_verdicts,
    in_messages,
)
from streamfilter.engine.batches.refusals import Refusals
from streamfilter.engine.ports import Clock, Layout, Outgoing, RecordSource, Retriable, StartAt
from streamfilter.index.protocol import Index
from streamfilter.matching.batch import Decided, Prepared, scopes_of
from streamfilter.matching.blocking.forgetting import NO_ORDINALS
from streamfilter.matching.pipeline import Batch
from streamfilter.matching.verdict.decision import UNIQUE
from streamfilter.model import Malformed, Positions, Record, Source, Unjudged, noun
from streamfilter.similarity.columns import I64
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, Sketches

RETRACTED_MAX = 100  # forgotten in one batch; each costs a look through its batch
MESSAGES_MAX = 16  # sketch ranges of one fetch; each has at most about `RANGE_BYTES`
Dropped = Callable[[str, str], None]
_NUMBER = attrgetter("source.number")


@noun()
class Signed(Record):
    """A record as the judge knows it: a row of a sketch range."""

    range: SketchRange | None = None
    row: int = 0


class SketchLog:
    """`ports.RecordSource` of the judge: the rows of the sketch ranges that count."""

    ended = False

    def __init__(
        self,
        inputs: RecordSource,
        sketches: RecordSource,
        *,
        topic: str,
        scheme: Scheme,
        dropped: Dropped = lambda reason, message: None,
        noted: Callable[[Sequence[int]], Positions] = lambda partitions: {},
    ) -> None:
        """Begin unassigned; *inputs* is only asked for positions, *sketches* is read.

        *noted* returns the offset of the sketches that was committed with each input offset. One
        process without roles notes none.
        """
        self._inputs, self._sketches, self._topic = inputs, sketches, topic
        self._scheme, self._dropped, self._noted = scheme, dropped, noted
        self.mark = b""
        self.owed: dict[int, int] = {}
        """By partition: the offset of the sketch range that a resume has to answer."""
        self.alone: set[int] = set()
        """Partitions where edges do not know yet that one process has forwarded records."""
        self.retracted: deque[tuple[int, int, int]] = deque()
        """Records to forget: partition, offset, and the offset of the message that says so."""
        self._found: Positions = {}
        self._judged: Positions = {}  # what `noted` returned
        self._begin({})

    def _begin(self, positions: Positions) -> None:
        self._expected = dict(positions)  # the next input offset that a range must not begin after
        self._seen = dict(positions)  # the ends of all ranges that came, for the lag
        self._read: Positions = {}  # next sketch offset, by partition
        self._open: dict[int, deque[tuple[int, int]]] = {}
        """By partition, the accepted ranges that are not committed: end, and sketch offset."""
        self._waiting: deque[tuple[SketchRange, int]] = deque()
        """The accepted ranges, with the first row of each that `consume` has not returned."""
        self._fetched: deque[Record] = deque()  # messages that `_take` has not finished
        self._ends: Positions = {}  # of the input, as the brokers said last
        self.retracted.clear()

    def committed(self, partitions: Sequence[int]) -> Positions:
        """Return the group's offsets of the input; note those of the sketch ranges."""
        found = self._inputs.committed(partitions)
        self._judged = self._noted(partitions)
        known = self._sketches.committed(partitions)
        first = self._sketches.start_positions(partitions, "earliest")
        ends = self._sketches.start_positions(partitions, "latest")
        # A lost or recreated topic is only a gap: the edges sign again.
        self._found = {
            p: known[p] if first[p] <= known.get(p, -1) <= ends[p] else first[p] for p in first
        }
        return found

    def ids(self) -> tuple[str, str]:
        """Return the input's ids."""
        return self._inputs.ids()

    def start_positions(self, partitions: Sequence[int], start: StartAt) -> Positions:
        """Return the offset of the input that *start* means."""
        return self._inputs.start_positions(partitions, start)

    def assign(self, positions: Positions) -> None:
        """Take ranges from the input's *positions* on; a new judge asks all edges once."""
        self._begin(positions)
        self._read = {p: self._found.get(p, 0) for p in positions}
        self._sketches.assign(self._read)
        self.owed = {p: NO_CAUSE for p in positions if p in self._judged}
        self.alone = positions.keys() - self._judged.keys()

    def consume(self, count: int, timeout: float) -> list[Record]:
        """Return up to *count* rows of ranges that count."""
        if not self._waiting:
            if not self._fetched:
                self._fetched.extend(self._sketches.consume(MESSAGES_MAX, timeout))
            with suppress(Retriable):  # the brokers do not answer: the next call asks again
                while self._fetched:
                    self._take(self._fetched[0])
                    self._fetched.popleft()
        found: list[Record] = []
        while self._waiting and len(found) < count:
            one, begin = self._waiting.popleft()
            end = min(begin + count - len(found), len(one.offsets))
            found += self._signed(one, begin, end)
            if end < len(one.offsets):
                self._waiting.appendleft((one, end))
        return found

    def _signed(self, one: SketchRange, begin: int, end: int) -> Iterator[Signed]:
        """Return rows of a range as records; `map` makes them at half the cost of a loop."""
        offsets, stamps = one.offsets[begin:end].tolist(), one.timestamps[begin:end].tolist()
        sources = map(Source, repeat(self._topic), repeat(one.partition), offsets)
        none, rows = repeat(None), range(begin, end)
        return map(Signed, sources, none, none, repeat(()), stamps, none, repeat(one), rows)

    def _take(self, message: Record) -> None:
        p, offset = message.source.number, message.source.offset
        try:
            one = decode_sketches(
                message.value or b"",
                self.mark,
                self._scheme.widths,
                fields=bool(self._scheme.fields),
            )
            if one.partition != p:
                raise BadRange("undecodable", f"partition {p} has a range of {one.partition}")
        except BadRange as error:
            self._drop(p, offset, error.fault, str(error))
            return
        counts = acceptance(one.start, one.end, self._expected[p])
        beyond = counts is not Acceptance.BELOW and self._is_beyond(one)
        self.retracted += ((p, each, offset) for each in one.retracted)
        if beyond:
            where = f"it ends at {one.end}, and the input at {self._ends[p]}"
            self._drop(p, offset, "beyond", where)
            return
        self._read[p] = offset + 1
        self._seen[p] = max(self._seen[p], one.end)
        if counts is Acceptance.COUNTS:
            self._accept(one, offset)
        elif counts is Acceptance.GAP:
            self._drop(p, offset, "gap", "")
        elif not one.inquires:
            self._dropped("below", "")

    def _is_beyond(self, one: SketchRange) -> bool:
        """Return whether a range ends behind the input: no edge has read records there.

        The end is only asked for if the last answer is too low. Raises `LogError`.
        """
        p = one.partition
        if one.end > self._ends.get(p, -1):
            asked = sorted({each.source.number for each in self._fetched})
            self._ends |= self._inputs.start_positions(asked, "latest")
        return one.end > self._ends[p]

    def _drop(self, p: int, offset: int, reason: str, message: str) -> None:
        """Drop a range, and owe the edges a resume for it."""
        self._read[p] = offset + 1
        self._dropped(reason, f"{self._topic}/{p} at {offset}: {message}" if message else "")
        self.owed[p] = offset

    def _accept(self, one: SketchRange, offset: int) -> None:
        p = one.partition
        expected, self._expected[p] = self._expected[p], one.end
        self._open.setdefault(p, deque()).append((one.end, offset))
        if (first := first_row(one, expected)) < len(one.offsets):
            self._waiting.append((one, first))

    def reached(self) -> Positions:
        """Return the next input offset of each partition that `consume` has not returned."""
        reached = dict(self._expected)
        for one, first in reversed(self._waiting):
            reached[one.partition] = int(one.offsets[first])
        return reached

    def beside(self, positions: Positions) -> Positions:
        """Return the sketch offsets to commit with the input's *positions*."""
        found = {}
        for p in positions.keys() & self._read.keys():
            waiting = self._open.setdefault(p, deque())
            while waiting and waiting[0][0] <= positions[p]:
                waiting.popleft()
            found[p] = waiting[0][1] if waiting else self._read[p]
        for p, _, offset in self.retracted:
            if p in found:
                found[p] = min(found[p], offset)
        return found

    def unread(self, positions: Positions) -> bool:
        """Return whether another consumer gets a sketch range that this one did not get."""
        return self._sketches.unread(self._read)

    def ends(self) -> Positions:
        """Return the input offset of each partition up to which ranges have come."""
        return dict(self._seen)

    def close(self) -> None:
        """Close its clients."""
        self._inputs.close()
        self._sketches.close()


class Received(Struct, frozen=True):
    """Prepares rows of sketch ranges for the judgement: an edge has read and sketched them."""

    refusals: Refusals = field(default_factory=Refusals)

    def prepare(self, records: Sequence[Record], sketcher: Sketcher, clock: Clock) -> Prepared:
        """Return *records* as if they had been read here; the keys are computed from the columns.

        Keys are not sent, because to compute them takes .3 µs a document.
        """
        parts = [one.part(begin, end) for one, begin, end in _ranges_of(records)]
        others: dict[int, Unjudged | Malformed] = {}
        begin = 0
        for part in parts:
            others |= {begin + row: each for row, each in part.others.items()}
            begin += len(part.offsets)
        rows = [row for row in range(begin) if row not in others] if others else range(begin)
        documents = np.array(rows, np.int64) if others else slice(None)
        batch = Batch(
            [id_ for part in parts for id_ in part.ids],
            np.repeat([part.partition for part in parts], [len(part.ids) for part in parts]),
            np.concatenate([part.offsets for part in parts])[documents],
            np.concatenate([part.timestamps for part in parts])[documents],
        )
        signed, sketches = [each.sketches for each in parts if each.sketches is not None], None
        if signed:
            joined = Sketches.joined(signed)
            sketches = replace(joined, keys=sketcher.keys_of(joined.contents))
        scopes = scopes_of(others, sketcher)
        return Prepared(records, others, rows, batch, sketches, scopes)


def _ranges_of(records: Sequence[Record]) -> Iterator[tuple[SketchRange, int, int]]:
    """Yield the ranges that *records* are rows of, each with its first row and the one behind."""
    for one, group in groupby(records, key=attrgetter("range")):
        first, *others = group
        assert isinstance(first, Signed)
        yield one, first.row, first.row + 1 + len(others)


class VerdictWriter:
    """Makes the verdict ranges and resumes of a transaction: what leaves the judge."""

    def __init__(
        self, log: SketchLog, topic: str, *, own_ids: bool, largest: int = RANGE_BYTES
    ) -> None:
        """Write to *topic*, of whose messages the *largest* is known.

        *own_ids*: the evidence of unique documents has ids, too.
        """
        self._log, self._topic, self._own_ids, self._largest = log, topic, own_ids, largest
        self._sent: dict[int, int] = {}  # resumes of the open transaction
        self._alone: set[int] = set()  # partitions with a resume behind one process in it
        self._forgets = 0  # retractions in the open transaction

    def begin(self, layout: Layout, mark: bytes) -> None:
        """Name the index by *mark* from now on; forget what an aborted transaction held."""
        self._log.mark, self._sent, self._alone, self._forgets = mark, {}, set(), 0

    def retracts(self, index: Index) -> I64:
        """Return the ordinals of documents whose records an output refused."""
        while waiting := self._log.retracted:
            places = list(islice(waiting, RETRACTED_MAX))
            found = ordinals_at(index, [(p, offset) for p, offset, _ in places])
            if len(found):
                self._forgets = len(places)
                return found
            for _ in places:  # forgotten already, as after a second message
                waiting.popleft()
        return NO_ORDINALS

    @property
    def owes(self) -> bool:
        """Return whether edges wait for a resume."""
        return bool(self._log.owed or self._log.alone)

    def written(
        self, decided: Decided | None, before: Positions, after: Positions
    ) -> list[Outgoing]:
        """Return the ranges from *before* to *after*, without a gap, and the resumes owed.

        A resume behind one process comes before the ranges: edges take other holes for losses.
        """
        self._sent = {p: cause for p, cause in self._log.owed.items() if p in after}
        self._alone = self._log.alone & after.keys()
        leaving = [self._resume(p, before[p], ALONE) for p in sorted(self._alone)]
        ids = {} if decided is None else decided.prepared.ids
        for p, end in after.items():
            if end > before[p]:
                for whole in self._ranges(decided, ids, p, before[p], end):
                    messages = in_messages(whole, encode_verdicts, self._largest)
                    leaving += (self._outgoing(p, message) for _, message in messages)
        return [*leaving, *(self._resume(p, after[p], cause) for p, cause in self._sent.items())]

    def _resume(self, p: int, at: int, cause: int) -> Outgoing:
        resume = VerdictRange(self._log.mark, at, at, np.zeros(0, np.int64), cause=cause)
        return self._outgoing(p, encode_verdicts(resume))

    def committed(self) -> None:
        """Owe no more what the last transaction held."""
        for p, cause in self._sent.items():
            if self._log.owed.get(p) == cause:
                del self._log.owed[p]
        self._log.alone -= self._alone
        self._sent, self._alone = {}, set()
        for _ in range(self._forgets):
            self._log.retracted.popleft()
        self._forgets = 0

    def _ranges(
        self, decided: Decided | None, ids: Mapping[int, str], p: int, start: int, end: int
    ) -> Iterator[VerdictRange]:
        """Yield a verdict range for each sketch range: an edge has room for as much."""
        records = [] if decided is None else decided.prepared.records
        row, last = (bisect_left(records, each, key=_NUMBER) for each in (p, p + 1))
        if decided is None or row == last:
            yield VerdictRange(self._log.mark, start, end, np.zeros(0, np.int64))
            return
        for one, begin, behind in _ranges_of(records[row:last]):
            outcomes = decided.outcomes[row : row + behind - begin]
            shown = {
                place: ids[row + place]
                for place, outcome in enumerate(outcomes)
                if (self._own_ids or outcome is not UNIQUE) and row + place in ids
            }
            row += len(outcomes)
            stop = end if row == last else records[row].source.offset
            offsets = one.offsets[begin:behind]
            yield VerdictRange(self._log.mark, start, stop, offsets, outcomes, shown)
            start = stop

    def _outgoing(self, p: int, message: bytes) -> Outgoing:
        return Outgoing(self._topic, p, None, message)


def first_row(one: SketchRange, expected: int) -> int:
    """Return the first row of an accepted range that was not judged before."""
    return int(np.searchsorted(one.offsets, expected))


def ordinals_at(index: Index, places: Sequence[tuple[int, int]]) -> I64:
    """Return the ordinals of the documents stored with these *places*: partition and offset."""
    columns = np.array(places, np.int64).T
    found: set[int] = set()
    for place, mark in zip(places, index.marks_covering(*columns), strict=True):
        if mark is not None:
            stored = index.fetch(np.arange(mark.first_ordinal, mark.next_ordinal))
            where = zip(stored.partitions.tolist(), stored.offsets.tolist(), strict=True)
            pairs = zip(stored.ordinals.tolist(), where, strict=True)
            found.update(ordinal for ordinal, at in pairs if at == place)
    return np.array(sorted(found), np.int64)
