"""The evidence of a verdict as headers: the values of `envelope.evidence`, in bytes.

All our headers begin with `PREFIX`. A header is added here, and its field in `envelope.evidence`.
"""

from collections.abc import Iterable
from functools import lru_cache

from streamfilter.matching.verdict import envelope
from streamfilter.matching.verdict.decision import SAME_FIELD, SAME_ID
from streamfilter.model import SEEDS_FROM, Decision, Headers, Record, Source, Verdict

PREFIX = "__streamfilter."
THEIRS = PREFIX + "input."  # new prefix of input headers that look like ours


def evidence_headers(
    record: Record, document_id: str, decision: Decision, scheme: bytes
) -> Headers:
    """Return the evidence as headers, one by one: most of the time that forwarding takes."""
    best, source = decision.match, record.source
    found = envelope.matches(decision)
    own = document_id.encode()
    about: Headers = (_SCHEMA, _VERDICTS[decision.verdict], ("__streamfilter.id", own))
    if best is not None:
        place, own = best.source, best.document_id.encode()
        about += (
            ("__streamfilter.match.id", own),
            ("__streamfilter.match.similarity", _number(found[0]["similarity"])),
        )
        if place.partition < SEEDS_FROM:
            about += (
                ("__streamfilter.match.topic", place.topic.encode()),
                ("__streamfilter.match.partition", b"%d" % place.partition),
                ("__streamfilter.match.offset", b"%d" % place.offset),
            )
        else:
            about += our_headers((f"match.{name}", each) for name, each in place.place.items())
        about += (("__streamfilter.matches", envelope.encode(found)),)
    if decision.method in _BY_NAME:
        about += (_BY_NAME[decision.method],)
    if decision.matches_truncated:
        about += (_TRUNCATED,)
    return (
        *about,
        ("__streamfilter.canonical.id", own),
        ("__streamfilter.source.topic", source.topic.encode()),
        ("__streamfilter.source.partition", b"%d" % source.partition),
        ("__streamfilter.source.offset", b"%d" % source.offset),
        ("__streamfilter.scheme", scheme),
        ("__streamfilter.p_false_positive", _number(envelope.p_false_positive(decision))),
    )


_TRUNCATED = (PREFIX + "matches_truncated", b"true")
"""Added only if the list of matches was truncated."""
_BY_NAME = {each: (PREFIX + "method", each.encode()) for each in (SAME_ID, SAME_FIELD)}
"""Added only if the id or a field alone decided: the similarity says nothing about the texts."""
_SCHEMA = (PREFIX + "schema", b"%d" % envelope.SCHEMA)
_VERDICTS = {each: (PREFIX + "verdict", each.encode()) for each in Verdict}


@lru_cache(maxsize=envelope.SHARES, typed=True)  # 1 and 1.0 are equal, but written differently
def _number(value: float) -> bytes:
    return b"%r" % value


def our_headers(pairs: Iterable[tuple[str, object]]) -> Headers:
    return tuple((PREFIX + name, str(value).encode()) for name, value in pairs)


def theirs_of(record: Record) -> Headers:
    """Return the record's own headers, after renaming those that look like ours."""
    if not any(name.startswith(PREFIX) for name, _ in record.headers):
        return record.headers
    return tuple(
        (THEIRS + name.removeprefix(PREFIX) if name.startswith(PREFIX) else name, value)
        for name, value in record.headers
    )


def original_headers(headers: Headers) -> Headers:
    """Return the headers that `theirs_of` was given: under their first names, without ours."""
    return tuple(
        (PREFIX + name.removeprefix(THEIRS) if name.startswith(THEIRS) else name, value)
        for name, value in headers
        if name.startswith(THEIRS) or not name.startswith(PREFIX)
    )


def key_of_ours(source: Source) -> bytes:
    """Return the key that a record without one gets on a compacted output."""
    return f"{source.topic}/{source.partition}/{source.offset}".encode()
