"""Width and colours of the terminal; a file or a pipe has no width."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

import click

INDENT = "    "


def is_live() -> bool:
    """Return whether the output is a terminal that can be drawn on."""
    return sys.stdout is not None and sys.stdout.isatty()


def size() -> tuple[int, int]:
    """Return the columns and rows that may be written without a line that wraps or scrolls."""
    terminal = shutil.get_terminal_size()
    return terminal.columns - 1, terminal.lines - 1


def fitted(text: str) -> str:
    """Return *text* with lines wrapped at the width of the terminal."""
    return "\n".join(fitted_lines(text)) if is_live() else text


def fitted_lines(text: str) -> list[str]:
    """Return the lines of *text*, none of them longer than the terminal."""
    width = size()[0]
    return [
        part
        for line in text.splitlines()
        for part in (textwrap.wrap(line, width, subsequent_indent=INDENT) if line else [""])
    ]


def coloured(text: str, colour: str | None) -> str:
    """Return *text* in *colour*, unless NO_COLOR is set (https://no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)
