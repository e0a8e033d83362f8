"""``restore``: an index out of a backup."""

from typing import Any

import click

from streamfilter.backup.download import of_index, restorable, restore
from streamfilter.backup.manifest import CopiedIndexes
from streamfilter.backup.targets import store_at
from streamfilter.commands.options import answer, config_options, output_option, progress
from streamfilter.commands.states import failing, found_state_option, state_of, target_of

EPILOG = """\b
Examples:
  streamfilter restore --from backups/ --state state/
  streamfilter restore --config streamfilter.yaml --from s3://bucket/streamfilter
\b
The newest whole backup is taken. The directory must be new or empty. Every byte is checked against
the backup's checksums. Then start the service: it reads from the changelog what came after the
backup. With index.backup, a service that starts with an empty directory does all this itself.
"""


@click.command(epilog=EPILOG)
@config_options
@output_option
@found_state_option
@click.option(
    "--from",
    "target",
    metavar="TARGET",
    help="A directory, file:///DIR or s3://BUCKET/PREFIX with backups (default: the "
    "configuration's index.backup.target).",
)
@click.option("--index-id", metavar="ID", help="Which index, if TARGET has backups of several.")
def command(target: str | None, index_id: str | None, output: str, **given: Any) -> None:
    """Restore the newest backup in TARGET into a new state directory."""
    state, _ = state_of(given)
    wanted = target_of(target, given, "--from")
    with failing(state):
        store = store_at(wanted)
        copied = of_index(store, index_id) if index_id else restorable(store)
        with progress("restoring", sum(each.bytes for each in copied)) as advanced:
            restore(store, copied, state, advanced=advanced)
    answer(CopiedIndexes("state", str(state), copied), output)
