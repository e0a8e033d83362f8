"""Forwarding: from a record and its verdict to the record that leaves. Knows nothing of the index.

A unique record leaves byte for byte. A duplicate leaves as it was with headers that carry the
evidence, or as an envelope, or as a reference. What cannot be read leaves for the dead-letter
topic with its reason. Sizes are checked here, before anything is produced: one record that is
too large would fail its transaction again and again.

A record may come with headers that look like ours: from another filter's output, or forged. On
everything that we write upon they are renamed, so that every `__streamfilter.` name there which
is not below `__streamfilter.input.` is ours. Unique records stay as they came, and none is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from streamfilter.engine.partitioner import partition_for
from streamfilter.engine.ports import Outgoing
from streamfilter.matching import envelope
from streamfilter.model import (
    DUPLICATES,
    Decision,
    ErrorCode,
    Headers,
    Malformed,
    Reading,
    Record,
    Unjudged,
    Verdict,
)
from streamfilter.stops import ExitCode, Stop

PREFIX = "__streamfilter."
THEIRS = PREFIX + "input."
"""What headers that look like ours are renamed to begin with."""
BATCH_OVERHEAD = 128  # a record batch's own header (61 bytes) and the first record's fields
HEADER_OVERHEAD = 10  # two varint lengths of at most five bytes
SHADOW_ALLOWANCE = 4 * 1024
"""Room for our headers on a unique record in shadow mode: two ids of 1,024 bytes and names."""


@dataclass(frozen=True, slots=True)
class Destinations:
    """Where records go, and what each place takes."""

    unique: str
    duplicates: str
    dead_letter: str | None
    inputs: int
    """Partitions of the input topic."""
    outputs: Mapping[str, int]
    """Partitions of each output topic."""
    limits: Mapping[str, int]
    """Largest record of each output topic, in bytes."""
    compacted: frozenset[str] = frozenset()
    """Topics that refuse a record without a key."""
    changelog_limit: int | None = None
    """Largest record of the changelog, in bytes; None: larger than any document."""


@dataclass(frozen=True, slots=True)
class Style:
    """How verdicts are written on records."""

    shadow: bool
    duplicates_mode: str
    """``annotate``, ``envelope`` or ``reference``."""
    scheme: str
    threshold: float


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the bytes a record may take as a batch of its own, uncompressed: an upper bound."""
    total = BATCH_OVERHEAD + len(key or b"") + len(value or b"")
    for name, content in headers:
        # A character is at most four bytes of UTF-8; names are short, so no need to encode.
        total += HEADER_OVERHEAD + 4 * len(name) + len(content or b"")
    return total


