"""Why no broker answers: the address, the cause and the cure.

A call that fails says "transport failure" or "timed out". What was the matter, librdkafka tells on
the side, in its callback for errors or, of a connection that the other end closed, in its log
only. So both are heard here, and the last of it is said where a start or a check gives up.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from streamfilter.config.configuration import Config

HEARD_MAX = 8
HELD_MAX = 100
_SOURCE = re.compile(r"^\w+ \[[^]]*\] \[thrd:.*?\]: ")
_WHEN = re.compile(r" \(after \d+ms in state (\w+)(?:, \d+ identical error\(s\) suppressed)?\)")
_WHO = re.compile(r"^(?:\w+: )?(?:\w+://)?(?:\w+Coordinator: )?\S+?(?:/-?\w+)?: ")
"""Which of a client's connections to a broker it was."""
GROUP_SECONDS = 60.0
GROUPS_MAX = 100
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
    ("SASL authentication error", "mend the credentials in kafka.common"),
    ("Invalid response size", "what listens there is no Kafka broker, or speaks TLS"),
    (
        "in state APIVERSION_QUERY",
        "it hangs up on plaintext: does it want TLS (kafka.common.security.protocol)?",
    ),
)
"""By what librdkafka says."""
CURE = "check the address, the network, and that the broker runs"
PATIENCE = "the brokers answer, but are not ready: bring all up, or raise kafka.start_timeout"

_heard: deque[str] = deque(maxlen=HEARD_MAX)


def hear(text: str) -> None:
    """Remember what librdkafka said of a broker."""
    _heard.append(timeless(text))


def timeless(text: str) -> str:
    """Return *text* without what differs each time that the same is said."""
    return _WHEN.sub(r" (in state \1)", text)


class LineGroups:
    """Lets one line of librdkafka's through a minute, of those that say the same of a broker.

    A process has five clients and more, each with several connections to each broker, and each
    says every second or two that it was refused: 2,300 lines came of an outage of 25 s.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}

    def passes(self, record: logging.LogRecord) -> bool:
        """Return whether *record* is written; then it says how many before it were not."""
        said = _WHO.sub("", _SOURCE.sub("", record.getMessage()), count=1)
        now = self._clock()
        begun, held = self._seen.pop(said, (-GROUP_SECONDS, 0))
        new = now - begun >= GROUP_SECONDS
        self._seen[said] = (now, 0) if new else (begun, held + 1)
        if len(self._seen) > GROUPS_MAX:
            del self._seen[next(iter(self._seen))]
        if new and held:
            record.suppressed = held
        return new


class Listening(logging.Filter):
    """Hears failures in librdkafka's own log lines; cuts from them how long each took."""

    @classmethod
    def to(cls, logger: logging.Logger) -> None:
        """Hear all of *logger*'s lines; written are those that the process's level lets through."""
        logger.setLevel(logging.DEBUG)
        logger.addFilter(cls())

    def __init__(self) -> None:
        super().__init__()
        self._groups = LineGroups()

    _held: deque[logging.LogRecord] | None = None
    """Lines that wait for the end of whoever asks once; None: nobody does."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Decide as the logger would, had it no level of its own."""
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
        """Write the lines of the block if it ends well: how it fails says all that matters of them.

        A person who mistyped an address would have to look for the answer below a dozen of them.
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
    """Return what explains most of what was heard last; empty if nothing was.

    Of one failure librdkafka says more than once, and the longest says why.
    """
    return max(_heard, key=len, default="")


def cure() -> str:
    """Return what to do about the cause."""
    reason = cause()
    return next((cure for words, cure in CURES if words in reason), CURE if reason else PATIENCE)


class Reach:
    """Says in one sentence since when no broker is reached; empty while one is."""

    def __init__(self, config: Config, away_since: Callable[[], int]) -> None:
        """Begin; *away_since* is `Statistics.away_since`."""
        self._config, self._away_since = config, away_since
        self._since, self._said = 0, ""

    def detail(self) -> str:
        """Return the sentence, the same as long as it is the same outage."""
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
    """Return whom we asked, and why they do not answer."""
    brokers = config.kafka.properties("common").get("bootstrap.servers", "")
    reason = cause() or "no connection failed, and no answer came"
    return f"kafka.common.bootstrap.servers is {brokers}: {reason}"
