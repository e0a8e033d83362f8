"""``explain``: each step of one document's verdict, and why not another one."""

from __future__ import annotations

from typing import Any

import click

from streamfilter.commands.options import answer
from streamfilter.commands.states import asked_of, index_options, state_of
from streamfilter.inquiry.answers import Explanations

EPILOG = """\b
Examples:
  streamfilter explain --state memory/ "the text of a story"
  streamfilter explain --state memory/ @story.txt --against story-000003
  streamfilter explain --state memory/ --id story-000007 --against story-000003 -o json
\b
The index may be in use; it is only read. The answer holds for the index as it is now. A record that
arrived earlier was judged against fewer documents.
"""


@click.command(epilog=EPILOG)
@index_options
@click.option("--against", metavar="ID", help="Explain why this document of the index is no match.")
def command(against: str | None, threshold: float | None, output: str, **given: Any) -> None:
    """Explain step by step how the filter would judge TEXT.

    @path reads TEXT from a file; @@ stands for an @ at its beginning. With --id, a stored document
    is compared with the earlier ones, as it was when it arrived.
    """
    asked = asked_of(given)
    state, seed = state_of(given)
    answer(Explanations.of(asked, state, seed=seed, threshold=threshold, against=against), output)
