"""Explains why no broker answers: the address, the cause and the cure.

A failed call only says "transport failure" or "timed out". librdkafka reports the cause in its
error callback. If the other end closed the connection, the cause is in librdkafka's log only. So
this module collects both, and a start or a check that gives up shows the latest cause.
"""

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from streamfilter.config.configuration import Config
from streamfilter.process.logs import LineCounts

HEARD_MAX = 8
HELD_MAX = 100
_SOURCE = re.compile(r"^\w+ \[[^]]*\] \[thrd:.*?\]: ")
_WHEN = re.compile(r" \(after \d+ms in state (\w+)(?:, \d+ identical error\(s\) suppressed)?\)")
_WHO = re.compile(r"^(?:\w+: )?(?:\w+://)?(?:\w+Coordinator: )?\S+?(?:/-?\w+)?: ")
"""The part of a line that names the client's connection to a broker."""
GROUP_SECONDS = 60.0
CERTIFICATE = "the brokers want a certificate of the filter: kafka.common.ssl.certificate.location"
CURES = (
    ("Failed to resolve", "check the host's name in kafka.common.bootstrap.servers"),
    ("Connection refused", "nothing listens there: check host and port, and that the broker runs"),
    (
        "PLAINTEXT broker listener",
        "the broker speaks no TLS there: another port, or another kafka.common.security.protocol",
    ),
    (
        "certificate verify failed",
        "kafka.common.ssl.ca.location must name the authority of the brokers' certificate",
    ),
    ("alert bad certificate", CERTIFICATE),
    ("alert certificate required", CERTIFICATE),  # the same, by TLS 1.3
    (
        "in state SSL_HANDSHAKE",
        "it hangs up: perhaps it speaks no TLS there (another port, or another "
        "kafka.common.security.protocol)",
    ),
    ("SASL authentication error", "mend the credentials in kafka.common"),
    ("Invalid response size", "what listens there is no Kafka broker, or speaks TLS"),
    (
        "in state APIVERSION_QUERY",
        "it hangs up: does it want TLS (kafka.common.security.protocol), or with TLS a certificate "
        "of the filter (kafka.common.ssl.certificate.location)?",
    ),
)
"""(words of librdkafka's message, cure)."""
CURE = "check the address, the network, and that the broker runs"
PATIENCE = "the brokers answer, but are not ready: bring all up, or raise kafka.start_timeout"

_heard: deque[str] = deque(maxlen=HEARD_MAX)


def hear(text: str) -> None:
    """Remember librdkafka's message about a broker."""
    _heard.append(timeless(text))


def timeless(text: str) -> str:
    """Return *text* without its duration and repeat count, so that equal messages compare equal."""
    return _WHEN.sub(r" (in state \1)", text)


class LineGroups:
    """Lets one of librdkafka's equal log lines through per minute.

    A process has five clients or more, each with several connections to each broker. During an
    outage, each connection logs its failure every second or two.

    Example: three clients log "connection refused" at 0, 1 and 61 s. The lines of 0 and 61 s are
    written, and the second of them says that one was suppressed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lines = clock, LineCounts(1, GROUP_SECONDS)

    def passes(self, record: logging.LogRecord) -> bool:
        """Return whether to write *record*, and set on it how many were suppressed before it."""
        said = _WHO.sub("", _SOURCE.sub("", record.getMessage()), count=1)
        passes, held = self._lines.take(said, self._clock())
        if held:
            record.suppressed = held
        return passes


class Listening(logging.Filter):
    """Collects failures from librdkafka's log lines, and removes their durations."""

    @classmethod
    def to(cls, logger: logging.Logger) -> None:
        """Listen to all lines of *logger*; the process's log level decides which are written."""
        logger.setLevel(logging.DEBUG)
        logger.addFilter(cls())

    def __init__(self) -> None:
        super().__init__()
        self._groups = LineGroups()

    _held: deque[logging.LogRecord] | None = None  # held back in a block of `only`; None: none

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write *record*, by the level of the root logger."""
        record.msg, record.args = timeless(record.getMessage()), ()
        if record.msg.startswith(("FAIL ", "ERROR ")):
            hear(_SOURCE.sub("", record.msg))
        level = logging.getLogger().level
        if record.levelno >= level > logging.DEBUG and self._held is not None:
            self._held.append(record)
            return False
        return record.levelno >= level and self._groups.passes(record)

    @classmethod
    @contextmanager
    def only(cls) -> Iterator[None]:
        """Hold back the log lines of the block, and write them only if it succeeds.

        If it fails, its error contains the cause. A dozen log lines above it would hide the cause
        from an operator who mistyped an address.
        """
        held: deque[logging.LogRecord] = deque(maxlen=HELD_MAX)
        cls._held = held
        try:
            yield
        finally:
            cls._held = None
        for record in held:
            logging.getLogger(record.name).handle(record)


def cause() -> str:
    """Return the longest of the last messages, which states the cause, or the empty string."""
    return max(_heard, key=len, default="")


def cure() -> str:
    reason = cause()
    return cure_of(reason, CURE if reason else PATIENCE)


def cure_of(reason: str, otherwise: str) -> str:
    """Return the cure that belongs to librdkafka's *reason*."""
    return next((cure for words, cure in CURES if words in reason), otherwise)


class Reach:
    """Describes in one sentence since when no broker can be reached; empty while one can."""

    def __init__(self, config: Config, away_since: Callable[[], int]) -> None:
        self._config, self._away_since = config, away_since
        self._since, self._said = 0, ""

    def detail(self) -> str:
        """Return the sentence. It stays the same during one outage."""
        since = self._away_since()
        if since != self._since:
            at = datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
            self._since = since
            self._said = (
                f"no broker is reached since {at}: {explained(self._config)}; nothing is lost, and "
                "it goes on by itself when one answers"
            )
        return self._said if since else ""


def explained(config: Config) -> str:
    """Return the addresses of the brokers, and why they do not answer."""
    brokers = config.kafka.properties("common").get("bootstrap.servers", "")
    reason = cause() or "no connection failed, and no answer came"
    return f"kafka.common.bootstrap.servers is {brokers}: {reason}"
