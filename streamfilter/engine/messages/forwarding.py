"""Forwarding: makes the output record from an input record and its verdict. It uses no index.

A unique record is forwarded byte for byte. A duplicate is forwarded with the evidence in headers,
or as an envelope, or as a reference. An unreadable record goes to the dead-letter topic with the
reason. A record that no topic would accept was found before the judgement (`batch_preparation.py`).
Otherwise one record that is too large would fail its transaction again and again.

An input record may have headers that look like ours: from another filter's output, or forged. On
every record that gets our headers they are renamed, to begin with `__streamfilter.input.`. There,
every other `__streamfilter.` header is ours. A unique record keeps its headers, and has none of
ours.
"""

import dataclasses
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.engine.ports import Layout, Outgoing
from streamfilter.index.protocol import Index
from streamfilter.matching.batch import Decided
from streamfilter.matching.blocking.forgetting import NO_ORDINALS
from streamfilter.matching.verdict import envelope
from streamfilter.matching.verdict.decision import UNIQUE
from streamfilter.matching.verdict.evidence_headers import (
    PREFIX,
    evidence_headers,
    key_of_ours,
    our_headers,
    theirs_of,
)
from streamfilter.model import (
    OUTPUTS,
    Decision,
    ErrorCode,
    Headers,
    Malformed,
    Positions,
    Record,
    Unjudged,
)
from streamfilter.similarity.columns import I64
from streamfilter.stops import ExitCode, Stop

BATCH_OVERHEAD = 128  # a record batch's own header (61 bytes) and the first record's fields
ALONE_OVERHEAD = 61 + 8  # the first record's fields without key, value and headers: at most 8 bytes


class Destinations(Struct, frozen=True):
    """The output topics, with their limits."""

    unique: str
    duplicates: str
    dead_letter: str | None
    limits: Mapping[str, int]  # largest record of each output topic, in bytes
    compacted: set[str] = field(default_factory=set)
    """Topics that refuse a record without a key. The set grows if a topic becomes compacted."""
    changelog_limit: int | None = None
    """Largest record of the changelog, in bytes; None: larger than any document."""

    def letters(self, code: ErrorCode) -> str | None:
        """Return the topic for a dead letter with this *code*; None: there is none."""
        return self.dead_letter

    def role_of(self, topic: str) -> str:
        """Return the role of *topic*, as metrics name it (`catalogue.DESTINATIONS`)."""
        return {self.unique: "unique", self.duplicates: "duplicates"}.get(topic, "dead_letter")


