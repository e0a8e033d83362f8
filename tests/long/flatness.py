"""Is what forgets as large in the end as it was in the middle? Looked at all through a soak.

Directories, processes and changelogs are measured from outside, not asked of the filters. The
first third of the looks is for the memory to fill. Flat is what has, in the last third, a median
of at most `GROWN_MAX` times that of the second; of the changelog's bytes a segment on each broker
may come to it, for they are freed by the segment. What a process hoards in a long life is held by
`tests/kafka/outages/test_outages_leak_nothing.py`: here kills would hide it.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import KafkaException

from deploy.local.real import RealKafka
from streamfilter.bench.machine import memory_bytes
from tests.faults.life import Life
from tests.faults.supervisor import Worker
from tests.support.stage import Stage
from tests.support.topics import end_offsets, start_offsets

LOOK_SECONDS, TICK_SECONDS, LOOKS_A_PERIOD = 10.0, 0.5, 5
LOOKS_MIN = 60
"""Of fewer nothing is known."""
ASK_SECONDS = 10.0
GROWN_MAX = 1.25
SEGMENT_MIB, REPLICAS = 1, 3
SMALL_SEGMENTS = {
    # A broker frees what was cut off by the segment, when it looks.
    "log.segment.bytes": str(SEGMENT_MIB << 20),
    "log.retention.check.interval.ms": "5000",
    "log.segment.delete.delay.ms": "1000",
}
MIB = 1 << 20

Look = dict[str, float]
"""Sizes by name; 0: there is none now, as when no one lives."""


def size_of(kafka: RealKafka, stage: Stage, workers: Sequence[Worker]) -> Look:
    """Return what the filters of *stage* take now: the largest directory and process of theirs."""
    pids = [process.child.pid for worker in workers if (process := worker.process)]
    starts = start_offsets(kafka.bootstrap, stage.changelog, timeout_seconds=ASK_SECONDS)
    ends = end_offsets(kafka.bootstrap, stage.changelog, timeout_seconds=ASK_SECONDS)
    segments = [node.directory / "data" for node in kafka.nodes]
    return {
        "disk_mib": max((_bytes(each.state.rglob("*")) for each in workers), default=0) / MIB,
        "resident_mib": max((memory_bytes("VmRSS", pid) for pid in pids), default=0) / MIB,
        "changelog_records": sum(ends.values()) - sum(starts.values()),
        "changelog_mib": sum(_bytes(s.glob(f"{stage.changelog}-*/*.log")) for s in segments) / MIB,
    }


def _bytes(paths: Iterator[Path]) -> int:
    total = 0
    with contextlib.suppress(FileNotFoundError):  # a directory removed while it was listed
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size * path.is_file()
    return total


def grown(looks: Sequence[Look]) -> list[str]:
    """Return what is not flat."""
    if len(looks) < LOOKS_MIN:
        return [f"{len(looks)} looks are too few to say"]
    return [
        f"{name} grew from {before:.1f} to {after:.1f}"
        for name, (before, after) in thirds(looks).items()
        if after > GROWN_MAX * before + SEGMENT_MIB * REPLICAS * (name == "changelog_mib")
    ]


def thirds(looks: Sequence[Look]) -> dict[str, tuple[float, float]]:
    """Return the medians of the second and the last third, without what no one had."""

    def medians(name: str) -> Iterator[float]:
        for n in (1, 2):
            some = looks[n * len(looks) // 3 : (n + 1) * len(looks) // 3]
            yield median([each for look in some if (each := look[name])] or [0.0])

    return {name: tuple(medians(name)) for name in (looks[-1] if looks else ())}


class Looking:
    """A thread that looks at a life."""

    def __init__(self, life: Life) -> None:
        assert life.retention.time is not None
        self.period_seconds = life.retention.time / 1_000
        self.looks: list[Look] = []
        self._life, self._before, self._since = life, 0.0, 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Looking":
        return self

    def __exit__(self, *exception: object) -> None:
        self._ending.set()
        self._thread.join()

    @property
    def seconds(self) -> float:
        """Return for how long was looked at."""
        return self._before + (time.monotonic() - self._since if self._since else 0.0)

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Count this time, and look at what happens in it."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._before, self._since = self.seconds, 0.0

    def _run(self) -> None:
        due = time.monotonic()
        every = min(LOOK_SECONDS, self.period_seconds / LOOKS_A_PERIOD)
        while not self._ending.wait(TICK_SECONDS):
            if self._since and time.monotonic() >= due:
                due = time.monotonic() + every
                life = self._life
                # Who cannot be asked for want of a broker is asked later.
                with contextlib.suppress(KafkaException, TimeoutError):
                    self.looks.append(size_of(life.kafka, life.stage, life.supervisor.workers))

    def as_json(self) -> dict[str, Any]:
        """Return what was seen, and the rule that it is held to."""
        return {
            "rule": f"median of the last third of looks <= {GROWN_MAX} x the second third's, "
            f"changelog_mib + {SEGMENT_MIB * REPLICAS}",
            "retention_seconds": self.period_seconds,
            "periods": round(self.seconds / self.period_seconds, 1),
            "looks": len(self.looks),
            "thirds": {
                name: {"second": round(before, 2), "last": round(after, 2)}
                for name, (before, after) in thirds(self.looks).items()
            },
        }
