"""Converts records and envelopes, from files or topics, into the values of an evaluation.

The digests of texts are made here and not by the code under test. Texts are equal if they are equal
after NFKC, case folding and removal of invisible characters. White space is collapsed, and removed
between two characters of scripts without spaces.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import blake2b

from streamfilter.documents.reader import Reader
from streamfilter.matching.verdict import envelope
from streamfilter.model import Document, Record, Unjudged, Verdict
from streamfilter.quality.run import Given, Placed
from streamfilter.similarity.digests import Digester
from streamfilter.similarity.text.code_points import pattern, visible
from streamfilter.similarity.text.ordering import normal_form


def digest(data: bytes) -> bytes:
    """Return 16 bytes that differ when *data* does."""
    return blake2b(data, digest_size=16).digest()


def text_digest(text: str) -> bytes:
    """Return 16 bytes that differ when the normalised *text* does."""
    folded = " ".join(normal_form("NFKC", visible(text)).casefold().split())
    if not folded.isascii():
        folded = _wrapped().sub("", folded)
    return digest(folded.encode("utf-8", "surrogatepass"))


@cache
def _wrapped() -> re.Pattern[str]:
    unspaced, mark = pattern("unspaced"), pattern("mark")
    return re.compile(f"(?<=[{unspaced}{mark}]) (?=[{unspaced}])")


def given_of(
    record: Record, reader: Reader, digester: Digester, *, order: tuple[int, ...], droppable: bool
) -> Given:
    """Return *record* as an input of the evaluation; *digester* makes what a match must share."""
    reading = reader.read(record)
    document = reading if isinstance(reading, Document) else None
    dropped = isinstance(reading, Unjudged) and reading.verdict is Verdict.DROPPED
    return Given(
        source=record.source,
        order=order,
        raw=digest(record.value or b""),
        id=document.id if document else None,
        text=text_digest(document.text) if document else b"",
        beside=digester.shared(document.text, document.values) if document else b"",
        droppable=dropped or droppable,
    )


def placed_of(record: envelope.Envelope, place: str) -> Placed:
    """Return a record of evidence as an output of the evaluation."""
    value = record.value
    best = record.matches[0] if record.matches else None
    return Placed(
        place=place,
        verdict=record.verdict,
        raw=None if value is None else digest(value),
        source=record.source.source if record.source else None,
        match_id=best.id if best else None,
        similarity=best.similarity if best else 0.0,
        containment=best.containment if best else None,
        match_sources=tuple(match.source for match in record.matches),
        method=record.method,
    )
