"""``verify``: is an index whole?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from streamfilter.assembly import sketcher_for
from streamfilter.commands.options import as_json, config_options, load, output_option
from streamfilter.commands.progress import progress
from streamfilter.commands.states import as_of, failing, found_state_option, state_of
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.directory.inspection import Inspection, inspect
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import FormatError, IndexDamaged, IndexMismatch
from streamfilter.process import standard
from streamfilter.similarity.scheme import scheme_of
from streamfilter.stops import ExitCode, counted

NOT_WHOLE = 1
EPILOG = """\b
Examples:
  streamfilter verify --state state/
  streamfilter verify --state backup/ -o json
\b
Reads everything, a minute or two for each million documents; the index may be in use.
Exit 0: whole. Exit 1: not whole; delete the directory, and the next start restores the index.
"""


@click.command(epilog=EPILOG)
@config_options
@output_option
@found_state_option
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], output: str, state: Path | None
) -> int:
    """Check whether an index is whole: every block, and every entry against the others."""
    config = load(files, overrides)
    directory, seed_file = state_of(config, state, files), config.index.seed_file
    with failing():
        seed = seed_at(seed_file)
        answers = [_answer(path, seed) for path in _indexes(directory)]
    whole = not any(answer["problems"] for answer in answers)
    fields = {"whole": whole, "indexes": answers}
    standard.answer(as_json(fields) if output == "json" else "\n".join(map(_line, answers)))
    return ExitCode.OK if whole else NOT_WHOLE


def _indexes(state: Path) -> list[Path]:
    """Return the indexes in *state*; a database that lost its marker is one too."""
    if os.path.isdir(state / DATABASE_NAME):
        return [state]
    return indexes_in(state)


def _answer(path: Path, seed: bytes | None) -> dict[str, Any]:
    try:
        with viewed(path, seed=seed) as view:
            sketcher = sketcher_for(scheme_of(view.identity.scheme), seed=view.identity.seed)
            with progress(f"verifying {path}", len(view)) as advanced:
                found = inspect(view, sketcher.keys_of, advanced=advanced)
            about = {"index_id": view.identity.index_id,
                     "scheme": view.identity.scheme_fingerprint}  # fmt: skip
    except (IndexDamaged, IndexMismatch, FormatError) as fault:
        return {"path": str(path), "problems": [str(fault)]}
    return {"path": str(path), **about, **_counts(found), "problems": found.problems}


def _counts(found: Inspection) -> dict[str, Any]:
    return {
        "documents": found.documents,
        "buckets": found.buckets,
        "batches": found.batches,
        "changelog_offset": found.progress.changelog_offset,
        "positions": {str(p): offset for p, offset in (found.progress.positions or {}).items()},
    }


def _line(answer: dict[str, Any]) -> str:
    if answer["problems"]:
        return "\n    ".join([f"{answer['path']}: not whole", *answer["problems"]])
    return (
        f"{answer['path']}: whole; {counted(answer['documents'], 'document')} in "
        f"{counted(answer['buckets'], 'bucket')}{as_of(answer['changelog_offset'])}"
    )
