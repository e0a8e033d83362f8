"""Progress of a long command: a bar on a terminal, nothing in a pipe or a log."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from streamfilter.files.formats.lines import STDIN
from streamfilter.files.run import no_progress

Advanced = Callable[[int], None]
"""Called with the amount done since its last call."""


@contextmanager
def progress(label: str, length: int) -> Iterator[Advanced]:
    """Show a bar of *length* on standard error, if that is a terminal."""
    if not length or not sys.stderr.isatty():
        yield no_progress
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update


@contextmanager
def over_files(label: str, paths: Sequence[str]) -> Iterator[Advanced]:
    """Show how much of the files is read; standard input has no length to show."""
    files = () if STDIN in paths else paths
    with progress(label, sum(map(os.path.getsize, filter(os.path.isfile, files)))) as advanced:
        yield advanced
