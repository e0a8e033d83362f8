"""The answer of `explain --id` for a withheld document, from the records of a side topic."""

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from streamfilter.matching.verdict import envelope
from streamfilter.matching.verdict.decision import SAME_FIELD, SAME_ID
from streamfilter.matching.verdict.evidence_headers import PREFIX
from streamfilter.matching.verdict.side_records import Note, Noted, SideRecord, read_back
from streamfilter.model import Record, Verdict
from streamfilter.process.terminal_escapes import inline
from streamfilter.stops import ExitCode, Stop, counted

SHOWN = 20  # most verdicts on one id that are shown, the newest ones


class Withheld(Struct):
    """The verdicts by which the documents with one id were withheld, as far as was looked."""

    id: str
    topic: str
    forwarded: bool = False  # whether it is the topic of forwarded records, as in shadow mode
    looked_at: int = 0
    back_to: int = -1  # timestamp of the oldest record that was looked at; -1: none
    count: int = 0
    found: deque[SideRecord] = field(default_factory=lambda: deque(maxlen=SHOWN))
    noted: Noted = field(default_factory=Noted)

    def look(self, records: Iterable[Record]) -> None:
        """Look at *records*; those of one partition are in their order."""
        for record in records:
            self.looked_at += 1
            if record.timestamp >= 0:
                times = [record.timestamp, *([self.back_to] if self.back_to >= 0 else [])]
                self.back_to = min(times)
            found = read_back(record)
            if isinstance(found, Note):
                self.noted.add(record.source.partition, found.spans)
            elif found is not None and found.evidence is not None and self._names(found):
                self.count += 1
                self.found.append(found)

    def _names(self, found: SideRecord) -> bool:
        """Return whether it is a document with the id.

        Among forwarded records only headers are evidence: a value is its producer's.
        """
        evidence, headers = found.evidence, found.record.headers
        if self.forwarded and all(name != PREFIX + "match.id" for name, _ in headers):
            return False
        return evidence is not None and evidence.id == self.id

    def unknown(self, *, has_ids: bool = True) -> Stop:
        """Return the refusal of an id that was not found; it says how far was looked.

        Without ids in records (*has_ids*), an id is a record's place.
        """
        check = "check the id with `streamfilter peek`"
        if not has_ids:
            check = "input.id is null, so an id is a place: TOPIC-PARTITION-OFFSET, as in news-0-17"
        back = f", back to {_time(self.back_to)}" if self.back_to >= 0 else ""
        return Stop(
            f"no document with the id {self.id!r} is in the index here, and none was withheld "
            f"among {counted(self.looked_at, 'record')} of {self.topic}{back}\n"
            f"    cure: {check}; its record may be a dead letter, may "
            "not be judged yet, or its retention is over",
            exit_code=ExitCode.USAGE,
        )

    def as_json(self) -> dict[str, Any]:
        newest = sorted(self.found, key=lambda each: each.record.timestamp, reverse=True)
        return {
            "id": self.id,
            "topic": self.topic,
            "looked_at": self.looked_at,
            "back_to": None if self.back_to < 0 else _time(self.back_to),
            "count": self.count,
            "withheld": [self._verdict(each) for each in newest],
        }

    def _verdict(self, found: SideRecord) -> dict[str, Any]:
        evidence, place = found.evidence, found.record.source
        assert evidence is not None
        matches = [
            {"id": m.id, "similarity": m.similarity} | m.source.place for m in evidence.matches
        ]
        return {
            "verdict": evidence.verdict.value,
            "reason": _reason(evidence),
            "match": matches[0] if matches else None,
            "matches": matches,
            "method": evidence.method,
            "time": None if found.record.timestamp < 0 else _time(found.record.timestamp),
            "source": found.source.place,
            "withheld_at": place.place,
            "released": self.noted.has(place.partition, place.offset),
        }

    def as_text(self) -> str:
        answer = self.as_json()
        again = f", the newest {len(self.found)} of them" if self.count > len(self.found) else ""
        lines = [
            f"{self.id}: withheld {counted(self.count, 'time')}{again} (looked at "
            f"{counted(self.looked_at, 'record')} of {self.topic}, back to {answer['back_to']})"
        ]
        for each in answer["withheld"]:
            source, place = (envelope.located(each[name]) for name in ("source", "withheld_at"))
            gone = ", and was released since" if each["released"] else ""
            lines += [
                f"verdict     {each['verdict']}: {each['reason']}{gone}",
                f"  record    {source}, of {each['time']}; withheld to {place}",
            ]
            lines += [
                f"  match     {m['id']}, similarity {m['similarity']:.4f}, at {envelope.located(m)}"
                for m in each["matches"]
            ]
        return "\n".join(map(inline, lines))


def _reason(evidence: envelope.Envelope) -> str:
    match = evidence.matches[0] if evidence.matches else None
    other = "an earlier document" if match is None else match.id
    if evidence.method == SAME_ID:
        return f"{other} has the same id (input.known_id)"
    if evidence.method == SAME_FIELD:
        return f"{other} is equal in a field of verify.also_same"
    if match is None or evidence.verdict is Verdict.EXACT_DUPLICATE:
        return f"its text is the same as that of {other}"
    if match.containment is not None:
        return f"similarity {match.similarity:.4f}, containment {match.containment:.4f} to {other}"
    return f"similarity {match.similarity:.4f} to {other}"


def _time(milliseconds: int) -> str:
    """Return a time as ISO 8601; a record may have an impossible one."""
    try:
        return datetime.fromtimestamp(milliseconds / 1_000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
