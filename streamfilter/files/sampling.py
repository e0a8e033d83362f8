"""Inputs as documents, and the first of them as a file that a run can be given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from streamfilter.assembly import reader_for
from streamfilter.config.configuration import Config
from streamfilter.files.lines import records_of
from streamfilter.model import Document, Malformed, Record
from streamfilter.stops import BrokenInput


def copy_first(inputs: Sequence[str], path: Path, *, records: int) -> None:
    """Copy the first *records* lines of *inputs* to *path*."""
    with path.open("wb") as file:
        for record in islice(records_of(inputs), records):
            file.write((record.value or b"") + b"\n")


Rejected = Callable[[Record, Malformed], None]
"""Hears of a record that cannot be read."""


def refuse(record: Record, malformed: Malformed) -> None:
    """Stop at a line that cannot be read."""
    raise BrokenInput(
        f"{record.source.topic}, line {record.source.offset}: {malformed.code.value}: "
        f"{malformed.message}\n"
        "    cure: each line is a JSON object with a text and an id; other fields are "
        "named by --text and --id, such as --text /body --id none"
    )


def pass_over(record: Record, malformed: Malformed) -> None:
    """Leave out a line that cannot be read."""


def documents_of(
    inputs: Sequence[str],
    config: Config,
    *,
    rejected: Rejected = refuse,
    advanced: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[str, str]]:
    """Yield (id, text) of each document of *inputs*; what has no text is left out.

    Raises:
        BrokenInput: a line cannot be read, unless *rejected* takes it.
    """
    reader = reader_for(config)
    for record in records_of(inputs, advanced=advanced):
        reading = reader.read(record)
        if isinstance(reading, Document):
            yield reading.id, reading.text
        elif isinstance(reading, Malformed):
            rejected(record, reading)
