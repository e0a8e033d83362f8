"""``backup``: a copy of an index, also while a process works on it."""

from pathlib import Path
from typing import Any

import click

from streamfilter.backup.index_target import back_up
from streamfilter.backup.manifest import CopiedIndexes
from streamfilter.backup.targets import store_at
from streamfilter.commands.options import answer, config_options, output_option
from streamfilter.commands.states import failing, found_state_option, state_of, target_of

EPILOG = """\b
Examples:
  streamfilter backup --state state/ --to backups/
  streamfilter backup --config streamfilter.yaml --to s3://bucket/streamfilter
\b
The running process is not affected. It takes about a minute for each million documents. The copy
shows the index at one moment. A process that starts on it reads the rest from the changelog. The
copy contains the index's seed: keep it as private as the index itself. index.backup makes a
running service take such copies itself, every hour, and uploads only what is new.
"""


@click.command(epilog=EPILOG)
@config_options
@output_option
@found_state_option
@click.option(
    "--to",
    "target",
    metavar="TARGET",
    help="A directory, file:///DIR or s3://BUCKET/PREFIX (default: the configuration's "
    "index.backup.target). It may hold other backups.",
)
def command(target: str | None, output: str, **given: Any) -> None:
    """Copy the index of a running (or stopped) service to TARGET."""
    state, seed = state_of(given)
    wanted = target_of(target, given, "--to")
    with failing(Path(wanted)):
        store = store_at(wanted)
        copied = back_up(state, store, seed=seed)
    answer(CopiedIndexes("target", store.where, copied), output)
