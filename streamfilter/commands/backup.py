"""``backup``: a copy of an index, also while a process works on it."""

from __future__ import annotations

from pathlib import Path

import click

from streamfilter.commands.options import Named, as_json, config_options, load, output_option
from streamfilter.commands.states import as_fields, failing, found_state_option, line, state_of
from streamfilter.index.directory.backup import back_up
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.process import standard

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
def command(
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    output: str,
    state: Path | None,
    target: Path,
) -> None:
    """Copy the index of a running (or stopped) service into the new directory TARGET."""
    config = load(files, overrides)
    directory, seed_file = state_of(config, state, files), config.index.seed_file
    with failing(target):
        copied = back_up(directory, target, seed=seed_at(seed_file))
    if output == "json":
        standard.answer(
            as_json({"target": str(target), "indexes": [as_fields(each) for each in copied]})
        )
    else:
        standard.answer("\n".join(f"{target}/{line(each)}" for each in copied))
