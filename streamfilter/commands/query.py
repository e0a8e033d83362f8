"""``query``: which documents of a live index are near-duplicates of this one?"""

from __future__ import annotations

from typing import Any

import click

from streamfilter.commands.options import as_json
from streamfilter.commands.views import (
    OpenIndex,
    as_numbers,
    asked,
    places,
    question,
    unknown,
    view_options,
)
from streamfilter.matching.search import Candidate, search
from streamfilter.process import standard
from streamfilter.process.terminal_escapes import inline
from streamfilter.stops import counted

EPILOG = """\b
Examples:
  streamfilter query --state memory/ "the text of a story"
  streamfilter query --state memory/ @story.txt --threshold 0.6
  streamfilter query --state memory/ --id story-000003 -o json
\b
The index may be in use: it is only read, as it is at this moment. --id reads all documents, about a
second for each hundred thousand, unless the index was made with input.tombstones: forget. Below the
threshold that the index was planned for, fewer of the similar documents are found.
"""


@click.command(epilog=EPILOG)
@view_options
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Most near-duplicates that are printed.",
)
def command(
    text: str | None, id_: str | None, scope: str | None, limit: int, output: str, **given: Any
) -> None:
    """Find the near-duplicates of TEXT in an index, also while it is used.

    @path reads TEXT from a file; @@ stands for an @ at its beginning.
    """
    wanted = asked(text, id_)
    found: list[tuple[OpenIndex, Candidate]] = []
    known = documents = met = 0
    with places(given) as opened:
        for place in opened:
            documents += len(place.view)
            asked_about = question(place, wanted, id_, scope)
            if asked_about is None:
                continue
            known += 1
            (answers,) = search(
                place.view, asked_about.sketches, policy=place.policy, reach=asked_about.reach
            )
            others = [each for each in answers if each.ordinal != asked_about.ordinal]
            met += len(others)
            found += [(place, each) for each in others if each.confirmed]
        if not known:
            raise unknown(id_, given["state"])
        found.sort(key=lambda each: (-each[1].finding.similarity, each[1].ordinal))
        threshold = opened[0].policy.threshold
        answer = {
            "threshold": threshold,
            "documents": documents,
            "candidates": met,
            "duplicates": len(found),
            "matches": [_fields(place, each) for place, each in found[:limit]],
        }
    standard.answer(as_json(answer) if output == "json" else _report(answer))


def _fields(place: OpenIndex, found: Candidate) -> dict[str, object]:
    return {
        "id": found.id,
        **as_numbers(found.finding),
        "why": found.finding.why,
        "ordinal": found.ordinal,
        "bands": found.bands,
        "source": place.origins.described(found.partition, found.offset),
    }


def _report(answer: dict[str, Any]) -> str:
    """Return the answer for a person."""
    lines = [
        f"{counted(answer['duplicates'], 'near-duplicate')} at {answer['threshold']:g} among "
        f"{counted(answer['documents'], 'document')}; {answer['candidates']:,} shared a band"
    ]
    width = max((len(each["id"]) for each in answer["matches"]), default=0)
    for each in answer["matches"]:
        source = ", ".join(f"{name} {value}" for name, value in each["source"].items())
        how = "same text" if each["fate"] == "same_text" else f"{each['bands']} bands"
        mark = "" if each["exact"] else " (estimated)"
        lines.append(f"  {each['similarity']:.4f}{mark}  {each['id']:<{width}}  {how:>9}  {source}")
    return "\n".join(map(inline, lines))
