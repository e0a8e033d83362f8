"""Inputs: files of records, each opened by its format. The file name or a setting says the format.

The kept records are written in the format of the input.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from glob import escape, glob, has_magic
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import cast

from msgspec import Struct

from streamfilter.assembly import reader_for
from streamfilter.config.configuration import Config
from streamfilter.documents.fields.pointers import EACH
from streamfilter.documents.reader import Reader
from streamfilter.documents.rows import place_of
from streamfilter.files.formats.compression import suffix_of
from streamfilter.files.formats.lines import STDIN, InputFile
from streamfilter.files.formats.protocol import Input, continued, records_of, some_of
from streamfilter.files.outputs import OutputFile
from streamfilter.files.s3_paths import is_s3, objects_of
from streamfilter.index.input_table import Piece, Seed
from streamfilter.model import Document, Malformed, Record
from streamfilter.stops import (
    BrokenInput,
    ConfigError,
    ExitCode,
    Problem,
    SchemeMismatch,
    Stop,
    of_extra,
)

LINES = "lines"
SUFFIXES = {".jsonl": LINES, ".ndjson": LINES, ".json": LINES, ".txt": LINES, ".csv": "csv",
            ".tsv": "csv", ".avro": "avro", ".parquet": "parquet", ".pq": "parquet"}  # fmt: skip
"""Format by the suffix of a file name."""


def format_of(path: str) -> str | None:
    """Return the format by the suffix of *path*, or None for an unknown suffix."""
    return SUFFIXES.get(suffix_of(path))


def named(paths: Iterable[str]) -> list[str]:
    """Return the files that *paths* name: each itself, all of a directory, all of a pattern.

    Of a directory these are the files below it whose suffix names a format, without hidden ones.
    The files of one path are in the order of their names. Raises `Stop` if a path names none.
    """
    found: list[str] = []
    for path in paths:
        if is_s3(path):
            files = objects_of(path, format_of)
        elif os.path.isdir(path):
            below = glob(os.path.join(escape(path), "**", "*"), recursive=True)
            files = [each for each in below if format_of(each) and os.path.isfile(each)]
        elif path == STDIN or os.path.exists(path) or not has_magic(path):
            files = [path]
        else:
            files = [each for each in glob(path, recursive=True) if os.path.isfile(each)]
        if not files:
            raise Stop(f"{path}: names no file of {', '.join(SUFFIXES)}", exit_code=ExitCode.USAGE)
        found += sorted(files)
    return found


def check_evidence(*paths: str | None) -> None:
    """Refuse (`Stop`) a name of another format: evidence and dead letters are JSON Lines."""
    for path in paths:
        if path is not None and format_of(path) not in (None, LINES):
            raise Stop(
                f"{path} is named as {format_of(path)}, but duplicates and dead letters are JSON "
                f"Lines\n    cure: name it {Path(path).with_suffix('.jsonl').name}",
                exit_code=ExitCode.USAGE,
            )


def open_input(path: str, config: Config, reader: Reader, *, name: str | None = None) -> Input:
    """Open *path*, known to the index as *name*; raise `Stop` if *reader* cannot read it."""
    format: str = config.input.file_format
    if format == "auto":
        format = format_of(path) or LINES
    if format == LINES:
        values = config.input.format in ("json", "fields")
        whole = values and not any(path[:1] == (EACH,) for path in reader.paths)
        limit = reader.limits.document_bytes
        return InputFile(path, name=name, limit=limit, json_values=whole)
    return cast(Input, module_of(format, path).table(path, reader, name=name))


def module_of(format: str, path: str) -> ModuleType:
    """Return the module of a format of rows, for *path*; raise `MissingExtra` without its extra."""
    with of_extra(format, f"{path}: a file of format {format}"):
        return import_module(f"streamfilter.files.formats.{format}")


@contextmanager
def opened(
    paths: Iterable[str], config: Config, reader: Reader, unique: str, *, stdin_name: str = STDIN
) -> Iterator[list[Input]]:
    """Open input files; their kept records go to one output file, named *unique*.

    Raises `Stop` if one cannot be read, if their schemas differ, or if *unique* has the suffix of
    another format.
    """
    with ExitStack() as stack:
        inputs = []
        for path in paths:
            name = stdin_name if path == STDIN else None
            inputs.append(stack.enter_context(closing(open_input(path, config, reader, name=name))))
        _refuse_unlike(inputs, unique)
        yield inputs


def check_read_again(paths: Iterable[str], *, who: str) -> None:
    """Refuse (`Stop`) inputs that *who* cannot read twice: standard input, pipes, devices."""
    for path in paths:
        # If the path may not be inspected, `open` reports the reason later.
        plain = os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)
        if path == STDIN or not plain:
            name = "standard input" if path == STDIN else path
            raise Stop(
                f"{who} reads its inputs twice, and {name} can be read only once\n"
                "    cure: write it to a file, and give that",
                exit_code=ExitCode.USAGE,
            )


def records_in(paths: Iterable[str], config: Config) -> Iterator[Record]:
    """Yield the records of files, one file after the other, or raise `Stop`."""
    reader = reader_for(config)
    for path in paths:
        with closing(open_input(path, config, reader)) as input_:
            yield from records_of(input_)


def for_files(config: Config, paths: Sequence[str]) -> Config:
    """Return *config* for the files *paths*: with their format, and with rows as values.

    Raises `ConfigError` if a setting does not apply to files, and `Stop` if their formats differ.
    """
    given = config.input
    format: str = given.file_format
    if format == "auto":
        by_format = {format_of(path) or LINES: path for path in reversed(paths)}
        if len(by_format) > 1:
            (one, first), (other, second) = list(by_format.items())[:2]
            raise Stop(
                f"{first} is named as {one} and {second} as {other}; files of one run are of one "
                "format\n    cure: run them apart, or say which with --format",
                exit_code=ExitCode.USAGE,
            )
        format = next(iter(by_format), LINES)
    problem = _not_in(format, config)
    if problem is not None:
        raise ConfigError([problem])
    values = given.format if format == LINES else "fields" if given.records else "json"
    update = {"file_format": format, "format": values}
    return config.model_copy(update={"input": given.model_copy(update=update)})


def of_archive(config: Config) -> Config:
    """Return *config* for files of JSON Lines, although values of the topic need a schema."""
    given = config.input
    if not given.has_schema:
        return config
    update = {"format": "fields" if given.records else "json"}
    return config.model_copy(update={"input": given.model_copy(update=update)})


def _not_in(format: str, config: Config) -> Problem | None:
    values, id_ = config.input.format, config.input.id
    unit, part = ("line", "field") if format == LINES else ("row", "column")
    if format == LINES and not config.input.has_lines:
        got, cure = f"got {values}; it has no lines", "use json, text or fields"
        return Problem("input.format", got, cure)
    if format != LINES and values == "text":
        cure = "use json, and name the column of the text, such as --text /body"
        return Problem("input.format", "got text; a row is no text", cure)
    if id_ is not None and not id_.startswith("/"):
        cure = f"point at a {part} (--id /id), or use none: the {unit}'s number"
        return Problem("input.id", f"got {id_}; a {unit} has no key and headers", cure)
    return None


def _refuse_unlike(inputs: Sequence[Input], unique: str) -> None:
    """Refuse (`Stop`) inputs that do not fit in one file, or that *unique* is not named for."""
    first = inputs[0]
    for other in inputs[1:]:
        why = "their formats differ" if other.format != first.format else first.differs(other)
        if why is not None:
            raise Stop(
                f"{first.path} and {other.path} cannot be filtered into one file: {why}\n"
                "    cure: filter them one by one with the same --state, which knows them all",
                exit_code=ExitCode.USAGE,
            )
    named = format_of(unique)
    if named not in (None, first.format):
        raise Stop(
            f"{unique} is named as {named}, but what comes out of {first.path} is {first.format}"
            "\n    cure: give it a name like the input's",
            exit_code=ExitCode.USAGE,
        )


def copy_first(inputs: Sequence[str], config: Config, path: Path, *, records: int) -> None:
    reader = reader_for(config)
    with opened(inputs, config, reader, str(path)) as files, OutputFile(str(path)) as output:
        writer = files[0].writer(output)
        for record in islice(chain.from_iterable(map(records_of, files)), records):
            writer.add([record])
        writer.finish()


Rejected = Callable[[Record, Malformed], None]  # called for a record that cannot be read


def refuse(record: Record, malformed: Malformed) -> None:
    """Stop at a line that cannot be read."""
    raise BrokenInput(
        f"{place_of(record)}: {malformed.code.value}: {malformed.message}\n"
        "    cure: each line is a JSON object with a text and an id; other fields, or columns, are "
        "named by --text and --id, such as --text /body --id none; lines of plain text need --set "
        "input.format=text"
    )


def pass_over(record: Record, malformed: Malformed) -> None:
    """Skip a line that cannot be read."""


def documents_of(
    inputs: Sequence[str],
    config: Config,
    *,
    rejected: Rejected = refuse,
    advanced: Callable[[int], None] = lambda _: None,
) -> Iterator[Document]:
    """Yield each document of *inputs*; *rejected* is called for a record that cannot be read.

    *advanced* is called with the number of stored bytes read since its last call.
    """
    reader = reader_for(config)
    for path in inputs:
        with closing(open_input(path, config, reader)) as input_:
            for records in some_of(input_, advanced=advanced):
                for record, reading in zip(records, reader.read_all(records), strict=True):
                    if isinstance(reading, Document):
                        yield reading
                    elif isinstance(reading, Malformed):
                        rejected(record, reading)


class SeedFile(Struct):
    """A file as a seed of a service's index, which is read again at each start of the task."""

    path: str
    name: str
    config: Config
    reader: Reader
    advanced: Callable[[int], None]  # called with the stored bytes read since its last call
    _seen: int = 0

    @property
    def seeds(self) -> tuple[Seed, ...]:
        return (Seed(self.name),)

    def pieces(self, seeds: Mapping[str, Seed]) -> Iterator[Piece]:
        """Yield the records from the seed's position on; empty pieces before it.

        Raises `SchemeMismatch`: what was read before is not the same any more.
        """
        (seed,) = seeds.values()
        batch = self.config.batch
        with closing(open_input(self.path, self.config, self.reader, name=self.name)) as input_:
            for stretch in continued(
                input_,
                (seed.lines, seed.digest),
                documents=batch.documents,
                size=batch.bytes,
                changed=lambda: self._changed(seed),
                least=seed.position - 1,
            ):
                new = [each for each in stretch.records if each.source.offset >= seed.position]
                self.advanced(max(0, stretch.bytes_read - self._seen))
                self._seen = max(self._seen, stretch.bytes_read)
                yield Piece(new, {self.name: stretch.end}, stretch.digest)

    def _changed(self, seed: Seed) -> SchemeMismatch:
        return SchemeMismatch(
            f"{self.path} is not what it was: its first {seed.position - 1} lines are in the index "
            f"as the seed {seed.name!r}, and they differ now\n"
            "    cure: bring the file back; lines may only be added at its end. To add the new "
            "content as another seed, give it another name with --name"
        )
