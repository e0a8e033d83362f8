"""The records of one edge that wait for their verdicts, and the verdicts that wait for records.

Records and verdicts are matched by offset, never by count: a record may be gone since it was
judged (compaction), and offsets without a record have no verdict.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct, field

from streamfilter.cluster.ranges import Outcome, VerdictRange
from streamfilter.engine.batches.micro_batches import bytes_of
from streamfilter.engine.ports import Clock, LogError, RecordSource
from streamfilter.engine.start_checks import BEGIN_ANEW, Refusal
from streamfilter.model import ErrorCode, Malformed, Positions, Record
from streamfilter.stops import Stop

UNJUDGED = -1, Malformed(ErrorCode.INTERNAL, "no verdict covers this record", stage="forward")
BEYOND_SECONDS = 30.0  # verdicts may come earlier than the input's end, which the client has cached


class PendingLimits(Struct, frozen=True):
    """How much an edge keeps in memory."""

    records: int
    size: int = 256 * 1024 * 1024


class Ready(Struct):
    """What can be forwarded now: records with their outcomes, and the positions behind them."""

    verdicts: Positions  # next offset of the verdicts' partitions
    inputs: Positions  # end of the last verdict range
    records: list[Record] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)  # by row
    ranges: dict[int, int] = field(default_factory=dict)  # how many ranges of each partition
    gone: int = 0  # records that were judged and do not exist any more


class PendingRecords:
    """Records and verdict ranges of all partitions of one edge, in memory only."""

    def __init__(self, verdicts: Positions, inputs: Positions, *, accept: bool = False) -> None:
        """Begin at these next offsets of verdicts and inputs.

        *accept*: a record without a verdict becomes a dead letter, and does not stop the edge.
        """
        self._accept = accept
        self.verdicts, self.inputs = dict(verdicts), dict(inputs)
        self.reached = dict(inputs)  # before these input offsets every record was taken
        self._records: dict[int, list[Record]] = {p: [] for p in inputs}  # by rising offset
        self._ranges: dict[int, deque[tuple[int, VerdictRange]]] = {p: deque() for p in inputs}
        self.ends = dict(inputs)  # end of the last verdict range that came
        self.size = self.count = 0
        self.judged = 0  # records of the verdict ranges that wait, and one for each range

    def take(self, records: Iterable[Record], reached: Positions) -> None:
        """Keep *records* until their verdicts come."""
        for record in records:
            p = record.source.number
            if record.source.offset >= self.inputs[p]:
                self._records[p].append(record)
                self.size += bytes_of(record)
                self.count += 1
        self.reached |= {p: end for p, end in reached.items() if p in self.inputs}

    def hear(self, p: int, offset: int, verdicts: VerdictRange) -> int:
        """Keep *verdicts*, at *offset* of their topic; return how many offsets have none."""
        missing = verdicts.start - self.ends[p]
        if missing < 0:
            raise Stop(
                f"partition {p}: the verdicts at {offset} cover {verdicts.start} to "
                f"{verdicts.end}, and those before them ended at {self.ends[p]}"
            )
        self._ranges[p].append((offset, verdicts))
        self.judged += 1 + len(verdicts.offsets)
        self.ends[p] = verdicts.end
        return missing

    def to_sign(self, signed: Positions, count: int, size: int) -> list[Record]:
        """Return records from *signed* on, in the order of judgement, within the bounds."""
        found: list[Record] = []
        for p, records in sorted(self._records.items()):
            first = _place(records, signed[p])
            for record in records[first : first + count + 1]:
                size -= bytes_of(record)
                if len(found) == count or (found and size < 0):
                    return found
                found.append(record)
        return found

    def share(self, limits: PendingLimits, documents: int, size: int) -> float:
        """Return how much of a batch of *documents* and *size* may be taken, 0 to 1.

        Verdicts that wait for records are no use until these are read: then it is all of it.
        """
        if self.needs:
            return 1.0
        room = (limits.records - self.count) / documents, (limits.size - self.size) / size
        return max(0.0, min(1.0, *room))

    @property
    def needs(self) -> bool:
        """Return whether verdicts wait for records that were not read yet."""
        return any(
            ranges and ranges[0][1].end > self.reached[p] for p, ranges in self._ranges.items()
        )

    def ready(self, count: int) -> Ready:
        """Return what can be forwarded, whole ranges, at least *count* records if there are any."""
        found = Ready(dict(self.verdicts), dict(self.inputs))
        for p, ranges in self._ranges.items():
            records, at = self._records[p], 0
            for offset, verdicts in ranges:
                if verdicts.end > self.reached[p] or len(found.records) >= count:
                    break
                at = _match(found, verdicts, records, at, accept=self._accept)
                found.verdicts[p], found.inputs[p] = offset + 1, verdicts.end
                found.ranges[p] = found.ranges.get(p, 0) + 1
        return found

    def forwarded(self, ready: Ready) -> None:
        """Drop what was forwarded."""
        self.verdicts, self.inputs = dict(ready.verdicts), dict(ready.inputs)
        for p, count in ready.ranges.items():
            for _ in range(count):
                _, verdicts = self._ranges[p].popleft()
                self.judged -= 1 + len(verdicts.offsets)
            records = self._records[p]
            end = _place(records, self.inputs[p])
            self.size -= sum(map(bytes_of, records[:end]))
            self.count -= end
            del records[:end]

    def passed(self, reached: Positions) -> Positions:
        """Return the next offsets of the verdicts, past markers where no verdicts wait."""
        free = {p: reached.get(p, 0) for p, ranges in self._ranges.items() if not ranges}
        return {p: max(offset, free.get(p, 0)) for p, offset in self.verdicts.items()}


class InputEnds:
    """Detects verdicts beyond the end of the input: an edge would wait for ever for the records."""

    def __init__(self, source: RecordSource, clock: Clock, topic: str) -> None:
        self._source, self._clock, self._topic = source, clock, topic
        self._within_at = clock.monotonic()

    def look(self, judged: Positions, ends: Positions) -> None:
        """Raise `Refusal` if brokers say that *judged* is beyond; *ends* are those of a cache."""
        beyond = [p for p, end in judged.items() if end > ends.get(p, end)]
        now = self._clock.monotonic()
        if beyond and now - self._within_at < BEYOND_SECONDS:
            return
        self._within_at = now
        with suppress(LogError):  # a broker that does not answer proves nothing
            latest = self._source.start_positions(beyond, "latest") if beyond else {}
            if short := {p: (judged[p], end) for p, end in latest.items() if judged[p] > end}:
                raise Refusal(
                    f"{self._topic} ends before its verdicts (partition: end of the verdicts, "
                    f"end): {short}. The topic was truncated after an edge had signed its records, "
                    "or the sketch ranges are forged",
                    "bring the topic back",
                    BEGIN_ANEW,
                )


def _place(records: Sequence[Record], offset: int) -> int:
    """Return the place of the first record at or behind *offset*."""
    return bisect_left(records, offset, key=lambda record: record.source.offset)


def _refuse_unjudged(record: Record) -> Refusal:
    return Refusal(
        f"{record.source.topic}/{record.source.partition} at {record.source.offset}: verdicts "
        "cover this offset, and none is of this record. The topic was recreated, or a sketch range "
        "did not list all of them: it was forged, or an edge has a bug",
        "bring the topic back",
        "`streamfilter run --role edge --accept-positions` makes dead letters of such records, and "
        "`streamfilter replay` has them judged",
        BEGIN_ANEW,
    )


def _match(
    found: Ready, verdicts: VerdictRange, records: Sequence[Record], at: int, *, accept: bool
) -> int:
    """Add the *records* of one verdict range, from place *at* on; return the next place."""
    judged = dict(zip(verdicts.offsets.tolist(), enumerate(verdicts.outcomes), strict=True))
    at = max(at, _place(records, verdicts.start))  # behind verdicts that are accepted as missing
    while at < len(records) and (offset := records[at].source.offset) < verdicts.end:
        if offset not in judged and not accept:
            raise _refuse_unjudged(records[at])
        row, outcome = judged.pop(offset, UNJUDGED)
        if row in verdicts.ids:
            found.ids[len(found.records)] = verdicts.ids[row]
        found.records.append(records[at])
        found.outcomes.append(outcome)
        at += 1
    found.gone += len(judged)
    return at
