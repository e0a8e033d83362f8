"""`streamfilter run` in a process of its own, as it is measured."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.local.node import free_ports
from streamfilter.bench.machine import environment, processor_seconds
from streamfilter.demo.running_filter import WAIT_SECONDS, RunningFilter
from streamfilter.kafka.traffic import Feed, Tail
from tests.bench.ceiling import changelog_of

if TYPE_CHECKING:
    from deploy.local.real import RealKafka

LOOK_SECONDS = 0.1  # each look costs the service a millisecond: more of them would be seen
OUTSIDE = ("poll", "produce", "commit")
"""Stages that are the client's and the broker's."""

OUTPUTS = ("unique", "duplicates", "dead_letter")


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run over all records."""

    rate: float
    """Records a second between the first commit and the last."""
    stages: Mapping[str, float]
    """Seconds by stage."""
    records: int
    processor_us: float
    """Processor time of all its threads, microseconds a record, over the same records."""
    first_thread_us: float
    """The same of its first thread, which judges."""

    @classmethod
    def of(cls, service: RunningFilter, records: int) -> MeasuredRun:
        """Return when *service* has committed *records*."""
        first, begun, before = 0, 0.0, (0.0, 0.0)
        while (done := done_by(service)) < records:
            if done and not first:
                first, begun = done, time.perf_counter()
                before = _used(service.pid)
            time.sleep(LOOK_SECONDS)
        seconds = time.perf_counter() - begun
        after = _used(service.pid)
        if not first:
            raise RuntimeError("too few records: all were in the first commit")
        moved, stages = records - first, service.samples("stage_seconds_sum")
        costs = [(b - a) / moved * 1e6 for a, b in zip(before, after, strict=True)]
        return cls(moved / seconds, stages, records, *costs)

    @property
    def outside_share(self) -> float:
        """Return the share of the time that was not ours."""
        return sum(self.stages.get(name, 0.0) for name in OUTSIDE) / sum(self.stages.values())


