"""``streamfilter seed``: documents that were forwarded in the past enter the index."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from streamfilter.assembly import reader_for
from streamfilter.commands import options
from streamfilter.commands.options import over_files, progress
from streamfilter.commands.similarity_options import file_options, overrides_of_files
from streamfilter.commands.states import failing
from streamfilter.config.configuration import Config
from streamfilter.files.inputs import SeedFile, check_read_again, for_files, of_archive
from streamfilter.files.run import check_paths
from streamfilter.files.s3_paths import is_s3
from streamfilter.process.signals import INTERRUPTION, Interrupted
from streamfilter.stops import ExitCode

Sources = tuple[Config, Callable[[Config], Sequence[Any]]]
"""With which configuration, and what is read."""

EPILOG = """\b
Examples:
  streamfilter seed --config streamfilter.yaml archive.jsonl.gz --dry-run
  streamfilter seed --config streamfilter.yaml --trust archive-2025.parquet archive-2026.parquet
  streamfilter seed --config streamfilter.yaml --topic news.unique
  streamfilter seed --config streamfilter.yaml --index /backup/state
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
@options.inputs_argument("[FILE]...")
@click.option("--topic", metavar="TOPIC", help="Seed the records of a topic, instead of files.")
@click.option("--partition", type=click.IntRange(0), metavar="P",
              help="Only this partition of the topic.")  # fmt: skip
@click.option("--from", "first", type=click.IntRange(0), metavar="OFFSET",
              help="With --partition: begin at this offset.")  # fmt: skip
@click.option("--to", "last", type=click.IntRange(0), metavar="OFFSET",
              help="With --partition: end before this offset.")  # fmt: skip
@click.option("--index", "other", type=click.Path(path_type=Path), metavar="DIR",
              help="Seed the documents of another index, instead of files.")  # fmt: skip
@file_options
@click.option("--name", metavar="NAME", help="Name of the seed, instead of the path of one FILE, "
              "or of the topic or DIR.")  # fmt: skip
@click.option("--trust", is_flag=True, help="Add all documents as they are, duplicates, too.")
@click.option("--dry-run", is_flag=True, help="Judge the seed on a copy of the index, and say what "
              "would be added, and how large the index becomes. Nothing is written.")  # fmt: skip
@click.option("--max-errors", type=click.IntRange(0), default=0, show_default=True, metavar="N",
              help="Pass over so many records that cannot be read; one more ends the "
                   "run.")  # fmt: skip
@options.output_option
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], inputs: tuple[str, ...],
    topic: str | None, partition: int | None, first: int | None, last: int | None,
    other: Path | None, name: str | None, trust: bool, dry_run: bool, max_errors: int,
    output: str, **given: Any,
) -> int:  # fmt: skip
    """Fill the index with documents that were forwarded in the past.

    FILE is JSON Lines, CSV, Avro or Parquet (--format), as for `filter`. It may also be a
    directory, or a pattern in quotes. The documents enter the index and the changelog, as if they
    had come through the input and had been forwarded.
    """
    from streamfilter.kafka.lifecycle.seed_trial import DryRun
    from streamfilter.kafka.lifecycle.seeding import Seeding
    from streamfilter.kafka.service_start import explained

    options.say_unread(files)
    if [bool(inputs), topic is not None, other is not None].count(True) != 1:
        raise click.UsageError("give files, or --topic, or --index")
    if name is not None and len(inputs) > 1:
        raise click.UsageError("--name belongs to one FILE")
    if None in (topic, partition) and (first, last, partition) != (None, None, None):
        raise click.UsageError("--from and --to need --partition, and that needs --topic")
    if first is not None and last is not None and first >= last:
        raise click.UsageError("--from is not before --to: no record lies between them")
    of_files = overrides_of_files(given)
    if of_files and not inputs:
        raise click.UsageError("--text, --id and --format belong to files")
    config = options.load(files, (*overrides, *of_files))
    with INTERRUPTION.listening(), failing():
        if topic is not None:
            source = _of_topic(config, topic, name, partition, (first, last))
        else:
            source = _of_files(config, inputs, name) if inputs else _of_index(config, other, name)
        with source as (config, read), explained(config):
            trial = DryRun() if dry_run else None
            run = Seeding(config, read, trust, max_errors, trial=trial)
            stays = "nothing was written" if dry_run else "what was read is in the index"
            stopped = f"stopped; {stays}: run it again to go on"
            try:
                run.run(INTERRUPTION.is_set)
            except Interrupted as ended:
                # In the middle of a file, whose reader knows of outputs only.
                raise Interrupted(stopped, exit_code=ended.exit_code) from None
        options.answer(run, output)
        if not run.finished:
            INTERRUPTION.obey(stopped)
    return ExitCode.OK


@contextmanager
def _of_files(config: Config, inputs: tuple[str, ...], name: str | None) -> Iterator[Sources]:
    config = for_files(of_archive(config), inputs)
    check_read_again(inputs, who="seed")
    check_paths(inputs, [])
    reader = reader_for(config)
    with over_files("seeding", inputs) as advanced:
        seeds = [SeedFile(p, name or _name(p), config, reader, advanced) for p in inputs]
        yield config, lambda _: seeds


@contextmanager
def _of_topic(
    config: Config,
    topic: str,
    name: str | None,
    partition: int | None,
    offsets: tuple[int | None, int | None],
) -> Iterator[Sources]:
    from streamfilter.kafka.lifecycle.seed_sources import topic_seed

    with topic_seed(config, topic, name, partition, offsets, progress) as seed:
        yield config, lambda _: [seed]


@contextmanager
def _of_index(config: Config, path: Path | None, name: str | None) -> Iterator[Sources]:
    from streamfilter.kafka.lifecycle.seed_sources import SeedIndex

    assert path is not None
    seed = SeedIndex(path, name or _name(str(path)), config)
    with progress("seeding", seed.documents) as advanced:
        seed.advanced = advanced
        yield config, seed.into


def _name(path: str) -> str:
    """Return the seed's name for *path*: ``./a`` and ``a`` are one."""
    path = path if is_s3(path) else os.path.normpath(path)
    return os.fsencode(path).decode("utf-8", "backslashreplace")
