"""Makes stdin, stdout and stderr safe to use, even if the parent process closed them.

The next opened file gets the number of a closed descriptor. A library that writes to standard error
would then write into a table of the index. If a reader of standard output has gone, the
interpreter's last flush fails and changes the exit code to 120.
"""

import errno
import io
import os
import sys
from contextlib import suppress

import click

from streamfilter.process.logs import MASKER
from streamfilter.process.terminal_escapes import visible
from streamfilter.stops import ExitCode, NoRoom, no_room

DESCRIPTORS = (0, 1, 2)


def secure() -> None:
    """Open the null device for closed descriptors, and let no character end an answer.

    So no file gets the number of a closed descriptor.
    """
    for number in DESCRIPTORS:
        try:
            os.fstat(number)
        except OSError:
            # open() takes the lowest free number: this one, because all below are in use.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # logging needs one
    # Standard output stays None: a command that writes records there reports that it is closed.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # A terminal of Latin-1 has no arrow: it is shown as an escape, and the answer is not lost.
        sys.stdout.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Write *text* to standard error, masked and `visible`; do nothing without a reader."""
    with suppress(OSError):
        click.echo(visible(MASKER.mask(text)), err=True)


def answer(text: str) -> None:
    """Write a command's answer to standard output, made `visible`, or raise `NoRoom`."""
    try:
        click.echo(visible(text))
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal that was closed, which is no pipe
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
        if not no_room(error):
            raise
        raise NoRoom(
            f"standard output does not take the answer: {error.strerror}",
            stays="the work itself is done; only the printed answer is incomplete",
        ) from None


def settled(code: int) -> int:
    """Flush the streams while a failure can still be reported, and return the exit code."""
    if not _flushed(1) and code == ExitCode.OK:
        code = ExitCode.UNREAD
    _flushed(2)
    return code


def _flushed(number: int) -> bool:
    """Flush a stream; if that fails, redirect it to the null device."""
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
