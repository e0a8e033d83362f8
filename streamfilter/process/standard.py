"""Standard input, output and error, whatever whoever started us made of them.

A closed descriptor is a trap: the next file that is opened gets its number, and what a library
writes to standard error lands in a table of the index. A reader that has gone is another: the
interpreter flushes once more at its end, fails, and changes the exit code to 120.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from streamfilter.process.logs import MASKER
from streamfilter.process.visible import visible
from streamfilter.stops import ExitCode, NoRoom, no_room

DESCRIPTORS = (0, 1, 2)


def secure() -> None:
    """Give closed descriptors to the null device, so that no file of ours gets their number."""
    for number in DESCRIPTORS:
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number: this one, for those below are taken.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # logging wants one
    # Standard output stays None: who wants to write records there is told that it is closed.


def say(text: str) -> None:
    """Write *text* to standard error, masked and `visible`; without a reader, nothing happens."""
    with suppress(OSError):
        click.echo(visible(MASKER.mask(text)), err=True)


def answer(text: str) -> None:
    """Write *text*, `visible`, to standard output: what a verb was asked for.

    Raises:
        NoRoom: there is none for it, as when a shell sent it into a file on a full disk.
    """
    try:
        click.echo(visible(text))
    except OSError as error:
        if not no_room(error):
            raise
        raise NoRoom(
            f"standard output does not take the answer: {error.strerror}",
            stays="what was done stays done; what is there of the answer is not whole",
        ) from None


def settled(code: int) -> int:
    """Flush what is to be written while a failure can still be told, and return the exit code."""
    if not _flushed(1) and code == ExitCode.OK:
        code = ExitCode.UNREAD
    _flushed(2)
    return code


def _flushed(number: int) -> bool:
    """Flush a stream; one that cannot take it loses it to the null device."""
    stream = sys.stdout if number == 1 else sys.stderr
    try:
        if stream is not None and not stream.closed:
            stream.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        return False
    return True
