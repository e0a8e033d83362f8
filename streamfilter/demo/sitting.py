"""One sitting of the demo: stories go in at a bounded rate, the real filter works, books are kept.

The filter is `streamfilter run` in a process of its own, so that it can be killed like one.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from streamfilter.demo.ledger import INPUT, OUTPUTS, Ledger
from streamfilter.kafka.broker import Broker
from streamfilter.kafka.broker.child import Child
from streamfilter.kafka.broker.traffic import Feed, Tail
from streamfilter.stops import Stop
from streamfilter.stories import Story, prose, stories

GROUP = "streamfilter-demo"
THRESHOLD = 0.8
UNDER_WAY_MAX = 1_500
"""Records sent and not out yet: the embedded broker keeps 5 MiB a partition, some 3,000 stories."""

BROKEN_EVERY = 150  # records for each one that is no JSON
TURN_SECONDS = 0.1
READY_TIMEOUT_SECONDS = 120
DRAIN_TIMEOUT_SECONDS = 60
KILLED_SECONDS = 1.5  # long enough to see that nothing comes out
LOG_LINES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """What the user asked for."""

    seconds: float
    rate: float
    """Stories a second."""
    stories: int | None
    """How many at most; None: no such limit."""
    seed: int
    http: tuple[str, int]
    crash: bool
    """Kill the filter (SIGKILL) in the middle, and start it again."""


class Sitting:
    """Runs the filter on *broker* and keeps the books."""

    def __init__(self, plan: DemoPlan, broker: Broker, directory: Path) -> None:
        self.plan = plan
        self.ledger = Ledger()
        self.note = ""
        """What just happened, for the spectator."""
        self._broker, self._directory = broker, directory
        self._config = directory / "demo.yaml"
        self._seed_file = directory / "seed"
        self._filter: Child | None = None
        self._broken = 0

    @property
    def url(self) -> str:
        """Return where the filter's /metrics, /status and probes are."""
        host, port = self.plan.http
        return f"http://{host}:{port}"

    def prepare(self, *, changelog: bool) -> None:
        """Create the topics, start the filter, and return when it is ready.

        Args:
            changelog: create its topic too, for a broker on which the filter cannot.
        """
        topics = [INPUT, *OUTPUTS, *([f"{GROUP}.changelog"] if changelog else [])]
        self._broker.create_topics(dict.fromkeys(topics, 1))
        self._seed_file.write_bytes(sha256(str(self.plan.seed).encode()).digest())
        self._config.write_text(json.dumps(self._settings(), indent=2), encoding="utf-8")
        self._start()
        prose.sources()  # half a second of reading, while the filter starts
        self._wait_until_ready()

    def _settings(self) -> dict[str, object]:
        host, port = self.plan.http
        return {  # JSON is YAML too
            "input": {"topic": INPUT},
            "similarity": {"threshold": THRESHOLD},
            # Not a secret here: equal seeds are to give equal verdicts.
            "index": {
                "path": str(self._directory / "state"),
                "seed_file": str(self._seed_file),
            },
            "kafka": {
                "group": GROUP,
                "common": {"bootstrap.servers": self._broker.bootstrap},
                "session_timeout": "3s",  # the group waits this long for a killed member
            },
            "http": {"host": host, "port": port, "show_payloads": True},
            "audit": {"arrivals": 1.0},  # half a minute of some hundred stories: all of them
            "batch": {"documents": 200},
            "log": {"format": "text"},
        }

    def _start(self) -> None:
        command = [sys.executable, "-m", "streamfilter.cli", "run", "--config", str(self._config)]
        # The user's own STREAMFILTER_* settings belong to the user's own service.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAMFILTER_")}
        self._filter = Child(command, log=self._directory / "run.log", environment=environment)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while not self._is_ready():
            self._check_alive()
            if time.monotonic() > deadline:
                raise self._failed(f"was not ready after {READY_TIMEOUT_SECONDS} s")
            time.sleep(TURN_SECONDS)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.url + "/status", timeout=5) as answer:
                return bool(json.load(answer).get("state") == "running")
        except OSError:
            return False

    def run(self, *, stopped: Callable[[], bool], show: Callable[[float], None]) -> None:
        """Send and receive for the planned time, or until *stopped*; then wait for the rest.

        Args:
            stopped: asked every turn.
            show: called every turn with the seconds since the beginning.
        """
        with Tail(self._broker.bootstrap, list(OUTPUTS)) as tail:
            begun = time.monotonic()
            for elapsed in self._send(begun, stopped):
                self._receive(tail)
                show(elapsed)
            self.note = "no more input; waiting for what is under way"
            deadline = time.monotonic() + DRAIN_TIMEOUT_SECONDS
            while self.ledger.under_way > 0 and time.monotonic() < deadline:
                self._keep_alive()
                self._receive(tail)
                show(time.monotonic() - begun)
            self.close()
            self._receive(tail)  # nothing, unless something came out twice

    def _send(self, begun: float, stopped: Callable[[], bool]) -> Iterator[float]:
        """Send what is due, and yield the seconds since *begun*, turn by turn."""
        feed = Feed(self._broker.bootstrap, INPUT)
        stream = stories(self.plan.seed)
        crash = _Crash(self) if self.plan.crash else None
        limit = sys.maxsize if self.plan.stories is None else self.plan.stories
        while (elapsed := time.monotonic() - begun) < self.plan.seconds and not stopped():
            due = min(int(elapsed * self.plan.rate), limit) - len(self.ledger.sent)
            for _ in range(min(due, UNDER_WAY_MAX - self.ledger.under_way)):
                self._send_one(feed, next(stream))
            if crash is not None:
                crash.turn(elapsed)
            if crash is None or not crash.killed:
                self._check_alive()
            yield elapsed
            if len(self.ledger.sent) == limit:
                break
        feed.flush()

    def _send_one(self, feed: Feed, story: Story) -> None:
        # Never an original: its copies would then be new, and the table below hard to read.
        due = len(self.ledger.sent) // BROKEN_EVERY - self._broken
        broken = due > 0 and story.origin is not None
        self._broken += broken
        feed.send(self.ledger.send(story, broken=broken).value, key=story.id.encode())

    def _receive(self, tail: Tail) -> None:
        for record in tail.take(TURN_SECONDS):
            self.ledger.receive(record)

    def kill(self) -> None:
        """Kill the filter as a power cut would."""
        if self._filter is not None:
            self._filter.kill()

    def restart(self) -> None:
        """Start the filter again, on what it left behind."""
        self._start()

    def _keep_alive(self) -> None:
        """Bring back a filter that was killed when the input ended; another death is a failure."""
        if self.plan.crash and self._filter is not None and self._filter.exit_code == -9:
            self.restart()
        self._check_alive()

    def _check_alive(self) -> None:
        if self._filter is not None and (code := self._filter.exit_code) is not None:
            raise self._failed(f"ended with code {code}")

    def _failed(self, what: str) -> Stop:
        lines = (self._directory / "run.log").read_text(errors="replace").splitlines()
        end = "\n".join(lines[-LOG_LINES_SHOWN:])
        return Stop(f"the filter {what}. The end of its log:\n{end}")

    def close(self) -> None:
        """Stop the filter; a second call does nothing."""
        if self._filter is not None:
            self._filter.stop()
            self._filter = None


class _Crash:
    """Kills the filter at half-time, and starts it again a little later."""

    def __init__(self, sitting: Sitting) -> None:
        self._sitting = sitting
        self._at = sitting.plan.seconds / 2
        self.killed = False
        self._done = False

    def turn(self, elapsed: float) -> None:
        """Do what is due."""
        if not self.killed and not self._done and elapsed >= self._at:
            self._sitting.kill()
            self.killed = True
            self._sitting.note = "kill -9: the filter is gone, in the middle of its work"
        elif self.killed and elapsed >= self._at + KILLED_SECONDS:
            self._sitting.restart()
            self.killed, self._done = False, True
            self._sitting.note = (
                "started again: the open transaction is aborted, the index caught up"
            )
