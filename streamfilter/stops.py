"""Why the process stops: the exit codes and the exceptions that carry them.

Expected trouble is a value (a dead letter, a `Problem`). What is raised here ends the
process on purpose: `cli.main` prints the message and returns the code. Everything else that
rises is a bug (70), and the restart replays.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """What a supervisor reads; the numbers below 128 are those of sysexits.h."""

    OK = 0
    USAGE = 64
    BROKEN_INPUT = 65
    """A broken line and no ``--dead-letter``, or nothing but broken lines."""
    BUG = 70
    TEMPORARY = 75
    """Try again later: the broker stayed unreachable past the start timeout, a call did not return
    within 20 s of SIGTERM, a client lost all brokers for good, the system gave no thread, or what
    was to be written found no room."""
    FENCED = 76
    """Another process owns the task now."""
    CONFIG = 78
    """Wrong configuration, or an index that does not belong to it."""
    INTERRUPTED = 130
    """Ctrl-C ended work over files before its outputs appeared: 128 + SIGINT, as shells have it."""
    UNREAD = 141
    """Who read standard output has gone before the answer was out: 128 + SIGPIPE."""
    TERMINATED = 143
    """SIGTERM did: 128 + SIGTERM."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, said so that the reader can repair it."""

    key: str
    """Path of the setting (``similarity.bands``), or of the thing (``topic documents``)."""
    got: str
    """What is wrong: what was found and what was expected. Never a secret."""
    cure: str
    """What to do about it."""
    warning: bool = False
    """It works, but not as a reader of the manual may expect; never a reason to stop."""

    def __str__(self) -> str:
        cure = f"\n    cure: {self.cure}" if self.cure else ""
        return f"{'warning: ' if self.warning else ''}{self.key}: {self.got}{cure}"


class Stop(Exception):
    """The process must end, and knows why; the message names the cure."""

    exit_code = ExitCode.BUG

    def __init__(self, message: str, *, exit_code: ExitCode | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class ConfigError(Stop):
    """The configuration is wrong; `problems` holds everything found, not only the first."""

    exit_code = ExitCode.CONFIG

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class MissingExtra(Stop):
    """A package that is installed only with an extra of ours is not there."""

    exit_code = ExitCode.USAGE

    def __init__(self, what: str, *, needs: str | None, extra: str) -> None:
        super().__init__(
            f"{what} needs {needs}, which is not installed\n"
            f"    cure: pip install 'streamfilter[{extra}]'"
        )


class SchemeMismatch(Stop):
    """The index was built under another scheme, format, seed or identity."""

    exit_code = ExitCode.CONFIG


class Refused(Stop):
    """The brokers know us and refuse: a right or a credential is missing."""

    exit_code = ExitCode.CONFIG


class Temporary(Stop):
    """Nothing is wrong with us; try again later."""

    exit_code = ExitCode.TEMPORARY


class NoRoom(Temporary):
    """A disk, or the device that an output is, takes no more: a person must make room."""

    def __init__(self, fact: str, *, stays: str, cure: str = "make room, and run it again") -> None:
        super().__init__(f"{fact}\n    what stays: {stays}\n    cure: {cure}")
        self.fact = fact
        """What could not be written, and where."""


def no_room(error: OSError) -> bool:
    """Return whether the system found no room for what was to be written."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Fenced(Stop):
    """Another process took the task over; this one must not write any more."""

    exit_code = ExitCode.FENCED


class BrokenInput(Stop):
    """An input line cannot be read, and there is nowhere to put it."""

    exit_code = ExitCode.BROKEN_INPUT


_NO_THREAD = ("can't start new thread", "create thread", "create broker thread")
"""As the interpreter and librdkafka say it; neither has a type for it."""


def starved(error: BaseException | None) -> bool:
    """Return whether the system gave no thread: this *error*, or what it came from, says so."""
    while error is not None:
        if any(words in str(error) for words in _NO_THREAD):
            return True
        error = error.__cause__ or error.__context__
    return False
