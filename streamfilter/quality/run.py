"""The values of an evaluation: inputs, outputs and the truth, from files or topics.

The digests of texts are made here and not by the code under test. Texts are equal if they are equal
after NFKC, case folding and removal of invisible characters. White space is collapsed, and removed
between two characters of scripts without spaces.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import blake2b

from msgspec import Struct

from streamfilter.documents.reader import Reader
from streamfilter.matching.verdict import envelope
from streamfilter.model import Document, Record, Source, Unjudged, Verdict
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


class Given(Struct, frozen=True):
    """One input record of a run."""

    source: Source
    order: tuple[int, ...]
    """Place in the order of judgement: a rank for files, (batch, partition, offset) for topics."""
    raw: bytes  # digest of the record's bytes
    id: str | None  # document id; None if the record cannot be read
    text: bytes  # digest of its normalised text; empty if it cannot be read
    beside: bytes = b""
    """Digests of its scope and of what a match must agree in: they are the same in a match."""
    droppable: bool = False
    """Whether the configuration may drop the record, so that it is in no output."""


class Placed(Struct, frozen=True):
    """One output record of a run."""

    place: str  # ``unique``, ``duplicates`` or ``dead_letter``
    verdict: Verdict
    raw: bytes | None = None  # digest of the original bytes, None if the output does not hold them
    source: Source | None = None  # source that the evidence states
    match_id: str | None = None
    similarity: float = 0.0  # similarity to the best match, as the evidence states it
    match_sources: tuple[Source, ...] = ()  # sources of all matches, the best first
    containment: float | None = None
    """Containment of the best match, as the evidence states it; None without verify.containment."""
    method: str | None = None  # why it was withheld, as the evidence states it


class Run(Struct, frozen=True):
    """The inputs and outputs of a run."""

    given: Sequence[Given]  # in the order of judgement
    placed: Sequence[Placed]
    notes: tuple[str, ...] = ()
    """Remarks on the origin of inputs and outputs, for the reader of the report."""


class Truth:
    """Exact similarities of pairs of ids; a pair that is not listed is below the list's floor."""

    def __init__(
        self,
        pairs: Iterable[tuple[str, str, float]],
        contained: Iterable[tuple[str, str]] | None = None,
    ) -> None:
        """Hold *pairs*, and the (later, earlier) ones that are *contained*; None: not known."""
        self._contained = None if contained is None else frozenset(contained)
        self._neighbours: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for left, right, similarity in pairs:
            self._neighbours[left][right] = similarity
            self._neighbours[right][left] = similarity

    def neighbours(self, id_: str) -> dict[str, float]:
        return self._neighbours.get(id_, {})

    @property
    def knows_containment(self) -> bool:
        """Return whether the truth says which texts are contained in others."""
        return self._contained is not None

    def contained(self, later: str, earlier: str) -> bool:
        return self._contained is not None and (later, earlier) in self._contained

    def ids(self) -> set[str]:
        return set(self._neighbours)
