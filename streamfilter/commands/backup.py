"""``backup``: a copy of an index, also while a process works on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streamfilter.commands.options import Named, answer, config_options, output_option
from streamfilter.commands.states import failing, found_state_option, state_of
from streamfilter.index.directory.backup import back_up
from streamfilter.index.directory.backup_manifest import CopiedIndexes

EPILOG = """\b
Examples:
  streamfilter backup --state state/ backups/2026-11-22
  streamfilter restore backups/2026-11-22 --state state/
\b
The running process is not affected. It takes about a minute for each million documents. The copy
shows the index at one moment. A process that starts on it reads the rest from the changelog. The
copy contains the index's seed: keep it as private as the index itself.
"""


@click.command(epilog=EPILOG)
@config_options
@output_option
@found_state_option
@click.argument("target", type=Named(path_type=Path))
def command(target: Path, output: str, **given: Any) -> None:
    """Copy the index of a running (or stopped) service into the new directory TARGET."""
    state, seed = state_of(given)
    with failing(target):
        copied = back_up(state, target, seed=seed)
    answer(CopiedIndexes("target", target, copied), output)
