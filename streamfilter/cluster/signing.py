"""Signing: what an edge has read and sketched goes to the judge, and again if it was lost.

A sketch range is sent outside of any transaction, and nothing waits for it. It may arrive twice or
never. The judge drops what it has, and answers a gap with a resume.

Each range in flight after a lost one causes a resume. The edge obeys the first of them, and begins
again. From then on it ignores resumes that were caused by a range before its new first one.

Example: ranges a b c d are sent, and a is lost. The judge answers b, c and d with "sign again from
a". The edge obeys the first and sends a b c d again, at the offsets 7 to 10. The others were caused
by the offsets 5 and 6, before 7, and are ignored.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from streamfilter.cluster.ranges import SketchRange, VerdictRange, encode_sketches, in_messages
from streamfilter.engine.ports import Clock
from streamfilter.matching.batch import Prepared
from streamfilter.model import Positions
from streamfilter.similarity.columns import I64

INQUIRE_SECONDS = 1.0  # records have waited so long for a verdict; and between two inquiries
_NONE: I64 = np.zeros(0, np.int64)


class Signer(Protocol):
    """Writes to the topic of sketch ranges. It never waits."""

    largest: int  # most bytes of a message

    def send(self, partition: int, message: bytes) -> int:
        """Send a message, and return its number."""

    def delivered(self) -> Mapping[int, int]:
        """Return the offset of each message delivered since the last call; -1: it is lost.

        Raises `Stop` if sending again cannot mend it: the topic takes no such message.
        """


class Signing:
    """How far each partition is signed."""

    def __init__(self, signer: Signer, clock: Clock, mark: bytes, positions: Positions) -> None:
        """Sign from the input's *positions* on, for the index named by *mark*."""
        self._signer, self._clock, self._mark = signer, clock, mark
        self.signed = dict(positions)  # next input offset to sign, by partition
        self._judged = dict(positions)  # end of the last verdict range
        self._first: dict[int, int] = {}  # number of the first message since the last beginning
        self._first_at: Positions = {}  # its offset, once it is known
        self._inquiries: dict[int, int] = {}  # message → partition, until delivered
        self._quiet: dict[int, float] = {}  # time of the last verdict or inquiry
        self._heard: dict[int, float] = {}  # time of the last verdict
        self._retracting: dict[tuple[int, int], int] = {}  # place → message, until delivered
        self._retracted: set[tuple[int, int]] = set()

    def sign(self, prepared: Prepared, begun: Positions) -> None:
        """Send the sketch ranges of a batch that was taken at *begun*."""
        records = prepared.records
        places = [(each.source.number, each.source.offset) for each in records]
        for p in sorted({p for p, _ in places}):
            if self.signed[p] < begun[p]:
                continue  # a resume came meanwhile: the batch begins behind what is to be signed
            first = bisect_left(places, (p, self.signed[p]))
            last = bisect_left(places, (p + 1, 0))
            if first < last:
                self._send(self._range(prepared, p, first, last))

    def _range(self, prepared: Prepared, p: int, first: int, last: int) -> SketchRange:
        records, batch = prepared.records[first:last], prepared.batch
        begin, end = bisect_left(prepared.rows, first), bisect_left(prepared.rows, last)
        sketches = prepared.sketches
        if sketches is not None:
            sketches = sketches.at(np.arange(begin, end)) if begin < end else None
        return SketchRange(
            self._mark,
            p,
            self.signed[p],
            records[-1].source.offset + 1,
            np.array([each.source.offset for each in records], np.int64),
            np.array([each.timestamp for each in records], np.int64),
            batch.ids[begin:end],
            {row - first: each for row, each in prepared.others.items() if first <= row < last},
            sketches,
        )

    def _send(self, whole: SketchRange) -> None:
        p = whole.partition
        for _, message in in_messages(whole, encode_sketches, self._signer.largest):
            number = self._signer.send(p, message)
            self._first.setdefault(p, number)
        self.signed[p] = whole.end
        self._quiet.setdefault(p, self._clock.monotonic())
        self._heard.setdefault(p, self._clock.monotonic())

    def skip(self, reached: Positions) -> None:
        """Sign that no record lies before *reached*: only markers and aborted records do."""
        for p, end in reached.items():
            if end > self.signed[p]:
                self._send(SketchRange(self._mark, p, self.signed[p], end, _NONE, _NONE))

    def hear(self, p: int, verdicts: VerdictRange) -> bool:
        """Take note of verdicts or a resume; return whether it makes us sign again."""
        self._note_delivered()
        if not verdicts.resumes or verdicts.end > self._judged[p]:  # as behind a hole
            self._judged[p] = verdicts.end
            self.signed[p] = max(self.signed[p], verdicts.end)  # signed by a predecessor
            self._quiet[p] = self._heard[p] = self._clock.monotonic()
        elif self._obeys(p, verdicts):
            self.signed[p] = max(verdicts.start, self._judged[p])
            self._first.pop(p, None)
            self._first_at.pop(p, None)
            return True
        return False

    def _obeys(self, p: int, resume: VerdictRange) -> bool:
        begun = self._first_at.get(p)
        known = begun is not None and resume.cause >= begun
        return known and resume.start < self.signed[p]

    def _note_delivered(self) -> None:
        delivered = self._signer.delivered()
        if not delivered:
            return
        for p, number in self._first.items():
            if number in delivered:
                self._first_at[p] = max(0, delivered[number])  # lost: any resume counts
        for number in self._inquiries.keys() & delivered.keys():
            p = self._inquiries.pop(number)
            if 0 <= delivered[number] < self._first_at.get(p, 0):
                self._first_at[p] = 0  # the topic was deleted and created again
        for place, number in list(self._retracting.items()):
            if number in delivered:
                del self._retracting[place]
                if delivered[number] >= 0:
                    self._retracted.add(place)

    def retract(self, places: Sequence[tuple[int, int]]) -> bool:
        """Ask the judge to forget these documents; return whether it will read all of it.

        Their records become dead letters, and must not withhold others. So the message is delivered
        before the transaction that forwards the letters. It may be sent twice.
        """
        self._note_delivered()
        for p, offset in places:
            if (p, offset) not in self._retracted and (p, offset) not in self._retracting:
                end = self.signed[p]
                one = SketchRange(self._mark, p, end, end, _NONE, _NONE, retracted=(offset,))
                self._retracting[p, offset] = self._signer.send(p, encode_sketches(one))
        return self._retracted.issuperset(places)

    def inquire(self) -> list[int]:
        """Ask the judge where no verdict came for a while; return the partitions."""
        self._note_delivered()
        now = self._clock.monotonic()
        late = [p for p in self.outstanding() if now - self._quiet.get(p, now) >= INQUIRE_SECONDS]
        for p in late:
            end = self.signed[p]
            inquiry = SketchRange(self._mark, p, end, end, _NONE, _NONE)
            self._inquiries[self._signer.send(p, encode_sketches(inquiry))] = p
            self._quiet[p] = now
        return late

    def quiet_seconds(self) -> float:
        """Return the longest time without a verdict of a partition that waits for one."""
        now = self._clock.monotonic()
        return max((now - self._heard.get(p, now) for p in self.outstanding()), default=0.0)

    def outstanding(self) -> Sequence[int]:
        """Return the partitions that wait for a verdict."""
        return [p for p, end in self.signed.items() if end > self._judged[p]]
