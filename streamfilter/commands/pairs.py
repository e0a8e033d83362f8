"""``pairs``: all near-duplicates of a file or of an index, as pairs and as clusters."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from streamfilter.commands.options import (
    Named,
    as_json,
    completed_files,
    dead_letter_option,
    inputs_argument,
    load,
    over_files,
    progress,
)
from streamfilter.commands.similarity_options import config_of, seed_of, similarity_options
from streamfilter.commands.states import failing
from streamfilter.files.answers import NAMES, TableWriter, answer_file, is_table
from streamfilter.files.discovery import KINDS, Discovery, discover, discover_stored
from streamfilter.files.run import check_paths
from streamfilter.files.summary import all_broken
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.inquiry.indexes import opened
from streamfilter.process import standard
from streamfilter.process.signals import INTERRUPTION

PRINTED = ("text", "json")
OF_AN_INDEX = ("threshold", "files", "overrides")

EPILOG = """\b
Examples:
  streamfilter pairs news.jsonl
  streamfilter pairs news.jsonl.gz --text /body --threshold 0.7 --clusters
  streamfilter pairs poems.jsonl --shingle char:3 -o json
  streamfilter pairs pages.parquet --text /body --id /url -o pairs.parquet
  streamfilter pairs --state memory/ --threshold 0.7
\b
A cluster is a star: each member is similar to the centre, its first document. Members need not be
similar to each other. With --clusters components, each document that is similar to any member
joins the cluster. So the two ends of a chain may differ much. Pairs are found by the same bands as
in the service. One pair in a hundred exactly at the threshold is missed; `streamfilter plan` shows
the curve.
\b
--state lists what an index remembers: only forwarded documents. It may be in use. It is read as it
is at the beginning. --threshold replaces the index's own, but its keys stay: below the threshold
that they were planned for, fewer of the pairs are found.
"""


class _Pairs(click.Command):
    """Takes ``--clusters`` for stars where no kind stands behind it, but a file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say which kind is meant before click takes the next word for it."""
        following = [*args[1:], ""][: len(args)]
        spelled = [
            f"--clusters={KINDS[0]}" if each == "--clusters" and after not in KINDS else each
            for each, after in zip(args, following, strict=True)
        ]
        return super().parse_args(ctx, spelled)


def _form(_: click.Context, option: click.Parameter, value: str) -> str:
    """Return text, json, or the name of a file for a table; refuse any other name."""
    if value in PRINTED or is_table(value):
        return value
    named = f"{value!r}: use {' or '.join(PRINTED)}, or a file named {NAMES}"
    raise click.BadParameter(named, param=option)


@click.command(cls=_Pairs, epilog=EPILOG)
@inputs_argument("[INPUT...]")
@click.option("--state", metavar="DIR", type=Named(path_type=Path),
              help="Instead of files: the index in this state directory, or index.path of a "
                   "service.")  # fmt: skip
@click.option("--clusters", type=click.Choice(KINDS), metavar="[stars|components]",
              help="Print clusters instead of pairs; stars by default.")  # fmt: skip
@dead_letter_option
@similarity_options
@click.option("--output", "-o", callback=_form, default=PRINTED[0], metavar="[text|json|FILE]",
              shell_complete=completed_files,
              help="The answer on standard output as text or JSON, or as a table in FILE, by its "
                   f"name: {NAMES}.")  # fmt: skip
def command(
    inputs: tuple[str, ...], state: Path | None, clusters: str | None, dead_letter: str | None,
    output: str, **similarity: Any,
) -> None:  # fmt: skip
    """Find all near-duplicate pairs of files (JSON Lines, CSV, Avro, Parquet), or of an index."""
    if bool(inputs) is (state is not None):
        raise click.UsageError("give files, or --state DIR of an index")
    if state is not None:
        given = dict(similarity, dead_letter=dead_letter)
        with _answering(clusters, output) as tell:
            tell(_stored(state, given, clusters or KINDS[0]))
        return
    if output not in PRINTED:
        check_paths(inputs, [each for each in (output, dead_letter) if each is not None])
    with _answering(clusters, output) as tell:
        with INTERRUPTION.listening():
            config = config_of(similarity, inputs)
            with over_files("comparing", inputs) as advanced:
                found = discover(
                    config,
                    inputs,
                    seed=seed_of(similarity, config),
                    dead_letter=dead_letter,
                    clusters=clusters or KINDS[0],
                    advanced=advanced,
                )
        tell(found)
    if found.broken and not found.documents:
        raise all_broken(found.broken)


def _stored(state: Path, given: dict[str, Any], clusters: str) -> Discovery:
    threshold, files, overrides = (given.pop(name) for name in OF_AN_INDEX)
    if any(value not in (None, ()) for value in given.values()):
        raise click.UsageError("--state takes --threshold, --clusters, --config, --set and -o only")
    if threshold is not None and not 0 < threshold <= 1:
        raise click.BadParameter("the threshold is above 0, and at most 1")
    seed = seed_at(load(files, overrides).index.seed_file)
    with ExitStack() as stack:
        stack.enter_context(INTERRUPTION.listening())
        stack.enter_context(failing())
        found = stack.enter_context(opened(state, seed=seed, threshold=threshold))
        length = sum(len(each.view) for each in found)
        advanced = stack.enter_context(progress("comparing", length))
        indexes = [(each.view, each.sketcher, each.policy) for each in found]
        return discover_stored(indexes, clusters=clusters, advanced=advanced)


@contextmanager
def _answering(clusters: str | None, output: str) -> Iterator[Callable[[Discovery], None]]:
    """Open the file *output* before any work; yield the function that answers what was found."""
    if output in PRINTED:
        yield partial(_print, clusters, output)
        return
    with answer_file(output) as write:
        yield partial(_write, clusters, write)


def _print(clusters: str | None, output: str, found: Discovery) -> None:
    if output == "json":
        standard.answer(as_json(found))
        return
    for line in found.clusters_as_text() if clusters else found.pairs_as_text():
        standard.answer(line)
    standard.say(found.summary())


def _write(clusters: str | None, write: TableWriter, found: Discovery) -> None:
    if clusters:
        found.write_clusters(write)
    else:
        found.write_pairs(write)
    standard.say(found.summary())
