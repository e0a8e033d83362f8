"""``pairs``: all near-duplicates of a file, as pairs and as clusters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from streamfilter.commands.options import as_json, output_option
from streamfilter.commands.similarity_options import config_of, seed_of, similarity_options
from streamfilter.files.discovery import Discovery, discover
from streamfilter.files.summary import all_broken
from streamfilter.process import standard
from streamfilter.process.signals import INTERRUPTION

EPILOG = """\b
Examples:
  streamfilter pairs news.jsonl
  streamfilter pairs news.jsonl.gz --text /body --threshold 0.7 --clusters
  streamfilter pairs poems.jsonl --shingle char:3 -o json
\b
A cluster is a star: each member is similar to the centre, its first document, and members need
not be similar to each other. Pairs are found by the same bands as in the service, so one in a
hundred at the very threshold is missed (`streamfilter plan` shows the curve).
"""


@click.command(epilog=EPILOG)
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--clusters", is_flag=True, help="Print clusters instead of pairs.")
@click.option(
    "--dead-letter",
    metavar="PATH",
    help="Lines that cannot be read. Without it the first one stops the command (exit 65), with "
    "it only a file of nothing else.",
)
@similarity_options
@output_option
def command(
    inputs: tuple[str, ...],
    clusters: bool,
    dead_letter: str | None,
    output: str,
    **similarity: Any,
) -> None:
    """Find all near-duplicate pairs of JSON Lines files (.gz and - too); nothing is kept."""
    with INTERRUPTION.listening():
        config = config_of(similarity)
        seed = seed_of(similarity, config)
        found = discover(config, inputs, seed=seed, dead_letter=dead_letter)
    if output == "json":
        standard.answer(as_json(_fields(found)))
    else:
        for line in _clusters(found) if clusters else _pairs(found):
            standard.answer(line)
        standard.say(_summary(found))
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
    return [f"{pair.other}\t{pair.id}\t{pair.similarity:.6f}" for pair in found.pairs]


def _clusters(found: Discovery) -> list[str]:
    return ["\t".join((cluster.centre, *cluster.members)) for cluster in found.clusters]


def _summary(found: Discovery) -> str:
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
        f"clusters, {inside:,} documents besides their centres{broken}{full}"
    )
