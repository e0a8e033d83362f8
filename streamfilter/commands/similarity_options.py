"""The options that `filter` and `evaluate` share: short names for settings, and --config."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--text", metavar="POINTER", help="JSON Pointer to the text [/text]."),
    click.option(
        "--id", "id_", metavar="POINTER", help="JSON Pointer to the id [/id]; none: its position."
    ),
    click.option(
        "--threshold", type=float, metavar="J", help="Similarity that makes a duplicate [0.8]."
    ),
    click.option(
        "--shingle",
        metavar="KIND:SIZE",
        help="word:3 (default) or, for short texts and languages without spaces, such as char:3.",
    ),
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="FILE",
        help="Configuration; topics in it are not used. Repeatable, later ones win.",
    ),
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="One setting. Repeatable."
    ),
)


def similarity_options(command: Command) -> Command:
    """Add the shared options to *command*."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def overrides_of(given: dict[str, Any]) -> tuple[tuple[Path, ...], list[str]]:
    """Return the configuration files and overrides that the shared options stand for."""
    overrides = list(given["settings"])
    if given["text"] is not None:
        overrides.append(f"input.text={given['text']}")
    if given["id_"] is not None:
        overrides.append(f"input.id={'null' if given['id_'] in ('', 'none') else given['id_']}")
    if given["threshold"] is not None:
        overrides.append(f"similarity.threshold={given['threshold']}")
    if given["shingle"] is not None:
        kind, colon, size = given["shingle"].partition(":")
        if not colon:
            raise click.UsageError(
                f"--shingle {given['shingle']!r} is not KIND:SIZE; write it like word:3 or char:5"
            )
        overrides += [f"similarity.shingle.kind={kind}", f"similarity.shingle.size={size}"]
    return given["config"], overrides
