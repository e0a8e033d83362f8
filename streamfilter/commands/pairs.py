"""``pairs``: all near-duplicates of a file or of an index, as pairs and as clusters."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from streamfilter.commands.options import (
    Named,
    as_json,
    dead_letter_option,
    inputs_argument,
    load,
    output_option,
    over_files,
    progress,
)
from streamfilter.commands.similarity_options import config_of, seed_of, similarity_options
from streamfilter.commands.states import failing
from streamfilter.files.discovery import KINDS, Discovery, discover, discover_stored
from streamfilter.files.summary import all_broken
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.inquiry.indexes import opened
from streamfilter.process import standard
from streamfilter.process.signals import INTERRUPTION

OF_AN_INDEX = ("threshold", "files", "overrides")

EPILOG = """\b
Examples:
  streamfilter pairs news.jsonl
  streamfilter pairs news.jsonl.gz --text /body --threshold 0.7 --clusters
  streamfilter pairs poems.jsonl --shingle char:3 -o json
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


@click.command(cls=_Pairs, epilog=EPILOG)
@inputs_argument("[INPUT...]")
@click.option("--state", metavar="DIR", type=Named(path_type=Path),
              help="Instead of files: the index in this state directory, or index.path of a "
                   "service.")  # fmt: skip
@click.option("--clusters", type=click.Choice(KINDS), metavar="[stars|components]",
              help="Print clusters instead of pairs; stars by default.")  # fmt: skip
@dead_letter_option
@similarity_options
@output_option
def command(
    inputs: tuple[str, ...], state: Path | None, clusters: str | None, dead_letter: str | None,
    output: str, **similarity: Any,
) -> None:  # fmt: skip
    """Find all near-duplicate pairs of files (JSON Lines, CSV, Avro, Parquet), or of an index."""
    if bool(inputs) is (state is not None):
        raise click.UsageError("give files, or --state DIR of an index")
    if state is not None:
        given = dict(similarity, dead_letter=dead_letter)
        _tell(_stored(state, given, clusters or KINDS[0]), clusters, output)
        return
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
    _tell(found, clusters, output)
    if found.broken and not found.documents:
        raise all_broken(found.broken)


def _stored(state: Path, given: dict[str, Any], clusters: str) -> Discovery:
    """Return the pairs of the indexes in *state*, or raise `Stop`."""
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


def _tell(found: Discovery, clusters: str | None, output: str) -> None:
    if output == "json":
        standard.answer(as_json(found))
        return
    for line in found.clusters_as_text() if clusters else found.pairs_as_text():
        standard.answer(line)
    standard.say(found.summary())
