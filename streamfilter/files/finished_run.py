"""Reading a finished run over files back, for its evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from streamfilter.documents.reader import Reader
from streamfilter.evaluation.reading import digest, given_of, placed_of
from streamfilter.evaluation.run import Given, Placed, Run
from streamfilter.files.lines import InputFile, Line
from streamfilter.matching import envelope
from streamfilter.model import Record, Source, Verdict
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


def _lines(path: str) -> Iterator[tuple[str, Line]]:
    with closing(InputFile(path)) as input_:
        for batch in input_.batches(documents=10_000, size=1 << 22):
            for line in batch.lines:
                yield input_.name, line
