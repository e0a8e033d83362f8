"""Completes the commands in cures with the configuration files of this process."""

import re
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

_COMMAND = re.compile(
    r"`streamfilter (check|explain|forget|peek|release|replay|reset|run|seed)\b(?![^`]*--config )"
)


class Cures:
    """The configuration files of this process, for the commands in its messages."""

    def __init__(self) -> None:
        self._given = ""

    def remember(self, files: Sequence[Path]) -> None:
        """Store *files*, to be named in the commands of cures."""
        self._given = "".join(f" --config {quote(str(path))}" for path in files)

    def completed(self, text: str) -> str:
        """Return *text* with the files added to each command in backticks that takes them."""
        return _COMMAND.sub(lambda match: match[0] + self._given, text)


CURES = Cures()  # one for the process: who writes a cure does not know the command line
