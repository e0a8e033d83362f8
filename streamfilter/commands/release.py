"""``streamfilter release``: withheld records go to the unique topic, each once."""

from __future__ import annotations

from typing import Any

import click

from streamfilter.commands import options
from streamfilter.commands.correcting import corrected, correction_options
from streamfilter.inquiry.pair import beside_original
from streamfilter.matching.verdict.side_records import SideRecord
from streamfilter.model import Record

EPILOG = """\b
Examples:
  streamfilter release --config streamfilter.yaml --id story-000042          what would go
  streamfilter release --config streamfilter.yaml --id story-000042 --yes
  streamfilter release --config streamfilter.yaml --partition 0 --offset 90210 --yes
  streamfilter release --config streamfilter.yaml --matched story-000003 --since 2h --yes
\b
A withheld record goes to the unique topic as it was in the input: key, value, headers, timestamp.
The header __streamfilter.released says when, and what the verdict was. The record and a note of it
are one transaction. So each record is released once, however often the command is run or killed.
The note is a record of the duplicates topic with the header __streamfilter.note.
\b
With output.duplicates_mode: reference the record is read from the input. If it is not there any
more, it stays. The index does not remember released records. A service may run meanwhile.
Exit codes: 0, 1 if a chosen record stays, 64 if no such record was withheld.
"""


@click.command("release", epilog=EPILOG)
@correction_options
@click.option("--id", "id_", metavar="ID", help="The withheld documents with this id.")
@click.option("--matched", metavar="ID", help="All that matched the document with this id.")
@click.option("--partition", type=click.IntRange(0), metavar="P",
              help="With --offset: the record at this place of the input.")  # fmt: skip
@click.option("--offset", type=click.IntRange(0), metavar="O", help="See --partition.")
@click.option("--topic", metavar="TOPIC",
              help="With --partition: which input topic, if there are several.")  # fmt: skip
def command(
    id_: str | None, matched: str | None, partition: int | None, offset: int | None,
    topic: str | None, **given: Any,
) -> int:  # fmt: skip
    """Send records that were withheld wrongly to the unique topic.

    Without --yes nothing is written. It shows each record, compared with the original it matched.
    """
    from streamfilter.kafka.corrections import releasing
    from streamfilter.kafka.topic_reader import TopicReaders

    spot = partition is not None and offset is not None
    if (partition is None) is not (offset is None) or (topic is not None and not spot):
        raise click.UsageError("--partition, --offset and --topic belong together")
    if [id_ is not None, matched is not None, spot].count(True) != 1:
        raise click.UsageError("give one of --id, --matched, or --partition with --offset")
    options.say_unread(given["files"])
    config = options.load(given["files"], given["overrides"])
    if spot and topic is None and config.input.several:
        raise click.UsageError("there are several input topics: name one by --topic")
    place = (topic, partition or 0, offset or 0) if spot else None
    with TopicReaders(config) as readers:

        def view(side: SideRecord, record: Record) -> tuple[str, dict[str, Any]]:
            original, there = None, "not in the input any more"
            if side.evidence is not None and side.evidence.matches:
                source = side.evidence.matches[0].source
                if source.seeded:
                    there = str(source)
                elif config.input.among([source.topic]):
                    original = readers.at(source)
            return beside_original(config, record, original, place=there)

        verb = releasing(config, id=id_, matched=matched, place=place)
        return corrected(config, config.output.duplicates, verb, "released", given, view)