class Forwarder:
    """Writes verdicts on records."""

    def __init__(self, destinations: Destinations, style: Style) -> None:
        self._to, self._style = destinations, style
        self._allowance = SHADOW_ALLOWANCE if style.shadow else 0

    def check(self, record: Record, reading: Reading) -> Reading:
        """Return *reading*, or why *record* could not be forwarded as unique.

        It must be known before the judgement: a document that enters the index and is not
        forwarded would withhold others. What brokers refuse beyond this, they say
        (`refusals.py`).
        """
        if isinstance(reading, Malformed):
            return reading
        if record.key is None and self._to.unique in self._to.compacted:
            message = f"topic {self._to.unique} is compacted, and takes no record without a key"
            return Malformed(ErrorCode.REFUSED, message, stage="forward")
        limit = self._to.limits[self._to.unique]
        headers = _theirs(record) if self._style.shadow else record.headers
        size = size_of(record.key, record.value, headers) + self._allowance
        if size <= limit:
            return reading
        message = f"the record has up to {size} bytes; topic {self._to.unique} takes {limit}"
        return Malformed(ErrorCode.TOO_LARGE, message, stage="forward")

    def check_remembered(self, reading: Reading, remembered: int) -> Reading:
        """Return *reading*, or TOO_LARGE if the changelog cannot take its *remembered* bytes."""
        limit = self._to.changelog_limit
        size = BATCH_OVERHEAD + remembered
        if limit is None or size <= limit:
            return reading
        message = f"its changelog record has up to {size} bytes; the changelog takes {limit}"
        return Malformed(ErrorCode.TOO_LARGE, message, stage="forward")

    def unjudged(self, record: Record, reading: Unjudged | Malformed) -> Outgoing | None:
        """Return what leaves for a record that is no document; None if it is dropped."""
        if isinstance(reading, Malformed):
            return self._rejected(record, reading)
        if self._style.shadow:
            marks = [("verdict", reading.verdict.value), ("reason", reading.reason.value)]
            return self._forward(record, _headers(marks))
        return self._forward(record) if reading.verdict is Verdict.PASSTHROUGH else None

    def judged(self, record: Record, document_id: str, decision: Decision) -> Outgoing | None:
        """Return what leaves for a judged document; None if it is dropped."""
        if self._style.shadow:
            return self._annotated(self._to.unique, record, document_id, decision)
        if decision.verdict not in DUPLICATES:
            return None if decision.verdict is Verdict.DROPPED else self._forward(record)
        topic, mode = self._to.duplicates, self._style.duplicates_mode
        if mode == "annotate":
            return self._annotated(topic, record, document_id, decision)
        told = self._evidence(record, document_id, decision)
        if mode == "envelope":
            value = envelope.encode(envelope.with_payload(told, record.value))
            full = self._to_topic(topic, record, value, _theirs(record))
            if self._fits(full):
                return full
        return self._reduced(topic, record, envelope.encode(told))

    def _forward(self, record: Record, ours: Headers = ()) -> Outgoing:
        headers = _theirs(record) + ours if ours else record.headers
        return self._to_topic(self._to.unique, record, record.value, headers)

    def _annotated(
        self, topic: str, record: Record, document_id: str, decision: Decision
    ) -> Outgoing:
        """Return the original with the evidence as headers, or what of it fits."""
        ours = _headers(self._evidence_headers(record, document_id, decision))
        full = self._to_topic(topic, record, record.value, _theirs(record) + ours)
        if self._fits(full):
            return full
        if self._style.shadow:  # the record itself always fits: `check` kept room for the rest
            short = tuple(each for each in ours if each[0] != PREFIX + "matches")
            return self._to_topic(topic, record, record.value, _theirs(record) + short)
        told = self._evidence(record, document_id, decision)
        return self._reduced(topic, record, envelope.encode(told))

    def _reduced(self, topic: str, record: Record, value: bytes) -> Outgoing:
        """Return *value* with as much of the record's headers and key as fits."""
        full = self._to_topic(topic, record, value, _theirs(record))
        if self._fits(full):
            return full
        bare = self._to_topic(topic, record, value, ())
        return bare if self._fits(bare) else self._without_key(bare, record)

    def _evidence(self, record: Record, document_id: str, decision: Decision) -> envelope.Json:
        return envelope.evidence(
            decision,
            document_id=document_id,
            source=record.source,
            scheme=self._style.scheme,
            threshold=self._style.threshold,
        )

    def _evidence_headers(
        self, record: Record, document_id: str, decision: Decision
    ) -> Iterator[tuple[str, object]]:
        yield "schema", envelope.SCHEMA
        yield "verdict", decision.verdict.value
        yield "id", document_id
        if best := decision.match:
            yield "match.id", best.document_id
            yield "match.similarity", round(best.similarity, 6)
            yield "match.topic", best.source.topic
            yield "match.partition", best.source.partition
            yield "match.offset", best.source.offset
            yield "matches", envelope.encode(envelope.matches(decision)).decode()
        yield "canonical.id", envelope.canonical_id(decision, document_id)
        yield "source.topic", record.source.topic
        yield "source.partition", record.source.partition
        yield "source.offset", record.source.offset
        yield "scheme", self._style.scheme
        yield "p_false_positive", envelope.p_false_positive(decision)

    def _rejected(self, record: Record, malformed: Malformed) -> Outgoing:
        """Return the dead letter: original bytes if they fit, else a reference without value."""
        topic = self._to.dead_letter
        if topic is None:
            raise Stop(
                f"{record.source.topic}/{record.source.partition} at {record.source.offset}: "
                f"{malformed.code.value}: {malformed.message}; output.dead_letter is not "
                "configured, and no record is ever dropped: name a topic for such records",
                exit_code=ExitCode.CONFIG,
            )
        ours = _headers(
            [
                ("error.stage", malformed.stage),
                ("error.code", malformed.code.value),
                ("error.message", malformed.message),
                ("error.topic", record.source.topic),
                ("error.partition", record.source.partition),
                ("error.offset", record.source.offset),
            ]
        )
        theirs = _theirs(record)
        if malformed.code is ErrorCode.REFUSED:
            # What one topic refuses, this one may refuse too: it gets a letter of the present.
            ours += _headers([("error.timestamp", record.timestamp)])
            record = replace(record, timestamp=-1)
        letter = self._to_topic(topic, record, record.value, theirs + ours)
        if self._fits(letter):
            return letter
        ours += _headers([("error.value_bytes", len(record.value or b""))])
        for headers in (theirs + ours, ours):
            letter = self._to_topic(topic, record, None, headers)
            if self._fits(letter):
                return letter
        return self._without_key(letter, record)

    def _to_topic(
        self, topic: str, record: Record, value: bytes | None, headers: Headers
    ) -> Outgoing:
        partition = partition_for(record, inputs=self._to.inputs, outputs=self._to.outputs[topic])
        # Unique ones never come without a key where it is wanted: `check` rejects them.
        key = self._key_of_ours(topic, record) if record.key is None else record.key
        return Outgoing(topic, partition, key, value, headers, record.timestamp, record.source)

    def _without_key(self, out: Outgoing, record: Record) -> Outgoing:
        """Return *out* without its key: only a key of nearly the topic's limit leads here."""
        return replace(out, key=self._key_of_ours(out.topic, record))

    def _key_of_ours(self, topic: str, record: Record) -> bytes | None:
        """Return a key that no other record has, so that it is not compacted away, if any must be.

        A compacted topic takes no record without one.
        """
        source = record.source
        if topic not in self._to.compacted:
            return None
        return f"{source.topic}/{source.partition}/{source.offset}".encode()

    def _fits(self, out: Outgoing) -> bool:
        return size_of(out.key, out.value, out.headers) <= self._to.limits[out.topic]


def _theirs(record: Record) -> Headers:
    """Return the record's own headers, with none that could be taken for ours."""
    if not any(name.startswith(PREFIX) for name, _ in record.headers):
        return record.headers
    return tuple(
        (THEIRS + name.removeprefix(PREFIX) if name.startswith(PREFIX) else name, value)
        for name, value in record.headers
    )


def _headers(pairs: Iterable[tuple[str, object]]) -> Headers:
    return tuple((PREFIX + name, str(value).encode()) for name, value in pairs)
