"""``pairs``: all near-duplicates of a file, as pairs and as clusters."""

from __future__ import annotations

from typing import Any

import click

from streamfilter.commands.options import (
    as_json,
    dead_letter_option,
    inputs_argument,
    output_option,
)
from streamfilter.commands.progress import over_files
from streamfilter.commands.similarity_options import config_of, seed_of, similarity_options
from streamfilter.files.discovery import KINDS, discover
from streamfilter.files.summary import all_broken
from streamfilter.process import standard
from streamfilter.process.signals import INTERRUPTION

EPILOG = """\b
Examples:
  streamfilter pairs news.jsonl
  streamfilter pairs news.jsonl.gz --text /body --threshold 0.7 --clusters
  streamfilter pairs poems.jsonl --shingle char:3 -o json
\b
A cluster is a star: each member is similar to the centre, its first document. Members need not be
similar to each other. With --clusters components, each document that is similar to any member
joins the cluster. So the two ends of a chain may differ much. Pairs are found by the same bands as
in the service. One pair in a hundred exactly at the threshold is missed; `streamfilter plan` shows
the curve.
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
@inputs_argument("INPUT...", required=True)
@click.option("--clusters", type=click.Choice(KINDS), metavar="[stars|components]",
              help="Print clusters instead of pairs; stars by default.")  # fmt: skip
@dead_letter_option
@similarity_options
@output_option
def command(
    inputs: tuple[str, ...], clusters: str | None, dead_letter: str | None, output: str,
    **similarity: Any,
) -> None:  # fmt: skip
    """Find all near-duplicate pairs of files (JSON Lines, CSV, Avro, Parquet)."""
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
    if output == "json":
        standard.answer(as_json(found))
    else:
        for line in found.clusters_as_text() if clusters else found.pairs_as_text():
            standard.answer(line)
        standard.say(found.summary())
    if found.broken and not found.documents:
        raise all_broken(found.broken)
