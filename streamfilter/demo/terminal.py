"""How wide and how coloured the spectator's terminal is; a file or a pipe has no edge."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

import click

INDENT = "    "


def is_live() -> bool:
    """Return whether somebody watches: a terminal is there to be drawn on."""
    return sys.stdout is not None and sys.stdout.isatty()


def size() -> tuple[int, int]:
    """Return the columns and rows that may be written without a line that wraps or scrolls."""
    terminal = shutil.get_terminal_size()
    return terminal.columns - 1, terminal.lines - 1


def fitted(text: str) -> str:
    """Return *text* for whoever watches: lines longer than the terminal go on in the next one."""
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
    """Return *text* in its *colour*, unless NO_COLOR asks for none (https://no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)
