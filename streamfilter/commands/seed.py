"""``streamfilter seed``: documents that were forwarded in the past enter the index."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from streamfilter.assembly import reader_for
from streamfilter.commands import options
from streamfilter.commands.options import over_files
from streamfilter.commands.similarity_options import file_options, overrides_of_files
from streamfilter.files.inputs import SeedFile, check_read_again, for_files, of_archive
from streamfilter.files.run import check_paths
from streamfilter.process.signals import INTERRUPTION
from streamfilter.stops import ExitCode

EPILOG = """\b
Examples:
  streamfilter seed --config streamfilter.yaml archive.jsonl.gz
  streamfilter seed --config streamfilter.yaml --trust archive-2025.parquet archive-2026.parquet
\b
Nothing is written to the output topics. Later records that are duplicates of a seeded document are
withheld, and their evidence names the seed: {"seed": "archive.jsonl.gz", "line": 17}.
\b
Stop the service first (SIGTERM). A seed is refused while a process of the group is alive. If it is
stopped or killed, run the same command again: it goes on where it was, and adds nothing twice. A
second run adds only the lines that were added to the files. A file is known by its path as given.
If its first lines have changed, it is refused.
"""


@click.command("seed", epilog=EPILOG)
@options.config_options
@options.inputs_argument("FILE...", required=True)
@file_options
@click.option("--name", metavar="NAME", help="Name of the seed, instead of the path of one FILE.")
@click.option("--trust", is_flag=True, help="Add all documents as they are, duplicates, too.")
@click.option("--max-errors", type=click.IntRange(0), default=0, show_default=True, metavar="N",
              help="Pass over so many records that cannot be read; one more ends the "
                   "run.")  # fmt: skip
@options.output_option
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], inputs: tuple[str, ...], name: str | None,
    trust: bool, max_errors: int, output: str, **given: Any,
) -> int:  # fmt: skip
    """Fill the index with documents that were forwarded in the past.

    FILE is JSON Lines, CSV, Avro or Parquet (--format), as for `filter`. It may also be a
    directory, or a pattern in quotes. The documents enter the index and the changelog, as if they
    had come through the input and had been forwarded.
    """
    from streamfilter.kafka.seeding import Seeding

    options.say_unread(files)
    if name is not None and len(inputs) > 1:
        raise click.UsageError("--name belongs to one FILE")
    loaded = options.load(files, (*overrides, *overrides_of_files(given)))
    config = for_files(of_archive(loaded), inputs)
    check_read_again(inputs, who="seed")
    check_paths(inputs, [])
    reader = reader_for(config)
    with INTERRUPTION.listening():
        with over_files("seeding", inputs) as advanced:
            seeds = [SeedFile(p, name or _name(p), config, reader, advanced) for p in inputs]
            run = Seeding(config, seeds, trust, max_errors)
            run.run(INTERRUPTION.is_set)
        options.answer(run, output)
        if not run.finished:
            INTERRUPTION.obey("stopped; what was read is in the index: run it again to go on")
    return ExitCode.OK


def _name(path: str) -> str:
    """Return the seed's name for *path*: ``./a`` and ``a`` are one."""
    return os.fsencode(os.path.normpath(path)).decode("utf-8", "backslashreplace")
