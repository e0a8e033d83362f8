"""``streamfilter peek``: how records are read under a configuration, before anything is judged.

A topic's records are read by a consumer that joins no group and commits nothing.
"""

from itertools import islice
from pathlib import Path

import click

from streamfilter.commands import options
from streamfilter.preflight.records import Look
from streamfilter.stops import ExitCode

RECORDS_MAX = 1_000

EPILOG = """\b
Examples:
  streamfilter peek --config streamfilter.yaml            the topic's latest records
  streamfilter peek --config streamfilter.yaml -n 100 --from earliest -o json
  streamfilter peek news.jsonl --set input.text=/body     a file's first records
  streamfilter peek --set input.topic=news --set input.format=avro \\
      --set input.registry.url=http://registry:8081 --set kafka.common.bootstrap.servers=kafka:9092
\b
What is printed for each record:
  document     it has a text: its id, and the text that is compared
  passthrough  it would be forwarded without a verdict: empty, or a tombstone
  dropped      it would not be forwarded, because the configuration says so
  dead letter  it cannot be read: the code, the reason, and the fields that it has
  waits        the schema registry does not answer, so it cannot be read now
\b
Nothing is judged, committed, created or written, and no group is joined. A running service is
not affected. Exit codes: 0, or 65 if none of the records can be read.
"""


@click.command("peek", epilog=EPILOG)
@options.config_options
@options.inputs_argument("[FILE...]")
@click.option(
    "-n", "--records", "count", default=5, show_default=True,
    type=click.IntRange(1, RECORDS_MAX), help="Number of records.",
)  # fmt: skip
@click.option(
    "--from", "where", type=click.Choice(["latest", "earliest"]), default="latest",
    show_default=True, help="Which end of the topic. A file's first records are always taken.",
)  # fmt: skip
@options.output_option
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], inputs: tuple[str, ...], count: int,
    where: str, output: str,
) -> int:  # fmt: skip
    """Show how records of the input topic, or of files, are read: id, text, or the error.

    For a record that cannot be read, it prints the fields, and the pointer that may be the text's.
    """
    options.say_unread(files)
    config = options.load(files, overrides)
    if inputs:
        from streamfilter.files.inputs import for_files, records_in

        config = for_files(config, inputs)
        records = list(islice(records_in(inputs, config), count))
    else:
        from streamfilter.kafka import topic_sample

        sample = topic_sample.latest if where == "latest" else topic_sample.earliest
        records = sorted(sample(config, count), key=lambda record: record.timestamp)
        records = records[-count:] if where == "latest" else records[:count]
    look = Look.at(config, records, place=", ".join(inputs) or config.input.name)
    options.answer(look, output, masked=True)
    all_broken = look.seen and len(look.broken) == len(look.seen)
    return ExitCode.BROKEN_INPUT if all_broken else ExitCode.OK
