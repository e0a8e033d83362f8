"""Reads back the records of a side topic: duplicates and dead letters, with the original in each.

A side topic also holds notes. An operator's command writes one with the records that it sends on
(`engine/corrections.py`). A note names them by their offsets in its own partition.

| mode | original in the record |
|---|---|
| annotate, a whole dead letter | its value and headers; ours are taken out |
| envelope | the payload, and the headers |
| reference, a record that was too large | none: it is read at its source |
"""

import dataclasses
from array import array
from collections import Counter, defaultdict

import msgspec
import numpy as np
from msgspec import Struct, field

from streamfilter.matching.verdict import envelope
from streamfilter.matching.verdict.envelope import Envelope, Matched, SourcePlace
from streamfilter.matching.verdict.evidence_headers import (
    PREFIX,
    THEIRS,
    key_of_ours,
    original_headers,
    our_headers,
)
from streamfilter.model import ErrorCode, Headers, Record, Source, Verdict

NOTE = "note"
RELEASED, ATTEMPTS = PREFIX + "released", PREFIX + "attempts"
"""Our headers on a record that was sent on: from the duplicates, from the dead letters."""
ATTEMPTS_DIGITS = 3  # a longer number is not ours

Span = tuple[int, int]
"""The first and the last offset of a run of records; between them is no other record."""


class Note(Struct, frozen=True):
    """The records of the note's partition that were sent on."""

    spans: tuple[Span, ...]
    records: int  # how many they are: a span also holds offsets without a record

    @property
    def headers(self) -> Headers:
        return our_headers([(NOTE, "sent")])

    @property
    def value(self) -> bytes:
        return envelope.encode({"sent": self.spans, "records": self.records})


class Noted:
    """The records that notes name."""

    def __init__(self) -> None:
        self._spans: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
        self._sorted: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def add(self, partition: int, spans: tuple[Span, ...]) -> None:
        for span in spans:
            self._spans[partition].extend(span)

    def has(self, partition: int, offset: int) -> bool:
        """Return whether a note names the record; no note is added after the first call."""
        if partition not in self._sorted:
            spans = np.array(self._spans[partition], np.int64).reshape(-1, 2)
            spans = spans[np.argsort(spans[:, 0])]
            self._sorted[partition] = spans[:, 0], np.maximum.accumulate(spans[:, 1])
        starts, ends = self._sorted[partition]
        at = int(np.searchsorted(starts, offset, "right")) - 1
        return at >= 0 and offset <= int(ends[at])


class SideRecord(Struct, frozen=True):
    """A withheld record or a dead letter."""

    record: Record  # as the side topic holds it
    source: Source  # the place of the original in the input
    original: Record | None  # as it was in the input; None: read it there
    evidence: Envelope | None = None  # of a withheld record
    code: str = ""  # of a dead letter
    value_bytes: int | None = None  # size of a dead letter's value that was left out

    @property
    def attempts(self) -> int:
        found = dict(original_headers(self.record.headers)).get(ATTEMPTS) or b""
        return int(found) if found.isdigit() and len(found) <= ATTEMPTS_DIGITS else 0

    def is_source(self, record: Record) -> bool:
        """Return whether *record*, read at the source, may be the original.

        A topic of the same name may have been created since, with other records.
        """
        if self.record.key not in (None, record.key, key_of_ours(self.source)):
            return False
        return self.value_bytes in (None, len(record.value or b""))


class CorrectionCounts(Struct):
    """What a correction did, or would do."""

    sent: Counter[str] = field(default_factory=Counter)  # by label
    stays: Counter[str] = field(default_factory=Counter)  # by label and reason
    before: int = 0  # chosen records that were sent earlier
    noted: int = 0  # all records that notes name, chosen or not
    foreign: int = 0  # records that no filter of this configuration wrote

    def begin(self) -> None:
        self.stays.clear()
        self.before = self.noted = self.foreign = 0


def read_back(record: Record) -> SideRecord | Note | None:
    """Return what a record of a side topic is; None: forwarding did not write it."""
    try:
        ours = ours_of(record)
        if NOTE in ours:
            return _note(record)
        if "error.code" in ours:
            return _letter(record, ours)
        if "verdict" not in ours:
            return _enveloped(record)
        evidence = _evidence(ours)
    except (KeyError, ValueError, msgspec.MsgspecError):
        return None
    assert evidence.source is not None
    source = evidence.source.source
    return SideRecord(record, source, _original(record, source, record.value), evidence)


def ours_of(record: Record) -> dict[str, str]:
    """Return our headers, without the prefix. The last of a name wins, or raise `ValueError`."""
    return {
        name.removeprefix(PREFIX): (value or b"").decode()
        for name, value in record.headers
        if name.startswith(PREFIX) and not name.startswith(THEIRS)
    }


def released_from(record: Record) -> Source | None:
    """Return the place among the duplicates that a released record names; None: it was not."""
    said = [value for name, value in record.headers if name == RELEASED]
    try:
        return msgspec.json.decode(said[-1] or b"", type=_From).place.source if said else None
    except msgspec.MsgspecError:
        return None  # its producer's header


class _From(msgspec.Struct):
    place: SourcePlace = msgspec.field(name="from")


def _note(record: Record) -> Note | None:
    said = msgspec.json.decode(record.value or b"", type=_NoteValue)
    sound = all(0 <= first <= last < record.source.offset for first, last in said.sent)
    return Note(said.sent, said.records) if sound else None


class _NoteValue(msgspec.Struct):
    sent: tuple[Span, ...]
    records: int


def _place(ours: dict[str, str], name: str) -> SourcePlace:
    topic, partition, offset = (ours[f"{name}.{at}"] for at in ("topic", "partition", "offset"))
    return SourcePlace(topic, int(partition), int(offset))


def _evidence(ours: dict[str, str]) -> Envelope:
    return Envelope(
        Verdict(ours["verdict"]),
        ours["id"],
        _place(ours, "source"),
        ours.get("method"),
        msgspec.json.decode(ours["matches"], type=tuple[Matched, ...]),
    )


def _enveloped(record: Record) -> SideRecord | None:
    found = envelope.decode(record.value or b"")
    if found.source is None:
        return None
    source, value = found.source.source, found.value
    original = None if value is None else _original(record, source, value)
    return SideRecord(record, source, original, found)


def _letter(record: Record, ours: dict[str, str]) -> SideRecord:
    source, size = _place(ours, "error").source, ours.get("error.value_bytes")
    original = None
    if size is None and ours["error.code"] != ErrorCode.BAD_HEADER:
        original = _original(record, source, record.value)
        if "error.timestamp" in ours:  # the letter of a refused record has its own time
            original = dataclasses.replace(original, timestamp=int(ours["error.timestamp"]))
    return SideRecord(
        record,
        source,
        original,
        code=ours["error.code"],
        value_bytes=None if size is None else int(size),
    )


def _original(record: Record, source: Source, value: bytes | None) -> Record:
    key = None if record.key == key_of_ours(source) else record.key
    return Record(source, key, value, original_headers(record.headers), record.timestamp)
