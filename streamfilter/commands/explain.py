"""``explain``: each step of one document's verdict, and why not another one."""

from datetime import datetime
from typing import Any

import click

from streamfilter.commands import options
from streamfilter.commands.options import progress
from streamfilter.commands.states import asked_of, index_options, state_of
from streamfilter.config.configuration import Config
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.errors import IndexRefused
from streamfilter.inquiry.answers import Explanations
from streamfilter.inquiry.indexes import UnknownId
from streamfilter.inquiry.withheld import Withheld
from streamfilter.process.signals import INTERRUPTION

EPILOG = """\b
Examples:
  streamfilter explain --config streamfilter.yaml --id story-000042    why was it withheld?
  streamfilter explain --state memory/ "the text of a story"
  streamfilter explain --state memory/ @story.txt --against story-000003
  streamfilter explain --state memory/ --id story-000007 --against story-000003 -o json
\b
A withheld document is not in the index. With --config, its verdict is read from the duplicates
topic, in shadow mode from the unique topic. The newest records are read first, up to one that has
the id. With --since, all verdicts on the id from that time on are shown, also if the
index has the id. Ctrl-C ends the search. Nothing is joined or written.
\b
The index may be in use; it is only read. The answer holds for the index as it is now. A record that
arrived earlier was judged against fewer documents.
"""


@click.command(epilog=EPILOG)
@index_options
@click.option("--against", metavar="ID", help="Explain why this document of the index is no match.")
@options.since_option
def command(
    against: str | None, threshold: float | None, since: datetime | None, output: str, **given: Any
) -> None:
    """Explain step by step how the filter would judge TEXT, or why a document was withheld.

    @path reads TEXT from a file; @@ stands for an @ at its beginning. With --id, a stored document
    is compared with the earlier ones, as it was when it arrived.
    """
    asked = asked_of(given)
    state, seed = state_of(given)
    named = bool(given["files"] or given["overrides"]) and asked.id is not None
    if since is not None and (not named or against is not None):
        raise click.UsageError("--since belongs to --id and --config, without --against")
    if since is None and not (named and _absent(state)):
        try:
            options.answer(
                Explanations.of(asked, state, seed=seed, threshold=threshold, against=against),
                output,
            )
            return
        except UnknownId:
            if not named or against is not None:
                raise
    with INTERRUPTION.listening():
        config = options.load(given["files"], given["overrides"])
        found = _withheld(config, asked.id or "", since)
    options.answer(found, output)


def _absent(state: Any) -> bool:
    """Return whether there is no index on this host."""
    try:
        indexes_in(state)
    except IndexRefused:
        return True
    return False


def _withheld(config: Config, id_: str, since: datetime | None) -> Withheld:
    """Return the verdicts in the topic with withheld records, or raise `Stop`: there is none."""
    from streamfilter.kafka.topic_reader import opened

    shadow = config.output.mode == "shadow"
    topic = config.output.unique if shadow else config.output.duplicates
    found = Withheld(id_, topic, forwarded=shadow)
    with opened(config, topic, since) as (reader, bounds):
        length = sum(end - start for start, end in bounds.values())
        with progress(f"looking through {topic}", length) as advanced:
            for block in reader.newest_first(bounds, advanced):
                found.look(block)
                if found.count and since is None:
                    break
    if not found.count:
        raise found.unknown()
    return found
