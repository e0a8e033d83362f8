"""One run of the demo: sends stories at a bounded rate through the real filter, with a ledger.

The filter is `streamfilter run` in a separate process, so that it can be killed.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from streamfilter.config.configuration import Config
from streamfilter.demo.ledger import INPUT, OUTPUTS, Ledger
from streamfilter.demo.running_filter import RunningFilter
from streamfilter.demo.wire import Encode, as_json
from streamfilter.kafka import group_reset
from streamfilter.kafka.brokers import topic_creation, topics
from streamfilter.kafka.connection.clients import admin_client
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.kafka.traffic import Feed, Tail
from streamfilter.stops import ConfigError, Problem
from streamfilter.stories.stream import Story, stories

GROUP = "streamfilter-demo"
THRESHOLD = 0.8
UNDER_WAY_MAX = 1_500
"""Most records sent but not yet received: the embedded broker keeps 5 MiB a partition, about 3,000
stories."""

BROKEN_EVERY = 150  # records for each one that is cut
TURN_SECONDS = 0.1
DRAIN_TIMEOUT_SECONDS = 60
KILLED_SECONDS = 1.5  # long enough to see that nothing comes out


@dataclass(frozen=True, slots=True)
class Wire:
    """The format of stories as records."""

    encode: Encode = as_json
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `input` with which the filter reads them."""


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The options of the user."""

    seconds: float
    rate: float  # stories a second
    stories: int | None  # most stories; None: no limit
    seed: int
    http: tuple[str, int]
    broker: str | None
    """Address of a running Kafka, where the filter is killed half-way; None: an embedded broker."""
    wire: Wire


class DemoRun:
    """Runs the filter on a broker and keeps the ledger."""

    def __init__(self, plan: DemoPlan, directory: Path, stack: ExitStack) -> None:
        """Create the topics and start the filter; *stack* ends both."""
        self.plan, self.ledger = plan, Ledger(plan.wire.encode)
        self.note = ""  # the latest event, shown on the board
        self._broken = 0
        self._kill_at: float | None = plan.seconds / 2 if plan.broker else None
        self._killed = 0.0  # monotonic seconds
        self._awaited: int | None = None  # outcomes until the restarted filter works again
        topics = [INPUT, *OUTPUTS, f"{GROUP}.changelog"]
        self._bootstrap = plan.broker or stack.enter_context(_embedded(topics))
        settings = self._settings(directory)
        if plan.broker:
            stack.enter_context(_own_topics(Config.model_validate(settings)))
        self._filter = stack.enter_context(RunningFilter(settings, directory, name="demo"))

    def wait_until_ready(self) -> None:
        self._filter.wait_until("running")

    @property
    def url(self) -> str:
        """Return where the filter's /metrics, /status and probes are."""
        return self._filter.url

    def _settings(self, directory: Path) -> dict[str, Any]:
        host, port = self.plan.http
        seed = directory / "seed"
        seed.write_bytes(sha256(str(self.plan.seed).encode()).digest())
        return {
            "input": {"topic": INPUT, **self.plan.wire.settings},
            "similarity": {"threshold": THRESHOLD},
            # The seed is no secret here: equal seeds give equal verdicts.
            "index": {"path": str(directory / "state"), "seed_file": str(seed)},
            "kafka": {
                "group": GROUP,
                "common": {"bootstrap.servers": self._bootstrap},
                "session_timeout": "6s",  # the group waits this long for a killed member
                "start_timeout": "60s",
            },
            "http": {"host": host, "port": port, "show_payloads": True},
            "audit": {"arrivals": 1.0},  # half a minute of some hundred stories: all of them
            "batch": {"documents": 200},
            "log": {"format": "text"},
        }

    def run(self, *, stopped: Callable[[], bool], show: Callable[[float], None]) -> None:
        """Send and receive for the planned time, or until *stopped*; then wait for the rest."""
        with Tail(self._bootstrap, list(OUTPUTS)) as tail:
            begun = time.monotonic()
            for elapsed in self._send(begun, stopped):
                self._receive(tail)
                show(elapsed)
            self.note = "no more input; waiting for what is under way"
            deadline = time.monotonic() + DRAIN_TIMEOUT_SECONDS
            while self.ledger.under_way > 0 and time.monotonic() < deadline:
                if self._filter.is_killed and self.plan.broker:
                    self._filter.restart()  # the input ended before it was started again
                self._filter.check_alive()
                self._receive(tail)
                show(time.monotonic() - begun)
            self._filter.stop()
            self._receive(tail)  # nothing, unless something came out twice

    def _send(self, begun: float, stopped: Callable[[], bool]) -> Iterator[float]:
        """Send what is due, and yield the seconds since *begun*, turn by turn."""
        feed = Feed(self._bootstrap, INPUT)
        stream = stories(self.plan.seed)
        limit = sys.maxsize if self.plan.stories is None else self.plan.stories
        while (elapsed := time.monotonic() - begun) < self.plan.seconds and not stopped():
            due = min(int(elapsed * self.plan.rate), limit) - len(self.ledger.sent)
            for _ in range(min(due, UNDER_WAY_MAX - self.ledger.under_way)):
                self._send_one(feed, next(stream))
            self._kill(elapsed)
            yield elapsed
            if len(self.ledger.sent) == limit:
                break
        feed.flush()

    def _send_one(self, feed: Feed, story: Story) -> None:
        # Never cut an original: its first copy would then be unique, and confuse the table below.
        due = len(self.ledger.sent) // BROKEN_EVERY - self._broken
        broken = due > 0 and story.origin is not None
        self._broken += broken
        feed.send(self.ledger.send(story, broken=broken).value, key=story.id.encode())

    def _receive(self, tail: Tail) -> None:
        for record in tail.take(TURN_SECONDS):
            self.ledger.receive(record)
        if self._awaited is not None and len(self.ledger.outcomes) > self._awaited:
            self._awaited = None
            after = time.monotonic() - self._killed
            self.note = f"it works again, {after:.1f} s after the kill, from the last commit on"

    def _kill(self, elapsed: float) -> None:
        """Kill the filter at half-time, as a power cut would, and start it again a little later."""
        killed = self._kill_at is not None and self._filter.is_killed
        if not killed:
            self._filter.check_alive()
        if self._kill_at is None or elapsed < self._kill_at:
            return
        if not killed:
            self._filter.kill()
            self._killed = time.monotonic()
            self._kill_at += KILLED_SECONDS
            self.note = "kill -9: the filter is gone, in the middle of its work"
        else:
            self._filter.restart()
            self._kill_at, self._awaited = None, len(self.ledger.outcomes)
            self.note = (
                f"started again; {self.ledger.under_way:,} records wait for it, and Kafka aborts "
                "the transaction that it had open"
            )


@contextmanager
def _embedded(names: list[str]) -> Iterator[str]:
    with EmbeddedBroker() as broker:
        broker.create_topics(dict.fromkeys(names, 1))
        yield broker.bootstrap


@contextmanager
def _own_topics(config: Config) -> Iterator[None]:
    """Create the topics on a running Kafka; at the end, delete them, the changelog and the group.

    Raises `Stop`: no broker answers, it refuses a request, or a topic exists already.
    """
    admin = admin_client(config)
    cure = "delete the topic if an earlier demo left it there, or use another broker"
    problems = [
        Problem(f"topic {name}", "the demo creates this topic, and it exists already", cure)
        for name in sorted(topics.described(config, admin))
    ]
    if problems:
        raise ConfigError(problems)
    try:
        topic_creation.create_all(config, 1)
        yield
    finally:
        group_reset.delete_topics(config, admin, list(config.topics.values()))
        group_reset.delete_group(config, admin)