class Style(Struct, frozen=True):
    """The format of verdicts on output records."""

    shadow: bool
    duplicates_mode: str  # ``annotate``, ``envelope`` or ``reference``
    scheme: str
    threshold: float


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the bytes of a record, alone in an uncompressed batch: brokers compare them.

    It is exact up to four bytes: a record as large as the input accepts fits an output like it.
    """
    total = ALONE_OVERHEAD + _length_bytes(len(headers))
    for length in (len(key or b""), len(value or b"")):
        total += _length_bytes(length) + length
    for name, content in headers:
        n = len(name) if name.isascii() else len(name.encode())
        v = 0 if content is None else len(content)
        total += n + v + (2 if n < 64 and v < 64 else _length_bytes(n) + _length_bytes(v))
    return total


def _length_bytes(length: int) -> int:
    """Return how many bytes a *length* takes: Kafka writes it doubled, seven bits in a byte."""
    return max(1, ((2 * length).bit_length() + 6) // 7)


class Forwarder:
    """Makes the output records of a batch."""

    def __init__(self, destinations: Destinations, style: Style, layout: Layout) -> None:
        self._to, self._style = destinations, style
        self._scheme = style.scheme.encode()
        self.begin(layout)

    def begin(self, layout: Layout, writer: bytes = b"") -> None:
        self._inputs, self._outputs = layout.placing, layout.outputs

    def written(
        self, decided: Decided | None, before: Positions, after: Positions
    ) -> list[Outgoing]:
        if decided is None:
            return []
        records, ids = decided.prepared.records, decided.prepared.ids
        usual = None if self._style.shadow else UNIQUE  # nearly all
        leaving = [
            self._to_topic(self._to.unique, record, record.value, record.headers)
            if outcome is usual
            else self.output(record, outcome, ids.get(row, ""))
            for row, (record, outcome) in enumerate(zip(records, decided.outcomes, strict=True))
        ]
        return [each for each in leaving if each is not None]

    def retracts(self, index: Index) -> I64:
        return NO_ORDINALS

    @property
    def owes(self) -> bool:
        """Return False: without a record, nothing leaves."""
        return False

    def committed(self) -> None:
        """Nothing waits for a commit."""

    def output(
        self, record: Record, outcome: Decision | Unjudged | Malformed, document_id: str = ""
    ) -> Outgoing | None:
        """Return the output of a record; None if it is dropped."""
        if isinstance(outcome, Malformed):
            return self._rejected(record, outcome)
        shadow, output = self._style.shadow, OUTPUTS.get(outcome.verdict)
        if isinstance(outcome, Decision) and (shadow or output == "duplicates"):
            return self._with_evidence(record, document_id, outcome)
        headers = record.headers
        if shadow and outcome.reason is not None:
            marks = [("verdict", outcome.verdict.value), ("reason", outcome.reason.value)]
            headers = theirs_of(record) + our_headers(marks)
        if output is None and not shadow:
            return None
        return self._to_topic(self._to.unique, record, record.value, headers)

    def _with_evidence(self, record: Record, document_id: str, decision: Decision) -> Outgoing:
        mode = self._style.duplicates_mode
        if mode == "annotate" or self._style.shadow:
            return self._annotated(record, document_id, decision)
        evidence = self._evidence(record, document_id, decision)
        if mode == "envelope":
            value = envelope.encode(envelope.with_payload(evidence, record.value))
            full = self._to_topic(self._to.duplicates, record, value, theirs_of(record))
            if self._fits(full):
                return full
        return self._reduced(record, evidence)

    def _evidence(self, record: Record, document_id: str, decision: Decision) -> envelope.Json:
        return envelope.evidence(
            decision,
            document_id=document_id,
            source=record.source,
            scheme=self._style.scheme,
            threshold=self._style.threshold,
        )

    def _annotated(self, record: Record, document_id: str, decision: Decision) -> Outgoing:
        """Return the original with the evidence as headers; if that is too large, with less."""
        shadow = self._style.shadow
        topic = self._to.unique if shadow else self._to.duplicates
        ours = evidence_headers(record, document_id, decision, self._scheme)
        full = self._to_topic(topic, record, record.value, theirs_of(record) + ours)
        if self._fits(full):
            return full
        if shadow:  # this always fits: `incoming` reserves `SHADOW_ALLOWANCE`
            short = tuple(each for each in ours if each[0] != PREFIX + "matches")
            return self._to_topic(topic, record, record.value, theirs_of(record) + short)
        return self._reduced(record, self._evidence(record, document_id, decision))

    def _reduced(self, record: Record, evidence: envelope.Json) -> Outgoing:
        """Return the evidence without the value; headers, then the key, only if they fit."""
        topic, value = self._to.duplicates, envelope.encode(evidence)
        full = self._to_topic(topic, record, value, theirs_of(record))
        if self._fits(full):
            return full
        bare = self._to_topic(topic, record, value, ())
        return bare if self._fits(bare) else self._without_key(bare, record)

    def _rejected(self, record: Record, malformed: Malformed) -> Outgoing:
        """Return the dead letter: original bytes if they fit, else a reference without a value."""
        topic = self._to.letters(malformed.code)
        if topic is None:
            raise Stop(
                f"{record.source.topic}/{record.source.partition} at {record.source.offset}: "
                f"{malformed.code.value}: {malformed.message}; output.dead_letter is not "
                "configured, and no record is ever dropped: name a topic for such records",
                exit_code=ExitCode.CONFIG,
            )
        said = envelope.rejection(malformed, source=record.source)
        ours = our_headers(
            (f"error.{k}", v) for k, v in {**said["error"], **said["source"]}.items()
        )
        theirs = theirs_of(record)
        if malformed.code is ErrorCode.REFUSED:
            # This topic may refuse the same timestamp, so the letter gets the present time.
            ours += our_headers([("error.timestamp", record.timestamp)])
            record = dataclasses.replace(record, timestamp=-1)
        letter = self._to_topic(topic, record, record.value, theirs + ours)
        if self._fits(letter):
            return letter
        ours += our_headers([("error.value_bytes", len(record.value or b""))])
        for headers in (theirs + ours, ours):
            letter = self._to_topic(topic, record, None, headers)
            if self._fits(letter):
                return letter
        return self._without_key(letter, record)

    def _to_topic(
        self, topic: str, record: Record, value: bytes | None, headers: Headers
    ) -> Outgoing:
        partition = partition_for(record, inputs=self._inputs, outputs=self._outputs[topic])
        # A unique record has a key if the topic needs one: `incoming` rejects it otherwise.
        key = self._key_of_ours(topic, record) if record.key is None else record.key
        return Outgoing(topic, partition, key, value, headers, record.timestamp, record.source)

    def _without_key(self, out: Outgoing, record: Record) -> Outgoing:
        """Return *out* without its original key, which alone is nearly as large as the limit."""
        return replace(out, key=self._key_of_ours(out.topic, record))

    def _key_of_ours(self, topic: str, record: Record) -> bytes | None:
        """Return a unique key for a compacted topic, which needs one, else None."""
        return key_of_ours(record.source) if topic in self._to.compacted else None

    def _fits(self, out: Outgoing) -> bool:
        return size_of(out.key, out.value, out.headers) <= self._to.limits[out.topic]


_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 of *data* as an unsigned 32-bit number."""
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for(record: Record, *, inputs: int, outputs: int) -> int:
    """Return the output partition of *record*: the input's, if both topics have the same number.

    So records of one partition stay together. Otherwise the key decides, with murmur2. That is
    Java's default, not librdkafka's CRC32, so that Java producers choose the same partition.

    A record without a key is spread by its source position. So a replay sends it to the same
    partition (Java would choose at random).
    """
    if inputs == outputs:
        return record.source.partition
    if record.key is None:
        return (record.source.partition + record.source.offset) % outputs
    return (murmur2(record.key) & 0x7FFFFFFF) % outputs
