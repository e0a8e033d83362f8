"""Logging to standard error: one JSON object a line, or text on a terminal.

Secrets of the configuration are replaced in messages, fields and tracebacks. A repeated line is
written a few times, then only counted; a line with other content is not a repetition. Payloads are
never passed to a logger.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, datetime
from typing import IO

from streamfilter.process.terminal_escapes import visible

MASK = "********"
SECRET_CHARACTERS_MIN = 4  # shorter "secrets" (1, no) would mask ordinary words
REPEATS = 5  # equal lines written within `REPEAT_SECONDS`; further ones are only counted
ALIKE = 100  # different lines of one template written within `REPEAT_SECONDS`
REPEAT_SECONDS = 10.0
REPEATS_REMEMBERED_MAX = 1_000
MESSAGE_CHARACTERS_MAX = 8_000

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "suppressed"}


class Masker:
    """Replaces known secrets in texts."""

    def __init__(self) -> None:
        self._lasting: set[str] = set()
        self._renewed: dict[str, list[tuple[str, ...]]] = {}
        self._secrets: tuple[str, ...] = ()

    def learn(self, secrets: Iterable[str]) -> None:
        """Add *secrets*, also as they appear in JSON and Python quotes."""
        self._lasting |= set(secrets)
        self._arrange()

    def renew(self, name: str, secrets: Iterable[str]) -> None:
        """Replace the *secrets* of that *name*; the last two sets are masked."""
        self._renewed[name] = [*self._renewed.get(name, ()), tuple(secrets)][-2:]
        self._arrange()

    def _arrange(self) -> None:
        renewed = (each for kept in self._renewed.values() for some in kept for each in some)
        known = {each for each in (*self._lasting, *renewed) if len(each) >= SECRET_CHARACTERS_MIN}
        known |= {json.dumps(each)[1:-1] for each in known} | {repr(each)[1:-1] for each in known}
        self._secrets = tuple(sorted(known, key=len, reverse=True))  # the longest first

    def mask(self, text: str) -> str:
        """Return *text* without any known secret."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text


MASKER = Masker()  # one for the process: all output must be masked, also before logging is set up


class LineCounts:
    """Counts how often each key came within some *seconds*, for a bounded number of keys."""

    def __init__(self, allowed: int, seconds: float = REPEAT_SECONDS) -> None:
        self._allowed, self._seconds = allowed, seconds
        self._seen: dict[Hashable, tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def take(self, key: Hashable, now: float) -> tuple[bool, int]:
        """Count *key*; return whether it may pass, and how many were suppressed before it."""
        since, number = self._seen.pop(key, (now, 0))
        held = 0
        if now - since >= self._seconds:
            held = max(0, number - self._allowed)
            since, number = now, 0
        self._seen[key] = (since, number + 1)
        if len(self._seen) > REPEATS_REMEMBERED_MAX:
            del self._seen[next(iter(self._seen))]
        return number < self._allowed, held


class Repeats(logging.Filter):
    """Writes equal lines `REPEATS` times in `REPEAT_SECONDS`, and only counts the others.

    Lines are equal if the formatted message, the fields and the exception are equal. So one
    template may report twenty different partitions. Lines that differ only in a counter must not
    flood the log either, so each template also has a limit (`ALIKE`).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._equal = LineCounts(REPEATS)
        self._alike = LineCounts(ALIKE)

    def filter(self, record: logging.LogRecord) -> bool:
        """Apply the limit for equal lines, then the limit for the template."""
        now = self._clock()
        alike = (record.name, record.levelno, str(record.msg)[:200])
        with self._lock:
            passes, held = self._equal.take(_said(record), now)
            if passes:
                passes, more = self._alike.take(alike, now)
                held += more
        if held:
            record.suppressed = held
        return passes


def _said(record: logging.LogRecord) -> int:
    """Return a hash of a line without its time; a hash because lines may be long."""
    try:
        message = record.getMessage()
    except Exception:  # wrong arguments: the handler alone reports them
        message = str(record.msg)
    extra = [(key, str(value)) for key, value in vars(record).items() if key not in _STANDARD]
    error = repr(record.exc_info[1]) if record.exc_info else ""
    return hash((record.name, record.levelno, message, tuple(extra), error))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    suppressed = getattr(record, "suppressed", 0)
    return extra | ({"suppressed": suppressed} if suppressed else {})


def _message(record: logging.LogRecord) -> str:
    """Return the message, masked before it is cut, because half a secret would not match."""
    return MASKER.mask(record.getMessage())[:MESSAGE_CHARACTERS_MAX]


class JsonFormatter(logging.Formatter):
    """``{"time": …, "level": …, "logger": …, "message": …}`` and the caller's extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for key, value in _fields(record).items():
            number = isinstance(value, int | float | bool) or value is None
            line.setdefault(key, value if number else MASKER.mask(str(value)))
        if record.exc_info:
            line["exception"] = MASKER.mask(self.formatException(record.exc_info))
        return json.dumps(line)


class TextFormatter(logging.Formatter):
    """``12:00:00 warning kafka: message key=value``, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with a traceback below if there is one."""
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        message = _message(record)
        extra = "".join(f" {key}={value}" for key, value in _fields(record).items())
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        name = record.name.removeprefix("streamfilter.")
        line = f"{at} {record.levelname.lower()} {name}: {message}{extra}{trace}"
        return visible(MASKER.mask(line))


def configure(
    level: str = "info",
    format: str = "auto",
    *,
    secrets: Iterable[str] = (),
    stream: IO[str] | None = None,
) -> None:
    """Send all logging of the process to *stream* (standard error), once and for all loggers.

    *format* is ``json``, ``text``, or ``auto``: text on a terminal. *secrets* are never written.
    """
    MASKER.learn(secrets)
    target = stream or sys.stderr
    text = format == "text" or (format == "auto" and target.isatty())
    handler = logging.StreamHandler(target)
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    handler.addFilter(Repeats())
    logging.raiseExceptions = False  # a closed standard error must not print tracebacks about it
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    _catch_strays()


def _catch_strays() -> None:
    """Log uncaught exceptions of threads and destructors, masked. Other hooks are kept."""
    strays = logging.getLogger("streamfilter.stray")

    def in_a_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and args.exc_type is not SystemExit:
            name = args.thread.name if args.thread else "?"
            found = (args.exc_type, args.exc_value, args.exc_traceback)
            strays.error("the thread %s ended by an exception", name, exc_info=found)

    def swallowed(args: sys.UnraisableHookArgs) -> None:
        if args.exc_value is not None:
            found = (args.exc_type, args.exc_value, args.exc_traceback)
            strays.error("an exception in a callback or a destructor", exc_info=found)

    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = in_a_thread
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = swallowed
