"""The evidence of a verdict as JSON: the same format for topics, files and headers.

`evidence` returns the record of a verdict, and `with_payload` adds the original value. Both are
plain dictionaries in the order of the output, so equal decisions give equal bytes. The schema is
`schemas/envelope.json`.
"""

import base64
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import msgspec

from streamfilter.model import SEEDS_FROM, Decision, Malformed, Match, Record, Source, Verdict

SCHEMA = 1  # version of the envelope; raised when a field changes its meaning or is removed

SHARES = 16_384
"""Rounded numbers that are cached. Shares of two counts repeat often, and rounding one takes as
long as the rest of a match."""

MATCHES_BYTES_MAX = 3_072
"""Bound on the matches of a duplicate as JSON; the best match always stays. An id may have 1 KB,
and a duplicate only 80 bytes. Without a bound eight such matches would make the output record 114
times as large as the input record."""
MATCH_BYTES = 125  # most bytes of a match as JSON, without its id and its topic

Json = dict[str, Any]


class SourcePlace(msgspec.Struct, frozen=True):
    """Where a record came from, as an envelope spells it."""

    topic: str = ""
    partition: int = SEEDS_FROM
    offset: int = 0
    seed: str = ""
    line: int = 0

    @property
    def source(self) -> Source:
        """Return it as the model's `Source`."""
        if self.seed:
            return Source(self.seed, SEEDS_FROM, self.line)
        return Source(self.topic, self.partition, self.offset)


class Matched(SourcePlace, frozen=True, kw_only=True):
    """One match of an envelope."""

    id: str
    similarity: float
    containment: float | None = None


class Envelope(msgspec.Struct, frozen=True):
    """The fields of an envelope that our readers need; others are ignored."""

    verdict: Verdict
    id: str | None = None
    source: SourcePlace | None = None
    method: str | None = None
    matches: tuple[Matched, ...] = ()
    payload: str | None = None
    payload_encoding: str | None = None

    @property
    def value(self) -> bytes | None:
        """Return the original bytes, None for a reference or a record without value."""
        if self.payload is None or self.payload_encoding is None:
            return None
        if self.payload_encoding == "base64":
            return base64.b64decode(self.payload)
        return self.payload.encode()


def evidence(
    decision: Decision, *, document_id: str, source: Source, scheme: str, threshold: float
) -> Json:
    """Return the verdict on one document with its evidence (output mode ``reference``)."""
    found = matches(decision)
    best = found[0] if found else {"id": document_id, "similarity": None}
    return {
        "schema": SCHEMA,
        "verdict": str(decision.verdict),
        "id": document_id,
        "similarity": best["similarity"],
        "method": decision.method or None,
        "threshold": threshold,
        "matches": found,
        "matches_truncated": decision.matches_truncated,
        "canonical_id": best["id"],  # the document forwarded in its place
        "scheme": scheme,
        "p_false_positive": p_false_positive(decision),
        "source": source.place,
    }


def p_false_positive(decision: Decision) -> float:
    """Return the probability of a wrong verdict, to 6 significant digits."""
    return _significant(decision.p_false_positive) if decision.p_false_positive else 0.0


def matches(decision: Decision) -> list[Json]:
    return [*map(_match, decision.matches)]


def within(matches: Sequence[Match]) -> Sequence[Match]:
    """Return the first of *matches*, and as many others as fit in `MATCHES_BYTES_MAX`."""
    if len(matches) == 1:
        return matches
    sizes = (
        len(msgspec.json.encode(each.document_id)) + len(each.source.topic) + MATCH_BYTES
        for each in matches
    )
    fits = sum(total <= MATCHES_BYTES_MAX for total in accumulate(sizes))
    return matches[: max(fits, 1)]


def with_payload(record: Json, value: bytes | None) -> Json:
    """Return *record* followed by the original value (output mode ``envelope``).

    ``payload_encoding`` is ``utf-8`` if the value is text, else ``base64``; both are null for a
    record without a value.
    """
    if value is None:
        return {**record, "payload": None, "payload_encoding": None}
    try:
        return {**record, "payload": value.decode(), "payload_encoding": "utf-8"}
    except UnicodeDecodeError:
        payload = base64.b64encode(value).decode("ascii")
        return {**record, "payload": payload, "payload_encoding": "base64"}


def rejection(malformed: Malformed, *, source: Source) -> Json:
    """Return a dead letter as JSON: the error and the record's source."""
    return {
        "schema": SCHEMA,
        "verdict": Verdict.REJECTED.value,
        "error": {
            "stage": malformed.stage,
            "code": malformed.code.value,
            "message": malformed.message,
        },
        "source": source.place,
    }


def dead_letter(malformed: Malformed, record: Record) -> bytes:
    """Return a dead letter as one line of JSON: error, source and original bytes."""
    return encode(with_payload(rejection(malformed, source=record.source), record.value))


def encode(value: Any) -> bytes:
    """Return *value* as one line of JSON in UTF-8, keys in their order."""
    return msgspec.json.encode(value)


def pretty(value: Any) -> str:
    """Return *value* as indented JSON for reading, keys in their order."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def decode(line: bytes) -> Envelope:
    """Return the envelope in *line*, or raise `ValueError`."""
    try:
        return _ENVELOPE.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"no envelope of streamfilter: {error}") from None


_ENVELOPE = msgspec.json.Decoder(Envelope)


def _match(match: Match) -> Json:
    fields: Json = {"id": match.document_id, "similarity": similarity(match.similarity)}
    if match.containment is not None:
        fields["containment"] = similarity(match.containment)
    fields["bands"] = match.bands
    return fields | match.source.place


def located(place: Json) -> Source:
    """Return the source that evidence spells as *place*, perhaps with other fields."""
    return msgspec.convert(place, SourcePlace).source


@lru_cache(maxsize=SHARES)
def _significant(probability: float) -> float:
    return float(f"{probability:.6g}")


@lru_cache(maxsize=SHARES)
def similarity(share: float) -> float:
    """Return *share* to 6 decimals; these identify a share of two counts."""
    return round(share, 6)
