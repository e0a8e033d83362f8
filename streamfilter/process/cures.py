"""Cures that name a command of ours: they repeat the configuration that the verb was given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

_COMMAND = re.compile(r"`streamfilter (check|feed|forget|peek|reset|run)\b(?![^`]*--config )")


class Cures:
    """The files that this process was given, for the commands that it advises."""

    def __init__(self) -> None:
        self._given = ""

    def remember(self, files: Sequence[Path]) -> None:
        """Let the commands of cures name *files*."""
        self._given = "".join(f" --config {quote(str(path))}" for path in files)

    def completed(self, text: str) -> str:
        """Return *text* with the files behind each command in backticks that takes them."""
        return _COMMAND.sub(lambda match: match[0] + self._given, text)


CURES = Cures()
"""One for the process: a cure is written where no command line is known."""
