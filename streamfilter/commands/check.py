"""``streamfilter check``: everything that is wrong with a configuration, before it runs.

The checks themselves are in ``preflight/``.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from streamfilter.commands import options
from streamfilter.preflight.report import RightsAsked, preflight
from streamfilter.stops import ExitCode

EXAMPLES = """\b
Examples:
  streamfilter check --config streamfilter.yaml
  streamfilter check --config streamfilter.yaml --connect
  streamfilter check --config streamfilter.yaml --connect --apply --role edge --principal User:edge
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
    help="Create missing topics and, where the brokers allow it, missing ACLs; then check as "
    "--connect does.",
)
@click.option(
    "--role",
    type=click.Choice(["edge", "judge"]),
    help="With cluster.enabled: check the rights of this role.  [default: of both]",
)
@click.option(
    "--principal",
    metavar="User:NAME",
    help="Whose rights are checked.  [default: the user of kafka.common]",
)
@options.output_option
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], connect: bool, create: bool,
    role: str | None, principal: str | None, output: str,
) -> int:  # fmt: skip
    """List everything that is wrong with a configuration, before it runs.

    Changes nothing unless --apply is given. Exit codes: 0 if all is well, 78 if something is wrong,
    75 if only the brokers or the registry did not answer.
    """
    options.say_unread(files)
    if principal is not None and not re.fullmatch(r"[^\s:]+:[^\0\r\n]+", principal):
        raise click.BadParameter(f"{principal!r} is no TYPE:NAME; write User:news")
    reading = options.read(files, overrides)
    if role is not None and not reading.config.cluster.enabled:
        raise click.UsageError("--role needs cluster.enabled: true")
    roles = (role,) if role or not reading.config.cluster.enabled else ("edge", "judge")
    asked = RightsAsked(roles, principal)
    found = preflight(reading, connect=connect, create=create, asked=asked)
    options.answer(found, output, masked=True)  # librdkafka quotes the values that it refuses
    if found.only_unreachable:
        return ExitCode.TEMPORARY
    return ExitCode.CONFIG if found.wrong else ExitCode.OK
