"""Shared by `verify`, `backup` and `restore`: the state directory, and exits for faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from streamfilter.commands.options import Named
from streamfilter.config.configuration import Config
from streamfilter.index.directory.backup_manifest import Copied
from streamfilter.index.errors import IndexFault, as_stop
from streamfilter.stops import counted

state_option = click.option(
    "--state",
    required=True,
    metavar="DIR",
    type=Named(path_type=Path),
    help="The service's index.path.",
)
found_state_option = click.option(
    "--state",
    metavar="DIR",
    type=Named(path_type=Path),
    help="State directory of filter or of a Deduplicator, or the service's index.path (default: "
    "that of --config).",
)


def state_of(config: Config, state: Path | None, files: tuple[Path, ...]) -> Path:
    """Return the directory that was given, else that of the configuration that was.

    Raises:
        click.UsageError: neither was: the default's may be anybody's.
    """
    if state is not None:
        return state
    if not files and config.index.path == Config().index.path:
        raise click.UsageError("give --state DIR, or --config with the service's index.path")
    return config.index.path


@contextmanager
def failing(made: Path | None = None) -> Iterator[None]:
    """Turn the index's faults inside the block into ends of the process.

    Args:
        made: the directory that the block makes, and which is of no use unless it is whole.
    """
    try:
        yield
    except IndexFault as fault:
        cure = f"make room, remove {made}, and run it again" if made else "make room, run it again"
        raise as_stop(fault, stays="the existing files are unchanged", cure=cure) from fault


def as_fields(copied: Copied) -> dict[str, object]:
    """Return what was copied, for JSON."""
    return {
        "name": copied.name,
        "index_id": copied.index_id,
        "documents": copied.documents,
        "changelog_offset": copied.progress.changelog_offset,
        "files": copied.files,
        "bytes": copied.bytes,
    }


def line(copied: Copied) -> str:
    """Return the same, for a person."""
    return (
        f"{copied.name}: {counted(copied.documents, 'document')}, {copied.bytes / 1e6:,.1f} MB"
        f"{as_of(copied.progress.changelog_offset)}"
    )


def as_of(changelog_offset: int) -> str:
    """Return up to where an index holds its changelog; nothing of one that has none."""
    return f", as of changelog offset {changelog_offset}" if changelog_offset >= 0 else ""
