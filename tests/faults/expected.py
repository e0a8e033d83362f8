"""What should have come of it: a sequential model, fed in the order that the changelog tells.

No RocksDB, no batches, no threads. What a record is (a document, passed through, broken) is read
here by `json.loads` and four lines, for we know what the story writes; the order is read from
the bytes of the batch records by the simulator's own lines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from streamfilter.matching.law import Law
from streamfilter.matching.retention import UNLIMITED, Retention
from streamfilter.model import Record
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from tests.simulator.history import Aging, Told, read_batches, windows_at
from tests.support.arrivals import arrival

Place = tuple[int, int]
"""Partition and offset of an input record."""
Found = tuple[str, float, int, Place]
"""A match: id, similarity, bands, place."""
LATEST = 10**14
"""No timestamp in milliseconds is larger for a thousand years."""
WORDS_MIN = 3
"""A shorter text has no shingle: it is forwarded unjudged by default, but has its ordinal."""


class UntrueError(AssertionError):
    """The changelog itself cannot be true."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the model says of one input record."""

    source: Record
    order: tuple[int, int, int]
    """Batch, partition, offset: the order of judgement."""
    topic: str
    verdict: str = ""
    """Of a duplicate; a dead letter's code."""
    matches: tuple[Found, ...] = ()
    ordinal: int = -1
    """Of a document."""
    horizon: int = 0
    """Documents below it were forgotten when it was judged."""


def kind_of(record: Record) -> tuple[str, str, str]:
    """Return (kind, id, text).

    The kind is ``document``, ``short``, ``passthrough``, ``tombstone`` or a dead letter's code.
    """
    if record.timestamp > LATEST:
        return "refused", "", ""  # by every output, whatever it is
    if record.value is None:
        key = (record.key or b"").decode()
        return ("tombstone", key, "") if key.startswith("d") else ("passthrough", "", "")
    try:
        value: dict[str, Any] = json.loads(record.value)
    except ValueError:
        return "invalid_json", "", ""
    if "text" not in value:
        return "missing_text", "", ""
    text = value["text"]
    if not text.strip():
        return "passthrough", "", ""
    if len(text.split()) < WORDS_MIN:
        return "short", "", ""
    return "document", value["id"], text


@dataclass(slots=True)
class _Log:
    """A changelog as the simulator's reader of batches wants it."""

    records: Sequence[tuple[int, bytes]]
    start: int = 0

    def committed(self, _: int) -> Sequence[tuple[int, bytes]]:
        return self.records


def beginning_of(changelog: Sequence[tuple[int, bytes]]) -> int:
    """Return from which offset on a changelog is needed: its oldest window's that is alive."""
    return windows_at(read_batches(_Log(changelog)))[0].offset  # type: ignore[arg-type]


@dataclass(slots=True)
class Relived:
    """One task's whole life as it should have been; `follow` may be called again for more."""

    sketcher: Sketcher
    retention: Retention = UNLIMITED
    model: Law = field(default_factory=Law)
    expected: dict[Place, Expected] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)
    """Next offset that was never judged, by partition."""
    batches: list[Told] = field(default_factory=list)
    _place_of: dict[str, Place] = field(default_factory=dict)
    _forgetful: bool = False
    _log: tuple[Sequence[tuple[int, bytes]], dict[int, list[Record]]] = ((), {})

    @classmethod
    def of(cls, scheme: Scheme, seed: bytes, retention: Retention = UNLIMITED) -> Relived:
        return cls(Sketcher(scheme, seed=seed), retention)

    def standing_at(self, batches: int) -> Relived:
        """Return what it was after so many batches: who was forgotten since is remembered there."""
        if not self._forgetful or batches == len(self.batches):
            return self
        then = Relived(self.sketcher, self.retention)
        then.follow(*self._log, until=batches)
        return then

    def follow(
        self,
        changelog: Sequence[tuple[int, bytes]],
        inputs: dict[int, list[Record]],
        until: int | None = None,
    ) -> None:
        """Judge what *changelog* (whole, or so many batches) tells beyond what was followed before.

        Raises:
            UntrueError: it has gaps, repeats, or documents that are not unique.
        """
        self._log = changelog, inputs
        told = read_batches(_Log(changelog))[:until]  # type: ignore[arg-type]
        for count, batch in enumerate(told[len(self.batches) :], start=len(self.batches)):
            _demand(batch.number == count, f"batch {batch.number} where {count} was to come")
            first, model = batch.first_ordinal, self.model
            _demand(first == model.next_ordinal, f"batch {count} begins with ordinal {first}")
            forgotten = self._judge(batch, inputs)
            after = batch.next_ordinal
            _demand(after == model.next_ordinal, f"batch {count} ends with ordinal {after}")
            stored = [ordinal for ordinal in range(first, after) if ordinal in model.documents]
            _demand(batch.documents == stored, f"batch {count} stores {batch.documents}")
            oldest, *_ = windows_at(self.batches)  # before it nobody is found by an id
            gone = sorted(each for each in forgotten if oldest.first_ordinal <= each < first)
            _demand(batch.forgotten == gone, f"batch {count} forgets {batch.forgotten}, not {gone}")
            self._forgetful |= bool(gone)
            self.batches.append(batch)

    def _judge(self, batch: Told, inputs: dict[int, list[Record]]) -> list[int]:
        records: list[Record] = []
        for partition, (begin, end) in sorted(batch.spans.items()):
            known = self.known.get(partition, 0)
            what = f"batch {batch.number} judges {partition} from {begin} after {known}"
            _demand(begin == known, what)
            self.known[partition] = end
            records += inputs.get(partition, [])[begin:end]
            _demand(len(inputs.get(partition, [])) >= end, f"{what} to {end}: no such input")
        aging = Aging(batch, self.batches, self.model, self.retention)
        kinds = [kind_of(record) for record in records]
        texts = [text for kind, _, text in kinds if kind == "document"]
        sketches = self.sketcher.sketch(texts) if texts else None
        row, gone = 0, list[int]()
        for record, (kind, id_, _) in zip(records, kinds, strict=True):
            at = record.source.partition, record.source.offset
            aging.record(record.timestamp)
            if kind in ("document", "short"):
                aging.document(at)
            if kind == "tombstone":
                gone += self.model.forget_id(id_)
            expected = self._expect(record, (batch.number, *at), kind, id_, sketches, row)
            self.expected[at] = expected
            row += kind == "document"
        aging.end()
        self._forgetful |= bool(gone)
        return gone

    def _expect(
        self,
        record: Record,
        order: tuple[int, int, int],
        kind: str,
        id_: str,
        sketches: Any,
        row: int,
    ) -> Expected:
        self.model.next_ordinal += kind == "short"
        if kind in ("passthrough", "short", "tombstone"):
            return Expected(record, order, "unique")
        if kind != "document":
            return Expected(record, order, "dead_letter", kind)
        _demand(id_ not in self._place_of, f"the story has {id_} twice")
        self._place_of[id_] = order[1:]
        age = self.model.next_ordinal, self.model.horizon
        verdict = self.model.judge(arrival(id_, sketches, row))
        if verdict.verdict == "unique":
            return Expected(record, order, "unique", "", (), *age)
        matches = tuple((i, round(s, 6), b, self._place_of[i]) for i, s, b in verdict.matches)
        return Expected(record, order, "duplicates", verdict.verdict, matches, *age)


def _demand(true: bool, otherwise: str) -> None:
    if not true:
        raise UntrueError(otherwise)
