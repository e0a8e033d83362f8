"""``streamfilter check``: everything that is wrong with a configuration, before it runs.

The checks themselves are in ``preflight/``.
"""

from __future__ import annotations

from pathlib import Path

import click

from streamfilter.commands import options
from streamfilter.preflight.report import preflight
from streamfilter.stops import ExitCode

EXAMPLES = """\b
Examples:
  streamfilter check --config streamfilter.yaml
  streamfilter check --config streamfilter.yaml --connect
  streamfilter check --set similarity.bands=20 --set similarity.rows=8
"""


@click.command("check", epilog=EXAMPLES)
@options.config_options
@click.option(
    "--connect",
    is_flag=True,
    help="Ask the broker too: topics, partitions, rights, and whether the latest records can be "
    "read; and the schema registry: whether text and id are in the newest schema.",
)
@click.option(
    "--apply",
    "create",
    is_flag=True,
    help="Create missing output topics, then check as --connect does.",
)
@options.output_option
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], connect: bool, create: bool, output: str
) -> int:
    """List everything that is wrong with a configuration, before it runs.

    Changes nothing unless --apply is given. Exit codes: 0 if all is well, 78 if something is wrong,
    75 if only the brokers or the registry did not answer.
    """
    options.say_unread(files)
    found = preflight(options.read(files, overrides), connect=connect, create=create)
    options.answer(found, output, masked=True)  # librdkafka quotes the values that it refuses
    if found.only_unreachable:
        return ExitCode.TEMPORARY
    return ExitCode.CONFIG if found.wrong else ExitCode.OK