@dataclass(slots=True)
class Route:
    """One input topic with *documents* in it, and runs from there to fresh topics."""

    kafka: RealKafka
    directory: Path
    documents: Sequence[str]
    name: str = field(default_factory=lambda: f"bench-{secrets.token_hex(4)}")
    partitions: int = 1
    group: str = ""
    """Of the last run of the filter."""
    index: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its index, beside the path."""

    def __post_init__(self) -> None:
        self.kafka.create_topics({self.name: self.partitions})
        self.feed(self.name)

    def feed(self, topic: str) -> None:
        """Send all documents to *topic*, spread over its partitions."""
        feed = Feed(self.kafka.bootstrap, topic)
        for number, text in enumerate(self.documents):
            key = str(number).encode()
            feed.send(record_of(number, text), key=key, partition=number % self.partitions)
        feed.flush()

    def filter(self) -> MeasuredRun:
        """Run the filter over the whole topic."""
        with self._running(self.name) as service:
            return MeasuredRun.of(service, len(self.documents))

    def restore(self) -> float:
        """Delete the last run's index and start it again; return documents restored a second."""
        shutil.rmtree(self.directory / self.group)
        settings = json.loads((self.directory / f"{self.group}.yaml").read_text())
        with RunningFilter(settings, self.directory, name=self.group) as service:
            service.wait_until("restoring")
            begun = time.perf_counter()
            service.wait_until("running")
            seconds = time.perf_counter() - begun
            return service.samples("index_documents")[""] / seconds

    def copy(self, rival: str = "") -> dict[str, float]:
        """Run the ceiling, or the *rival*'s loop, over the whole topic; return what it took."""
        config, group = self.directory / "ceiling.yaml", self.new_group()
        config.write_text(json.dumps(self.settings(self.name, group)))
        if rival:
            self.kafka.create_topics({changelog_of(group): 1})
        arguments = [str(config), str(len(self.documents)), *([rival] if rival else [])]
        return said_by(["-m", "tests.bench.ceiling", *arguments])

    def trickle(self, seconds: float, *, rate: float) -> list[float]:
        """Send *rate* records a second to a running filter; return each one's milliseconds."""
        topic = f"{self.new_group()}.trickle"
        self.kafka.create_topics({topic: 1})
        with self._running(topic) as service:
            service.wait_until("running")
            return self.trickled(topic, seconds, rate=rate)

    def trickled(self, topic: str, seconds: float, *, rate: float) -> list[float]:
        """Send *rate* records a second to *topic*, which `group` reads, as `trickle` does."""
        feed = Feed(self.kafka.bootstrap, topic)
        with self._outputs() as tail:
            latencies = _trickled(feed, tail, self.documents, seconds, rate)
        # With a report not taken it would live on, and miss the broker aloud when that is gone.
        feed.flush()
        return latencies

    def outcome(self) -> tuple[list[bool], list[bool], int]:
        """Return which documents the last run kept, which it withheld, and what else there is.

        A record that came out twice counts as something else.
        """
        places = {name: [False] * len(self.documents) for name in OUTPUTS}
        other = empty = 0
        with self._outputs() as tail:
            while empty < 5:
                records = tail.take(0.5)
                empty = 0 if records else empty + 1
                for record in records:
                    place = places[record.source.topic.removeprefix(f"{self.group}.")]
                    number = int(record.key or b"-1")
                    other += place[number]
                    place[number] = True
        return places["unique"], places["duplicates"], other + sum(places["dead_letter"])

    def _outputs(self) -> Tail:
        return Tail(self.kafka.bootstrap, [f"{self.group}.{name}" for name in OUTPUTS])

    def _running(self, topic: str) -> RunningFilter:
        """Start the filter from *topic*, as a new group."""
        self.group = self.new_group()
        settings = self.settings(topic, self.group)
        return RunningFilter(settings, self.directory, name=self.group)

    def new_group(self) -> str:
        return f"{self.name}-{secrets.token_hex(4)}"

    def settings(self, topic: str, group: str) -> dict[str, Any]:
        """Return settings for *group*, with topics and an index of its own."""
        outputs = {name: f"{group}.{name}" for name in OUTPUTS}
        self.kafka.create_topics(dict.fromkeys(outputs.values(), self.partitions))
        return {
            "input": {"topic": topic},
            "output": outputs,
            "index": {"path": str(self.directory / group), **self.index},
            "kafka": {"group": group, "common": {"bootstrap.servers": self.kafka.bootstrap}},
            "http": {"host": "127.0.0.1", "port": free_ports(1)[0]},
        }


def _trickled(
    feed: Feed, tail: Tail, documents: Sequence[str], seconds: float, rate: float
) -> list[float]:
    """Feed at *rate* and read at once; return the milliseconds of each record."""
    sent: list[float] = []
    latencies: list[float] = []
    count, begun = int(seconds * rate), time.perf_counter()
    while len(latencies) < count:
        now = time.perf_counter()
        if now - begun > seconds + WAIT_SECONDS:
            raise RuntimeError(f"{count - len(latencies)} of {count} records never came out")
        if len(sent) < count and now >= begun + len(sent) / rate:
            number = len(sent)
            feed.send(record_of(number, documents[number]), key=str(number).encode())
            sent.append(time.perf_counter())
        for record in tail.take(0.001):
            latencies.append((time.perf_counter() - sent[int(record.key or b"0")]) * 1e3)
    # The first ones also wait for the connections.
    return latencies[len(latencies) // 10 :]


def _used(pid: int) -> tuple[float, float]:
    """Return the processor seconds of all threads of a process, and of its first."""
    return processor_seconds(pid), processor_seconds(pid, first_thread=True)


def done_by(service: RunningFilter) -> int:
    """Return how many records a process has committed."""
    return sum(service.status().get("positions", {}).values())


def record_of(number: int, text: str) -> bytes:
    """Return document *number* as JSON."""
    return json.dumps({"id": str(number), "text": text}, ensure_ascii=False).encode()


def said_by(arguments: Sequence[str]) -> dict[str, Any]:
    """Run ``python *arguments*`` and return the JSON that it writes."""
    done = subprocess.run(
        [sys.executable, *arguments], env=environment(), capture_output=True, text=True,
        timeout=WAIT_SECONDS, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)  # type: ignore[no-any-return]
