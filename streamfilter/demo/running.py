"""One run of the demo: sends stories at a bounded rate through the real filter, with a ledger.

The filter is `streamfilter run` in a separate process, so that it can be killed. With edges it is
one judge and some edges, and each edge has a partition of every topic.
"""

import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from streamfilter.config.configuration import Config, sketches_of, verdicts_of
from streamfilter.demo.ledger import INPUT, OUTPUTS, Ledger
from streamfilter.demo.running_filter import RunningFilter
from streamfilter.demo.wire import Encode, as_json
from streamfilter.kafka import group_reset
from streamfilter.kafka.brokers import topic_creation, topics
from streamfilter.kafka.connection.clients import admin_client
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.kafka.output_reader import Order
from streamfilter.kafka.traffic import Feed, Tail
from streamfilter.stops import ConfigError, Problem, Stop
from streamfilter.stories.stream import Story, stories

GROUP = "streamfilter-demo"
FILTER, JUDGE, EDGE = "the filter", "the judge", "edge"
"""How notes name the processes; edges have numbers."""
THRESHOLD = 0.8
UNDER_WAY_MAX = 1_500
"""Most records sent but not yet received: the embedded broker keeps 5 MiB a partition, about 3,000
stories."""

BROKEN_EVERY = 150  # records for each one that is cut
TURN_SECONDS = 0.1
DRAIN_TIMEOUT_SECONDS = 60
KILLED_SECONDS = 1.5  # long enough to see that nothing comes out


