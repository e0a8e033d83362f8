"""Why the process stops: the exit codes and the exceptions that carry them.

An expected error is a value (a dead letter, a `Problem`). The exceptions of this module end the
process on purpose: `cli.main` prints the message and returns the code. Any other exception is a bug
(exit code 70), and the restart replays the batch.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes for a supervisor; the numbers below 128 are those of sysexits.h."""

    OK = 0
    USAGE = 64
    BROKEN_INPUT = 65
    """A broken line and no ``--dead-letter``, or nothing but broken lines."""
    BUG = 70
    TEMPORARY = 75
    """Try again later. The broker stayed unreachable past the start timeout; or a call did not
    return within 20 s of SIGTERM. Or a client lost all brokers for good, the system gave no thread,
    or there was no room to write."""
    FENCED = 76
    """Another process owns the task now."""
    CONFIG = 78
    """Wrong configuration, or an index that does not belong to it."""
    HUNG_UP = 129
    """The terminal was closed before the outputs were complete: 128 + SIGHUP."""
    INTERRUPTED = 130
    """Ctrl-C ended work on files before the outputs were complete: 128 + SIGINT, as in shells."""
    UNREAD = 141
    """The reader of standard output closed it before the output was complete: 128 + SIGPIPE."""
    TERMINATED = 143
    """SIGTERM ended the work: 128 + SIGTERM."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem, described so that the reader can repair it."""

    key: str
    """The setting (``similarity.bands``) or the object (``topic documents``)."""
    got: str
    """The problem: what was found and what was expected. Never a secret."""
    cure: str
    """The action that repairs it."""
    warning: bool = False
    """True if it works, but not as a reader of the manual may expect; never a reason to stop."""

    def __str__(self) -> str:
        cure = f"\n    cure: {self.cure}" if self.cure else ""
        return f"{'warning: ' if self.warning else ''}{self.key}: {self.got}{cure}"


class Stop(Exception):
    """The process must end, for a known reason; the message names the cure."""

    exit_code = ExitCode.BUG

    def __init__(self, message: str, *, exit_code: ExitCode | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class ConfigError(Stop):
    """The configuration is wrong; `problems` holds all problems, not only the first."""

    exit_code = ExitCode.CONFIG

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class MissingExtra(Stop):
    """A package is missing that is installed only with one of our extras."""

    exit_code = ExitCode.USAGE

    def __init__(self, what: str, *, needs: str | None, extra: str) -> None:
        self.installation = f"pip install 'streamfilter[{extra}]'"
        super().__init__(
            f"{what} needs {needs}, which is not installed\n    cure: {self.installation}"
        )


@contextmanager
def of_extra(extra: str, what: str, *, needs: str | None = None) -> Iterator[None]:
    """Import a library of an *extra* inside the block; raise `MissingExtra` if it is not there."""
    try:
        yield
    except ImportError as error:
        library = needs or (error.name or extra).partition(".")[0]
        raise MissingExtra(what, needs=library, extra=extra) from None


class SchemeMismatch(Stop):
    """The index was built under another scheme, format, seed or identity."""

    exit_code = ExitCode.CONFIG


class Refused(Stop):
    """The brokers refuse access: a right or a credential is missing."""

    exit_code = ExitCode.CONFIG


class Temporary(Stop):
    """The cause is outside this process; try again later."""

    exit_code = ExitCode.TEMPORARY


class NoRoom(Temporary):
    """A disk, or the device of an output, is full: a person must make room."""

    def __init__(self, fact: str, *, stays: str, cure: str = "make room, and run it again") -> None:
        super().__init__(f"{fact}\n    what stays: {stays}\n    cure: {cure}")
        self.fact = fact
        """What could not be written and where, as a sentence."""


def counted(number: int, noun: str) -> str:
    """Return *number* with its *noun*, in the plural unless the number is 1: ``2 copies``."""
    if number != 1:
        if noun.endswith("y") and noun[-2] not in "aeou":
            noun = f"{noun[:-1]}ies"
        else:
            noun += "es" if noun.endswith(("s", "x", "ch")) else "s"
    return f"{number:,} {noun}"


def no_room(error: OSError) -> bool:
    """Return whether a write failed because the disk is full or the quota is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Fenced(Stop):
    """Another process has taken the task over; this one must stop writing."""

    exit_code = ExitCode.FENCED


class BrokenInput(Stop):
    """An input line cannot be read, and there is no dead-letter output for it."""

    exit_code = ExitCode.BROKEN_INPUT


_NO_THREAD = ("can't start new thread", "create thread", "create broker thread")
"""Parts of the messages of the interpreter and of librdkafka; neither has a type for this error."""


def starved(error: BaseException | None) -> bool:
    """Return whether this *error* or its cause says that the system gave no thread."""
    while error is not None:
        if any(words in str(error) for words in _NO_THREAD):
            return True
        error = error.__cause__ or error.__context__
    return False
