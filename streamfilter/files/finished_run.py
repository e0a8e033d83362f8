"""Reading a finished run over files back, for its evaluation.

The digests of texts are made here and not by the code under test: equal means equal after
NFKC, case folding, without format characters, and with white space collapsed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import blake2b

from streamfilter import envelope
from streamfilter.documents import Reader
from streamfilter.evaluation import Given, Placed, Run
from streamfilter.files.lines import Input, Line
from streamfilter.model import Document, Record, Source, Unjudged, Verdict
from streamfilter.stops import BrokenInput


def read_run(
    inputs: Sequence[str],
    reader: Reader,
    *,
    unique: str,
    duplicates: str,
    dead_letter: str | None,
    short_dropped: bool = False,
) -> Run:
    """Return what *inputs* hold and where the outputs have it.

    ``short_dropped`` says that the configuration drops short texts: only the filter itself
    could say which those are.

    Raises:
        Stop: if a file cannot be read, or an output holds something else; names the line.
    """
    given = list(_given(inputs, reader, short_dropped))
    placed = [Placed("unique", Verdict.UNIQUE, digest(line.raw)) for _, line in _lines(unique)]
    placed += _envelopes(duplicates, "duplicates")
    if dead_letter is not None:
        placed += _envelopes(dead_letter, "dead_letter")
    return Run(given, placed)


def digest(data: bytes) -> bytes:
    """Return 16 bytes that differ when *data* does."""
    return blake2b(data, digest_size=16).digest()


def text_digest(text: str) -> bytes:
    """Return 16 bytes that differ when the normalised *text* does."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if not folded.isascii():
        folded = "".join(char for char in folded if unicodedata.category(char) != "Cf")
    return digest(" ".join(folded.split()).encode("utf-8", "surrogatepass"))


def given_of(record: Record, reader: Reader, *, order: tuple[int, ...], droppable: bool) -> Given:
    """Return *record* as an evaluation sees it."""
    reading = reader.read(record)
    document = reading if isinstance(reading, Document) else None
    dropped = isinstance(reading, Unjudged) and reading.verdict is Verdict.DROPPED
    return Given(
        source=record.source,
        order=order,
        raw=digest(record.value or b""),
        id=document.id if document else None,
        text=text_digest(document.text) if document else b"",
        droppable=dropped or droppable,
    )


def _given(inputs: Sequence[str], reader: Reader, short_dropped: bool) -> Iterator[Given]:
    rank = 0
    for path in inputs:
        for name, line in _lines(path):
            record = Record(Source(name, 0, line.number), None, line.raw)
            yield given_of(record, reader, order=(rank,), droppable=short_dropped)
            rank += 1


def _envelopes(path: str, place: str) -> Iterator[Placed]:
    for _, line in _lines(path):
        try:
            record = envelope.decode(line.raw)
        except ValueError as error:
            raise BrokenInput(f"{path}, line {line.number}: {error}") from None
        yield placed_of(record, place)


def placed_of(record: envelope.Envelope, place: str) -> Placed:
    """Return a record of evidence as an evaluation sees it."""
    value = record.value
    best = record.matches[0] if record.matches else None
    return Placed(
        place=place,
        verdict=record.verdict,
        raw=None if value is None else digest(value),
        source=record.source.source if record.source else None,
        match_id=best.id if best else None,
        similarity=best.similarity if best else 0.0,
        match_sources=tuple(match.source for match in record.matches),
    )


def _lines(path: str) -> Iterator[tuple[str, Line]]:
    with closing(Input(path)) as input_:
        for batch in input_.batches(documents=10_000, size=1 << 22):
            for line in batch.lines:
                yield input_.name, line
