"""``restore``: an index out of a backup."""

from __future__ import annotations

from pathlib import Path

import click

from streamfilter.commands.options import Named, answer, output_option
from streamfilter.commands.progress import progress
from streamfilter.commands.states import failing, state_option
from streamfilter.index.directory.backup import restore, size_of
from streamfilter.index.directory.backup_manifest import CopiedIndexes

EPILOG = """\b
Example:
  streamfilter restore backups/2026-11-22 --state state/
\b
The directory must be new or empty. Every byte is checked against the backup's checksums. Then start
the service: it reads from the changelog what came after the backup.
"""


@click.command(epilog=EPILOG)
@output_option
@state_option
@click.argument("backup", type=Named(path_type=Path))
def command(output: str, state: Path, backup: Path) -> None:
    """Restore the index in BACKUP into a new state directory."""
    with failing(state), progress("restoring", size_of(backup)) as advanced:
        copied = restore(backup, state, advanced=advanced)
    answer(CopiedIndexes("state", state, copied), output)
