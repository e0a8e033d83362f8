"""`streamfilter run` as it is measured: its topics, its process, and what came out."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamfilter.bench.machine import processor_seconds
from streamfilter.bench.processes import environment
from streamfilter.kafka.broker.child import Child
from streamfilter.kafka.broker.node import free_ports
from streamfilter.kafka.broker.real import RealKafka
from streamfilter.kafka.broker.traffic import Feed, Tail

WAIT_SECONDS = 300
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

    @property
    def outside_share(self) -> float:
        """Return the share of the time that was not ours."""
        return sum(self.stages.get(name, 0.0) for name in OUTSIDE) / sum(self.stages.values())

    @property
    def stages_us(self) -> dict[str, float]:
        """Return microseconds a record by stage."""
        return {name: value / self.records * 1e6 for name, value in self.stages.items()}


@dataclass(slots=True)
class Route:
    """One input topic with *documents* in it, and runs from there to fresh topics."""

    kafka: RealKafka
    directory: Path
    documents: Sequence[str]
    name: str = field(default_factory=lambda: f"bench-{secrets.token_hex(4)}")
    group: str = ""
    """Of the last run of the filter."""

    def __post_init__(self) -> None:
        self.kafka.create_topics({self.name: 1})
        feed = Feed(self.kafka.bootstrap, self.name)
        for number, text in enumerate(self.documents):
            feed.send(_record(number, text), key=str(number).encode())
        feed.flush()

    def filter(self) -> MeasuredRun:
        """Run the filter over the whole topic."""
        with self._running(self.name, self._new_group()) as service:
            return service.drain(len(self.documents))

    def restore(self) -> float:
        """Delete the last run's index and start it again; return documents restored a second."""
        shutil.rmtree(self.directory / self.group)
        config = self.directory / f"{self.group}.yaml"
        port = int(json.loads(config.read_text())["http"]["port"])
        with _Service(config, port) as service:
            return service.restore()

    def copy(self) -> float:
        """Run the ceiling over the whole topic; return records a second."""
        config = self._configure(self.name, f"{self.name}-{secrets.token_hex(4)}", port=0)
        said = subprocess.run(
            [sys.executable, "-m", "streamfilter.kafka.ceiling", config, str(len(self.documents))],
            env=environment(), capture_output=True, text=True, timeout=WAIT_SECONDS, check=True,
        ).stdout  # fmt: skip
        copied = json.loads(said)
        return float(copied["records"] / copied["seconds"])

    def trickle(self, seconds: float, *, rate: float) -> list[float]:
        """Send *rate* records a second to a running filter; return each one's milliseconds."""
        topic = f"{self.name}.trickle"
        self.kafka.create_topics({topic: 1})
        feed = Feed(self.kafka.bootstrap, topic)
        with self._running(topic, self._new_group()) as service:
            service.wait_until("running")
            with Tail(self.kafka.bootstrap, [f"{self.group}.{name}" for name in OUTPUTS]) as tail:
                latencies = _trickled(feed, tail, self.documents, seconds, rate)
        # With a report not taken it would live on, and miss the broker aloud when that is gone.
        feed.flush()
        return latencies

    def outcome(self) -> tuple[list[bool], list[bool], int]:
        """Return which documents the last run kept, which it withheld, and what else there is.

        A record that came out twice counts as something else.
        """
        count = len(self.documents)
        places = {name: [False] * count for name in OUTPUTS}
        other = 0
        with Tail(self.kafka.bootstrap, [f"{self.group}.{name}" for name in OUTPUTS]) as tail:
            empty = 0
            while empty < 5:
                records = tail.take(0.5)
                empty = 0 if records else empty + 1
                for record in records:
                    place = places[record.source.topic.removeprefix(f"{self.group}.")]
                    number = int(record.key or b"-1")
                    other += place[number]
                    place[number] = True
        return places["unique"], places["duplicates"], other + sum(places["dead_letter"])

    def _new_group(self) -> str:
        self.group = f"{self.name}-{secrets.token_hex(4)}"
        return self.group

    def _running(self, topic: str, group: str) -> _Service:
        port = free_ports(1)[0]
        return _Service(self._configure(topic, group, port=port), port)

    def _configure(self, topic: str, group: str, *, port: int) -> Path:
        """Write a configuration for *group*, with topics and an index of its own."""
        outputs = {name: f"{group}.{name}" for name in OUTPUTS}
        self.kafka.create_topics(dict.fromkeys(outputs.values(), 1))
        settings = {
            "input": {"topic": topic},
            "output": outputs,
            "index": {"path": str(self.directory / group)},
            "kafka": {
                "group": group,
                "common": {"bootstrap.servers": self.kafka.bootstrap},
            },
            "http": {"host": "127.0.0.1", "port": port},
        }
        path = self.directory / f"{group}.yaml"
        path.write_text(json.dumps(settings))  # JSON is YAML too
        return path


