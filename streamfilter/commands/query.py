"""``query``: which documents of a live index are near-duplicates of this one?"""

from typing import Any

import click

from streamfilter.commands.options import answer
from streamfilter.commands.states import asked_of, index_options, state_of
from streamfilter.inquiry.answers import Matches

EPILOG = """\b
Examples:
  streamfilter query --state memory/ "the text of a story"
  streamfilter query --state memory/ @story.txt --threshold 0.6
  streamfilter query --state memory/ --id story-000003 -o json
  streamfilter query --config streamfilter.yaml --record value.json
\b
The index may be in use; it is only read, as it is at this moment. With a --threshold below the one
that the index was planned for, fewer of the similar documents are found.
\b
--id is fast if the index can find documents by id: it was made with input.tombstones: forget, with
input.known_id: update or duplicate, or with verify.also_same. In other indexes --id reads all
documents, which takes about a second for each hundred thousand.
\b
With http.query, a running service answers the same over HTTP: POST /query.
"""


@click.command(epilog=EPILOG)
@index_options
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True,
              help="Most near-duplicates that are printed.")  # fmt: skip
def command(limit: int, threshold: float | None, output: str, **given: Any) -> None:
    """Find the near-duplicates of TEXT in an index, also while it is used.

    @path reads TEXT from a file; @@ stands for an @ at its beginning.
    """
    asked = asked_of(given)
    state, seed = state_of(given)
    answer(Matches.of(asked, state, seed=seed, threshold=threshold, limit=limit), output)
