"""Reads the documents of inputs, and copies their first records to a file for a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

from streamfilter.assembly import reader_for
from streamfilter.config.configuration import Config
from streamfilter.documents.rows import place_of
from streamfilter.files.inputs import opened, read_in
from streamfilter.files.outputs import OutputFile
from streamfilter.files.stretches import records_of
from streamfilter.model import Document, Malformed, Record
from streamfilter.stops import BrokenInput


def copy_first(inputs: Sequence[str], config: Config, path: Path, *, records: int) -> None:
    """Copy the first *records* records of *inputs* to *path*, a file of their format."""
    reader = reader_for(config)
    with opened(inputs, config, reader, str(path)) as files, ExitStack() as stack:
        output = OutputFile(str(path))
        stack.callback(output.discard)
        writer = files[0].writer(output)
        for record in islice(chain.from_iterable(map(records_of, files)), records):
            writer.add(record)
        writer.finish()
        output.complete()
        output.publish()


Rejected = Callable[[Record, Malformed], None]
"""Called for a record that cannot be read."""


def refuse(record: Record, malformed: Malformed) -> None:
    """Stop at a line that cannot be read."""
    raise BrokenInput(
        f"{place_of(record)}: {malformed.code.value}: {malformed.message}\n"
        "    cure: each line is a JSON object with a text and an id; other fields, or columns, are "
        "named by --text and --id, such as --text /body --id none"
    )


def pass_over(record: Record, malformed: Malformed) -> None:
    """Skip a line that cannot be read."""


def documents_of(
    inputs: Sequence[str],
    config: Config,
    *,
    rejected: Rejected = refuse,
    advanced: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[str, str]]:
    """Yield (id, text) of each document of *inputs*; records without a text are skipped.

    Raises:
        BrokenInput: a line cannot be read, unless *rejected* handles it.
    """
    for record, reading in read_in(inputs, config, advanced=advanced):
        if isinstance(reading, Document):
            yield reading.id, reading.text
        elif isinstance(reading, Malformed):
            rejected(record, reading)