class _Service:
    """A running `streamfilter run`; stopped at the end."""

    def __init__(self, config: Path, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._log = config.with_suffix(".log")
        command = [sys.executable, "-m", "streamfilter.cli", "run", "--config", str(config)]
        self._child = Child(command, log=self._log, environment=environment())

    def __enter__(self) -> _Service:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.stop()

    def drain(self, records: int) -> MeasuredRun:
        """Return when *records* are committed, with the rate since the first commit."""
        first, begun, used = 0, 0.0, 0.0
        while (done := self._done()) < records:
            if done and not first:
                first, begun = done, time.perf_counter()
                used = processor_seconds(self._child.pid)
            time.sleep(LOOK_SECONDS)
        seconds = time.perf_counter() - begun
        used = processor_seconds(self._child.pid) - used
        if not first:
            raise RuntimeError("too few records: all were in the first commit")
        moved = records - first
        return MeasuredRun(moved / seconds, self._stages(), records, used / moved * 1e6)

    def wait_until(self, state: str) -> None:
        """Return when it is in *state*."""
        while self._status().get("state") != state:
            time.sleep(LOOK_SECONDS / 4)

    def restore(self) -> float:
        """Return the documents restored a second, from an empty directory to taking records."""
        self.wait_until("restoring")
        begun = time.perf_counter()
        self.wait_until("running")
        seconds = time.perf_counter() - begun
        start = "streamfilter_index_documents "
        lines = (each for each in self._get("/metrics").splitlines() if each.startswith(start))
        return float(next(lines).removeprefix(start)) / seconds

    def _done(self) -> int:
        return sum(self._status().get("positions", {}).values())

    def _status(self) -> dict[str, Any]:
        if (code := self._child.exit_code) is not None:
            end = self._log.read_text(errors="replace")[-2_000:]
            raise RuntimeError(f"streamfilter run ended with {code}:\n{end}")
        return json.loads(self._get("/status") or "{}")  # type: ignore[no-any-return]

    def _get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(self._url + path, timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def _stages(self) -> dict[str, float]:
        """Return the seconds of each stage, as /metrics has them."""
        start = 'streamfilter_stage_seconds_sum{stage="'
        lines = (each for each in self._get("/metrics").splitlines() if each.startswith(start))
        parts = (line.removeprefix(start).split('"} ') for line in lines)
        return {stage: float(value) for stage, value in parts}


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
            feed.send(_record(number, documents[number]), key=str(number).encode())
            sent.append(time.perf_counter())
        for record in tail.take(0.001):
            latencies.append((time.perf_counter() - sent[int(record.key or b"0")]) * 1e3)
    # The first ones also wait for the connections.
    return latencies[len(latencies) // 10 :]


def _record(number: int, text: str) -> bytes:
    return json.dumps({"id": str(number), "text": text}).encode()


def filter_rate(documents: Sequence[str], directory: Path) -> float:
    """Return the records a second that `streamfilter filter` says it did, its start left out."""
    source = directory / "filter.jsonl"
    if not source.exists():
        lines = (_record(number, text) + b"\n" for number, text in enumerate(documents))
        source.write_bytes(b"".join(lines))
    outputs = [str(directory / name) for name in ("unique", "duplicates")]
    state = directory / f"filter-{secrets.token_hex(4)}"
    said = subprocess.run(
        [sys.executable, "-m", "streamfilter.cli", "filter", str(source), "-o", "json", "--unique",
         outputs[0], "--duplicates", outputs[1], "--state", str(state)],
        env=environment(), capture_output=True, text=True, timeout=WAIT_SECONDS, check=True,
    ).stdout  # fmt: skip
    return float(json.loads(said)["records_per_second"])
