"""``streamfilter boilerplate``: a table of the passages that many documents share."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click

from streamfilter.commands import options
from streamfilter.commands.options import over_files, progress
from streamfilter.commands.similarity_options import file_options, overrides_of_files
from streamfilter.config.boilerplate import KEY, refusal
from streamfilter.config.configuration import Config
from streamfilter.files.inputs import documents_of, for_files
from streamfilter.files.outputs import write_whole
from streamfilter.files.run import check_paths
from streamfilter.files.summary import all_broken, no_documents
from streamfilter.index.directory.seed_file import MEASURING
from streamfilter.preflight.records import texts_of_topic
from streamfilter.process import standard
from streamfilter.process.signals import INTERRUPTION
from streamfilter.quality.sample.boilerplate import boilerplate_of
from streamfilter.quality.sample.boilerplate_report import BoilerplateReport
from streamfilter.stops import ConfigError, ExitCode, Stop

LIMIT_MAX = 1_000_000

EPILOG = """\b
Examples:
  streamfilter boilerplate pages.jsonl --text /body --dry-run
  streamfilter boilerplate pages.jsonl --text /body -o boilerplate.bin
  streamfilter boilerplate --config streamfilter.yaml --topic pages -o boilerplate.bin
\b
Then set similarity.normalise.boilerplate: boilerplate.bin. The table changes only if you run this
command again. Another table is another scheme, and an existing index refuses it.
A topic is read by a consumer that joins no group and commits nothing.
"""


@click.command("boilerplate", epilog=EPILOG)
@options.inputs_argument("[FILE...]")
@click.option("--topic", help="Read the latest records of this topic instead of files.")
@click.option("-o", "--table", type=options.Named(dir_okay=False, path_type=Path), metavar="PATH",
              help="File for the table.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what the table would hold and change.")
@click.option("--share", type=options.Number(0, 1, max_open=True), default=0.001,
              show_default=True,
              help="Least share of the documents that a shingle stands in.")  # fmt: skip
@click.option("--at-least", type=click.IntRange(2), default=10, show_default=True, metavar="N",
              help="Least number of documents that it stands in, for small samples."
              )  # fmt: skip
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=100_000, show_default=True,
              metavar="N", help="Most records that are read.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@file_options
@options.config_options
def command(
    inputs: tuple[str, ...], topic: str | None, table: Path | None, dry_run: bool, share: float,
    at_least: int, limit: int, as_json: bool, **others: Any,
) -> int:  # fmt: skip
    """Write a table of the shingles that many documents of a sample share.

    Menus, footers and cookie banners stand in many documents, and hide whether two texts are the
    same. The table lists their shingles, and `similarity.normalise.boilerplate` drops these before
    a text is signed. A document counts once for each shingle. A text that was seen before does not
    count.
    """
    _check_usage(inputs, topic, table, dry_run)
    config = _configured(inputs, topic, others)
    broken: list[None] = []
    with INTERRUPTION.listening(), _texts(config, inputs, limit, broken) as texts:
        found = boilerplate_of(
            texts,
            config.scheme(),
            seed=MEASURING,
            share=share,
            at_least=at_least,
            threshold=config.similarity.threshold,
            walking=partial(progress, "counting"),
        )
        if not found.given:
            raise (
                all_broken(len(broken))
                if broken
                else no_documents(", ".join(inputs) or topic or "")
            )
        INTERRUPTION.obey()
        if table is not None and not dry_run and len(found.table):
            write_whole(table, found.table.to_bytes())
    report = BoilerplateReport(found, len(broken))
    options.answer(report, "json" if as_json else "text")
    if not len(found.table):
        raise Stop(
            f"no shingle stands in {found.table.sample.least:,} documents; no table was written\n"
            "    cure: take a larger sample, or lower --at-least",
            exit_code=ExitCode.BROKEN_INPUT,
        )
    if table is not None and not dry_run:
        standard.say(f"wrote {table}; next: set {KEY}: {table}")
    return ExitCode.OK


def _check_usage(
    inputs: tuple[str, ...], topic: str | None, table: Path | None, dry_run: bool
) -> None:
    if bool(inputs) is (topic is not None):
        raise click.UsageError("name the FILEs of a sample, or --topic T")
    if table is None and not dry_run:
        raise click.UsageError("name the file of the table with -o PATH, or use --dry-run")
    if table is not None and str(table) == "-":
        raise click.UsageError("a table is no text for standard output; name a file")
    check_paths(inputs, [] if table is None else [str(table)])


def _configured(inputs: tuple[str, ...], topic: str | None, others: dict[str, Any]) -> Config:
    """Return the configuration without its table, which may not be there yet.

    Raises `ConfigError`: its texts can have no table.
    """
    overrides = [*others["overrides"], *overrides_of_files(others), f"{KEY}=null"]
    overrides += [f"input.topic={topic}"] if topic is not None else []
    config = options.load(others["files"], tuple(overrides))
    refused = refusal(config)
    if refused is not None:
        raise ConfigError([refused])
    return for_files(config, inputs) if inputs else config


@contextmanager
def _texts(
    config: Config, inputs: tuple[str, ...], limit: int, broken: list[None]
) -> Iterator[Iterator[str]]:
    if inputs:
        with over_files("reading", inputs) as advanced:
            found = documents_of(
                inputs, config, rejected=lambda *_: broken.append(None), advanced=advanced
            )
            yield islice((each.text for each in found), limit)
        return
    with progress("reading", limit) as advanced:
        yield texts_of_topic(config, limit, broken=lambda _: broken.append(None), advanced=advanced)
