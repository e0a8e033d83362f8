"""``streamfilter reset``: let a group begin anew, as if it had never worked."""

import os
from pathlib import Path

import click

from streamfilter.commands import options
from streamfilter.commands.states import failing
from streamfilter.config.configuration import Config
from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    MARKER_NAME,
    PARTITION,
    Lock,
    check_ours,
)
from streamfilter.index.directory.opening import wipe_index
from streamfilter.index.errors import file_errors
from streamfilter.process import standard
from streamfilter.stops import ConfigError, ExitCode, Problem

EPILOG = """\b
Examples:
  streamfilter reset --config streamfilter.yaml          what would go; nothing is changed
  streamfilter reset --config streamfilter.yaml --yes
  streamfilter reset --config streamfilter.yaml --outputs --yes
\b
It removes the changelog topic, the group with its offsets, and this host's index (index.path).
With --outputs it also deletes the records of the output topics. Afterwards `run` reads the input
from input.start again, and every document counts as new. It is refused while a process of the
group is alive. If it is interrupted, run it again; until then `run` refuses to start. It needs
READ and DELETE on the changelog, DELETE and DESCRIBE on the group, and DELETE on the outputs.
"""


@click.command("reset", epilog=EPILOG)
@options.config_options
@click.option("--outputs", is_flag=True, help="Delete the records of the output topics, too.")
@click.option("--yes", is_flag=True, help="Remove it all. Without it, nothing is removed.")
@click.option("--dry-run", is_flag=True, help="The same as no --yes.")
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], outputs: bool, yes: bool, dry_run: bool
) -> int:
    """Let the group start over: remove its changelog, its offsets and its index.

    Without --yes nothing is changed. It shows what would be removed.
    """
    if yes and dry_run:
        raise click.UsageError("give --yes or --dry-run, not both")
    from streamfilter.kafka import group_reset
    from streamfilter.kafka.connection import clients

    options.say_unread(files)
    config = options.load(files, overrides)
    admin = clients.admin_client(config)
    found = group_reset.survey(config, admin)
    places = _indexes(config.index.path)
    _refuse_alive(config, found.members, places)
    if found.changelog:
        group_reset.refuse_foreign(config)
    if outputs:
        group_reset.refuse_compacted(config, admin)
    standard.say(found.as_text(config, places, outputs=outputs))
    if not yes:
        standard.say("nothing was changed; --yes does it")
        return ExitCode.OK
    # The order is the module's: see there.
    group_reset.delete_topics(config, admin, sorted(config.made_topics))
    if outputs:
        group_reset.empty_outputs(config, admin)
    group_reset.delete_group(config, admin)
    with failing():
        for place in places:
            wipe_index(place)
    standard.say(
        "done; also remove index.path on the other hosts of the group, or `run` refuses to start "
        "there"
    )
    return ExitCode.OK


def _indexes(path: Path) -> list[Path]:
    """Return the index directories of a service in *path*, damaged and half-made ones, too."""
    below = sorted(path.glob(f"{PARTITION}*")) if os.path.isdir(path) else []
    return [
        place
        for place in (path, *below)
        if any(os.path.lexists(place / name) for name in (DATABASE_NAME, MARKER_NAME))
    ]


def _refuse_alive(config: Config, members: tuple[str, ...], places: list[Path]) -> None:
    if members:
        seconds = config.kafka.session_timeout.total_seconds()
        got = f"the group {config.kafka.group!r} is alive: {', '.join(sorted(members))}"
        cure = (
            "stop every process of the group, standbys too, and run this again; a killed one "
            f"counts as alive for {seconds:g} s (kafka.session_timeout)"
        )
        raise ConfigError([Problem("kafka.group", got, cure)])
    with failing():
        for place in places:
            with file_errors(place):
                check_ours(place)
                Lock(place).release()
