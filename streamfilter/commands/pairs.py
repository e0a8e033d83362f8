"""``pairs``: all near-duplicates of a file, as pairs and as clusters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from streamfilter.commands.options import as_json, completed_files, output_option
from streamfilter.commands.progress import over_files
from streamfilter.commands.similarity_options import config_of, seed_of, similarity_options
from streamfilter.files.discovery import CLUSTERS, Discovery, discover
from streamfilter.files.summary import all_broken
from streamfilter.process import standard
from streamfilter.process.signals import INTERRUPTION
from streamfilter.process.terminal_escapes import inline

EPILOG = """\b
Examples:
  streamfilter pairs news.jsonl
  streamfilter pairs news.jsonl.gz --text /body --threshold 0.7 --clusters
  streamfilter pairs poems.jsonl --shingle char:3 -o json
\b
A cluster is a star: each member is similar to the centre, its first document. Members need not be
similar to each other. With --clusters components, each document that is similar to a member is a
member, so the ends of a chain may be unlike. Pairs are found by the same bands as in the service.
One pair in a hundred exactly at the threshold is missed; `streamfilter plan` shows the curve.
"""


class _Pairs(click.Command):
    """Takes ``--clusters`` for stars where no kind stands behind it, but a file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Say which kind is meant before click takes the next word for it."""
        following = [*args[1:], ""][: len(args)]
        spelled = [
            f"--clusters={CLUSTERS[0]}" if each == "--clusters" and after not in CLUSTERS else each
            for each, after in zip(args, following, strict=True)
        ]
        return super().parse_args(ctx, spelled)


@click.command(cls=_Pairs, epilog=EPILOG)
@click.argument(
    "inputs", nargs=-1, required=True, metavar="INPUT...", shell_complete=completed_files
)
@click.option(
    "--clusters",
    type=click.Choice(CLUSTERS),
    metavar="[stars|components]",
    help="Print clusters instead of pairs; stars by default.",
)
@click.option(
    "--dead-letter",
    metavar="PATH",
    shell_complete=completed_files,
    help="File for lines that cannot be read. Without it the first such line stops the command "
    "(exit 65). With it, only a file of nothing else does.",
)
@similarity_options
@output_option
def command(
    inputs: tuple[str, ...],
    clusters: str | None,
    dead_letter: str | None,
    output: str,
    **similarity: Any,
) -> None:
    """Find all near-duplicate pairs of files (JSON Lines, CSV, Avro, Parquet)."""
    with INTERRUPTION.listening():
        config = config_of(similarity, inputs)
        seed = seed_of(similarity, config)
        kind = clusters or CLUSTERS[0]
        with over_files("comparing", inputs) as advanced:
            found = discover(
                config,
                inputs,
                seed=seed,
                dead_letter=dead_letter,
                clusters=kind,
                advanced=advanced,
            )
    if output == "json":
        standard.answer(as_json(_fields(found)))
    else:
        for line in _clusters(found) if clusters else _pairs(found):
            standard.answer(line)
        standard.say(_summary(found, kind))
    if found.broken and not found.documents:
        raise all_broken(found.broken)


def _fields(found: Discovery) -> dict[str, Any]:
    return {
        "documents": found.documents,
        "broken": found.broken,
        "pairs": [asdict(pair) for pair in found.pairs],
        "clusters": [asdict(cluster) for cluster in found.clusters],
        "overflows": found.overflows,
    }


def _pairs(found: Discovery) -> list[str]:
    """Return the pairs, tab-separated as `evaluate --pairs` reads them."""
    return [
        f"{inline(pair.other)}\t{inline(pair.id)}\t{pair.similarity:.6f}" for pair in found.pairs
    ]


def _clusters(found: Discovery) -> list[str]:
    return [
        "\t".join(map(inline, (cluster.centre, *cluster.members))) for cluster in found.clusters
    ]


def _summary(found: Discovery, kind: str) -> str:
    named = "clusters" if kind == "stars" else kind
    inside = sum(len(cluster.members) for cluster in found.clusters)
    full = (
        f"; {found.overflows:,} times a bucket was full: of more than 255 documents of one kind "
        "not all pairs are here"
        if found.overflows
        else ""
    )
    broken = f"; {found.broken:,} broken lines set aside" if found.broken else ""
    return (
        f"{found.documents:,} documents: {len(found.pairs):,} pairs; {len(found.clusters):,} "
        f"{named}, {inside:,} documents besides their centres{broken}{full}"
    )
