"""``verify``: is an index whole?"""

import os
from pathlib import Path
from typing import Any

import click

from streamfilter.assembly import sketcher_for
from streamfilter.commands.options import answer, config_options, output_option, progress
from streamfilter.commands.states import failing, found_state_option, state_of
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.directory.inspection import Inspected, Wholeness, inspect
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.errors import FormatError, IndexDamaged, IndexMismatch
from streamfilter.similarity.scheme import scheme_of
from streamfilter.stops import ExitCode

NOT_WHOLE = 1
EPILOG = """\b
Examples:
  streamfilter verify --state state/
  streamfilter verify --state backup/ -o json
\b
It reads everything, which takes a minute or two for each million documents. The index may be in
use. Exit 0: whole. Exit 1: not whole. For the service, delete index.path: the next start restores
it from the changelog. filter --state and Deduplicator have no changelog: restore a backup.
"""


@click.command(epilog=EPILOG)
@config_options
@output_option
@found_state_option
def command(output: str, **given: Any) -> int:
    """Check whether an index is whole: every block, and every entry against the others."""
    state, seed = state_of(given)
    with failing():
        # A database that lost its marker is an index, too.
        alone = os.path.isdir(state / DATABASE_NAME)
        paths = [state] if alone else indexes_in(state)
        found = Wholeness([_inspected(path, seed) for path in paths])
    answer(found, output)
    return ExitCode.OK if found.whole else NOT_WHOLE


def _inspected(path: Path, seed: bytes | None) -> Inspected:
    try:
        with viewed(path, seed=seed) as view:
            sketcher = sketcher_for(scheme_of(view.identity.scheme), seed=view.identity.seed)
            with progress(f"verifying {path}", len(view)) as advanced:
                found = inspect(view, sketcher.keys_of, advanced=advanced)
            return Inspected(path, view.identity, found)
    except (IndexDamaged, IndexMismatch, FormatError) as fault:
        return Inspected(path, None, None, str(fault))
