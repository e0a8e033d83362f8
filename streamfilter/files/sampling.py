"""Inputs as documents, and the first of them as a file that a run can be given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

from streamfilter.assembly import reader_for
from streamfilter.config.configuration import Config
from streamfilter.documents.rows import place_of
from streamfilter.files.inputs import open_input, records_in, refuse_unlike
from streamfilter.files.outputs import OutputFile
from streamfilter.model import Document, Malformed, Record
from streamfilter.stops import BrokenInput


def copy_first(inputs: Sequence[str], config: Config, path: Path, *, records: int) -> None:
    """Copy the first *records* records of *inputs* to *path*, a file of their format."""
    reader = reader_for(config)
    with ExitStack() as stack:
        opened = [open_input(each, config, reader) for each in inputs]
        for each in opened:
            stack.callback(each.close)
        refuse_unlike(opened, str(path))
        output = OutputFile(str(path))
        stack.callback(output.discard)
        writer = opened[0].writer(output)
        stretches = (each.stretches(documents=1_000, size=1 << 22) for each in opened)
        found = (record for each in chain.from_iterable(stretches) for record in each.records)
        for record in islice(found, records):
            writer.add(record)
        writer.finish()
        output.complete()
        output.publish()


Rejected = Callable[[Record, Malformed], None]
"""Hears of a record that cannot be read."""


def refuse(record: Record, malformed: Malformed) -> None:
    """Stop at a line that cannot be read."""
    raise BrokenInput(
        f"{place_of(record)}: {malformed.code.value}: {malformed.message}\n"
        "    cure: each line is a JSON object with a text and an id; other fields, or columns, are "
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
    for record in records_in(inputs, config, advanced=advanced):
        reading = reader.read(record)
        if isinstance(reading, Document):
            yield reading.id, reading.text
        elif isinstance(reading, Malformed):
            rejected(record, reading)
