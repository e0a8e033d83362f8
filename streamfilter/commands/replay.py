"""``streamfilter replay``: dead letters go back to the input, each once."""

from typing import Any

import click

from streamfilter.commands import options
from streamfilter.commands.correcting import corrected, correction_options
from streamfilter.model import ErrorCode
from streamfilter.stops import ConfigError, Problem

EPILOG = """\b
Examples:
  streamfilter replay --config streamfilter.yaml                             what would go
  streamfilter replay --config streamfilter.yaml --code missing_text --yes
  streamfilter replay --config streamfilter.yaml --since 2h --yes
\b
A dead letter goes back to its place's partition of the input topic, with the key, value, headers
and timestamp of the record. The header __streamfilter.attempts counts how often. The record and a
note of it are one transaction. So each letter goes back once, however often the command is run or
killed. The note is a record of the dead-letter topic with the header __streamfilter.note.
\b
Each letter is read with this configuration first. One that would fail again stays, and is counted
by its code: mend the setting, the schema or the limit, or let its producer send it again. A record
that fails later becomes a new letter, with the count. After --attempts it stays for good.
Exit codes: 0, 1 if a chosen letter stays, 64 if there is none.
"""


@click.command("replay", epilog=EPILOG)
@correction_options
@click.option("--code", "codes", multiple=True, type=click.Choice([*map(str, ErrorCode)]),
              help="Only letters with this code. May be repeated.")  # fmt: skip
@click.option("--attempts", type=click.IntRange(1, 999), default=3, show_default=True,
              help="A letter that was sent back so often stays.")  # fmt: skip
def command(codes: tuple[str, ...], attempts: int, **given: Any) -> int:
    """Send dead letters back to the input topic, after their cause was mended.

    Without --yes nothing is written. It shows what would go, and what would fail again.
    """
    from streamfilter.kafka.corrections import replaying

    options.say_unread(given["files"])
    config = options.load(given["files"], given["overrides"])
    topic = config.output.dead_letter
    if topic is None:
        cure = "name the dead-letter topic, as the configuration of the service does"
        raise ConfigError([Problem("output.dead_letter", "there is none", cure)])
    return corrected(config, topic, replaying(codes, attempts), "replayed", given)