class Wire(Struct, frozen=True):
    """The format of stories as records."""

    encode: Encode = as_json
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of `input` with which the filter reads them."""


class DemoPlan(Struct, frozen=True):
    """The options of the user."""

    seconds: float
    rate: float  # stories a second
    stories: int | None  # most stories; None: no limit
    seed: int
    http: tuple[str, int]
    broker: str | None
    """Address of a running Kafka, where processes are killed; None: an embedded broker."""
    wire: Wire
    edges: int = 0  # around one judge; 0: one process

    @property
    def partitions(self) -> int:
        """Return the partitions of all topics but the changelog."""
        return max(1, self.edges)

    @property
    def processes(self) -> dict[str, str | None]:
        """Return the processes by the names that notes use, with their roles."""
        edges = {f"{EDGE} {n + 1}": EDGE for n in range(self.edges)}
        return {JUDGE: "judge", **edges} if edges else {FILTER: None}

    @property
    def shown(self) -> str:
        """Return the process whose page is shown: only edges have texts."""
        return [*self.processes][-1]

    @property
    def kills(self) -> list[tuple[float, str]]:
        """Return when which process is killed."""
        if self.broker is None:
            return []
        if not self.edges:
            return [(self.seconds / 2, FILTER)]
        return [(self.seconds / 3, f"{EDGE} 1"), (self.seconds * 2 / 3, JUDGE)]


class DemoRun:
    """Runs the filter on a broker and keeps the ledger."""

    def __init__(self, plan: DemoPlan, directory: Path, stack: ExitStack) -> None:
        """Create the topics and start the filter; *stack* ends both."""
        self.plan, self.ledger = plan, Ledger(plan.wire.encode, plan.partitions)
        self.note = ""  # the latest event, shown on the board
        self._broken = 0
        self._kills = plan.kills
        self._killed = self._restart_at = 0.0  # monotonic seconds, and seconds of the run
        self._sent_before, self._silent = 0, set[int]()
        """Of the last kill: the stories sent before it, and partitions without a later one."""
        self._bootstrap = plan.broker or stack.enter_context(_embedded(plan))
        self._config = Config.model_validate(self._settings(directory, FILTER, plan.http))
        if plan.broker:
            stack.enter_context(_own_topics(self._config, plan.partitions))
        self._processes: dict[str, RunningFilter] = {}
        ports = free_ports(plan.edges + 1)
        for name, role in plan.processes.items():
            http = plan.http if name == plan.shown else (plan.http[0], ports.pop())
            settings = self._settings(directory, name, http)
            self._processes[name] = stack.enter_context(
                RunningFilter(settings, directory, name=name.replace(" ", "-"), role=role)
            )

    def wait_until_ready(self) -> None:
        """Return when all processes run; an edge that begins again does not, for a moment."""
        for each in self._processes.values():
            each.wait_until("running")
        while any(each.status().get("state") != "running" for each in self._processes.values()):
            time.sleep(TURN_SECONDS)

    @property
    def url(self) -> str:
        """Return where the filter's /metrics, /status and probes are; with edges, the first's."""
        return self._processes[self.plan.shown].url

    @property
    def judge_url(self) -> str:
        """Return where the judge's are; '' without edges."""
        return self._processes[JUDGE].url if self.plan.edges else ""

    def _settings(self, directory: Path, name: str, http: tuple[str, int]) -> dict[str, Any]:
        host, port = http
        seed = directory / "seed"
        seed.write_bytes(sha256(str(self.plan.seed).encode()).digest())
        return {
            "input": {"topic": INPUT, **self.plan.wire.settings},
            "similarity": {"threshold": THRESHOLD},
            # The seed is no secret here: equal seeds give equal verdicts.
            "index": {"path": str(directory / name.replace(" ", "-")), "seed_file": str(seed)},
            "cluster": {"enabled": bool(self.plan.edges)},
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
        partitions = range(self.plan.partitions)
        with Tail(self._bootstrap, list(OUTPUTS), partitions) as tail:
            begun = time.monotonic()
            for elapsed in self._send(begun, stopped):
                self._receive(tail)
                show(elapsed)
            self.note = "no more input; waiting for what is under way"
            deadline = time.monotonic() + DRAIN_TIMEOUT_SECONDS
            while self.ledger.under_way > 0 and time.monotonic() < deadline:
                for each in self._processes.values():
                    if each.is_killed and self.plan.broker:
                        self._restart(each)  # the input ended before it was started again
                    each.check_alive()
                self._receive(tail)
                show(time.monotonic() - begun)
            for each in self._processes.values():
                each.stop()
            self._receive(tail)  # nothing, unless something came out twice
        if self.plan.edges:
            self.ledger.order = Order(self._config).of

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
        sent = self.ledger.send(story, broken=broken)
        feed.send(sent.value, key=story.id.encode(), partition=sent.source.partition)

    def _receive(self, tail: Tail) -> None:
        for record in tail.take(TURN_SECONDS):
            self.ledger.receive(record)
            source = self.ledger.source_of(record)
            if source is not None and self.ledger.number_of(source) >= self._sent_before:
                self._heard(source.partition)

    def _heard(self, partition: int) -> None:
        """Note that a story that was sent after the kill came out of *partition*."""
        if self._silent == {partition}:
            after = time.monotonic() - self._killed
            self.note = f"it works again, {after:.1f} s after the kill, from the last commit on"
        self._silent.discard(partition)

    def _kill(self, elapsed: float) -> None:
        """Kill a process when it is time, as a power cut would, and start it again soon after."""
        due = self._kills[0] if self._kills and elapsed >= self._kills[0][0] else None
        killed = {name: each for name, each in self._processes.items() if each.is_killed}
        for name, each in self._processes.items():
            if name not in killed or not self._restart_at:
                each.check_alive()
        if self._restart_at and elapsed >= self._restart_at:
            self._restart_at = 0.0
            for each in killed.values():
                self._restart(each)
        elif due and not self._restart_at:
            self._kills.pop(0)
            self._processes[due[1]].kill()
            self._killed, self._restart_at = time.monotonic(), elapsed + KILLED_SECONDS
            self._sent_before = len(self.ledger.sent)
            self._silent = set(range(self.plan.partitions))
            self.note = f"kill -9: {due[1]} is gone, in the middle of its work"

    def _restart(self, process: RunningFilter) -> None:
        process.restart()
        self.note = (
            f"started again; {self.ledger.under_way:,} records wait for it, and Kafka aborts "
            "the transaction that it had open"
        )


def free_ports(count: int) -> list[int]:
    """Return so many ports of this machine that nothing listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in probes:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in probes]


@contextmanager
def _embedded(plan: DemoPlan) -> Iterator[str]:
    """Yield the address of an embedded broker that has the topics of the *plan*."""
    between = [sketches_of(GROUP), verdicts_of(GROUP)] if plan.edges else []
    with EmbeddedBroker() as broker:
        broker.create_topics(dict.fromkeys([INPUT, *OUTPUTS, *between], plan.partitions))
        broker.create_topics({f"{GROUP}.changelog": 1})
        yield broker.bootstrap


@contextmanager
def _own_topics(config: Config, partitions: int) -> Iterator[None]:
    """Create the topics on a running Kafka; at the end, delete them, the changelog and the group.

    Raises `Stop`: no broker answers, it refuses a request, or a topic exists already. An error of
    the run is raised, whatever the deletion meets: a killed process is a member for some seconds.
    """
    admin = admin_client(config)
    cure = "delete the topic if an earlier demo left it there, or use another broker"
    problems = [
        Problem(f"topic {name}", "the demo creates this topic, and it exists already", cure)
        for name in sorted(topics.described(config, admin))
    ]
    if problems:
        raise ConfigError(problems)

    def delete() -> None:
        group_reset.delete_topics(config, admin, list(config.topics.values()))
        group_reset.delete_group(config, admin)

    try:
        topic_creation.create_all(config, partitions)
        yield
    except BaseException:
        with suppress(Stop):
            delete()
        raise
    delete()
