"""Answers as tables: the rows of an answer are written to a file, in the format of its name."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from streamfilter.files.inputs import LINES, format_of, module_of
from streamfilter.files.outputs import OutputFile
from streamfilter.matching.verdict import envelope

FORMATS = (LINES, "csv", "parquet")
NAMES = ".csv, .tsv, .parquet or .jsonl"
Value = str | float | bool
TableWriter = Callable[[dict[str, type], Iterable[Sequence[Value]]], None]
"""Writes columns, with names and types, and rows with a value of each."""


def is_table(path: str) -> bool:
    """Return whether a table can be written to a file of this name."""
    return format_of(path) in FORMATS


@contextmanager
def answer_file(path: str) -> Iterator[TableWriter]:
    """Open *path* for one table, or raise `Stop`. The file appears when the context ends."""
    format = format_of(path) or LINES
    write = _write_lines if format == LINES else module_of(format, path).write_table
    with OutputFile(path) as output:
        yield lambda columns, rows: write(output, path, columns, rows)


def _write_lines(
    output: OutputFile, _: str, columns: dict[str, type], rows: Iterable[Sequence[Value]]
) -> None:
    for row in rows:
        output.write(envelope.encode(dict(zip(columns, row, strict=True))))
