"""Reads the outputs of a finished run over files, for its evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamfilter.assembly import reader_for
from streamfilter.config.configuration import Config
from streamfilter.files.inputs import records_in
from streamfilter.files.lines import lines_of
from streamfilter.matching import envelope
from streamfilter.model import Verdict
from streamfilter.quality.run import Given, Placed, Run
from streamfilter.quality.run_reading import digest, given_of, placed_of
from streamfilter.stops import BrokenInput


def read_run(
    inputs: Sequence[str],
    config: Config,
    *,
    unique: str,
    duplicates: str,
    dead_letter: str | None,
) -> Run:
    """Return the records of *inputs*, and the output that each one went to.

    If the configuration drops short texts, any record may be missing: only the filter could say
    which texts are short.

    Raises:
        Stop: a file cannot be read, or an output has another format; names the line.
    """
    given = list(_given(inputs, config))
    forwarded = records_in([unique], config)
    placed = [Placed("unique", Verdict.UNIQUE, digest(each.value or b"")) for each in forwarded]
    placed += _envelopes(duplicates, "duplicates")
    if dead_letter is not None:
        placed += _envelopes(dead_letter, "dead_letter")
    return Run(given, placed)


def _given(inputs: Sequence[str], config: Config) -> Iterator[Given]:
    reader, short_dropped = reader_for(config), config.input.short_text == "drop"
    for rank, record in enumerate(records_in(inputs, config)):
        yield given_of(record, reader, order=(rank,), droppable=short_dropped)


def _envelopes(path: str, place: str) -> Iterator[Placed]:
    for line in lines_of(path):
        try:
            record = envelope.decode(line.value or b"")
        except ValueError as error:
            raise BrokenInput(f"{path}, line {line.source.offset}: {error}") from None
        yield placed_of(record, place)
