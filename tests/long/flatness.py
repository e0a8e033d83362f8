"""Is what forgets as large in the end as it was in the middle? Looked at all through a soak.

Files, processes and topics are measured from outside, not asked of the filters. Kills hide what
a process would hoard, so beside the filters that are wronged a *bystander* reads the same input,
with a group, a changelog and a directory of its own, and nobody touches it.

The first third of the looks is for the memory to fill. Flat is what has, in the last third, a
median of at most `GROWN_MAX` times that of the second; of the changelog's bytes a segment on each
broker may come to it, for they are freed by the segment.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import KafkaException

from deploy.local.real import RealKafka
from streamfilter.bench.machine import memory_bytes
from tests.faults.life import FENCED, TEMPORARY, Life
from tests.faults.supervisor import Supervisor, Worker
from tests.support.stage import Stage
from tests.support.topics import end_offsets, start_offsets

LOOK_SECONDS, TICK_SECONDS = 10.0, 0.5
LOOKS_A_PERIOD = 5
"""At least, but for those when a broker did not answer."""
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


@dataclass(frozen=True, slots=True)
class Size:
    """What some filters of one group take; 0: they have nothing now."""

    disk_mib: float
    """The largest state directory of theirs."""
    resident_mib: float
    """The largest of their processes."""
    changelog_records: int
    """Offsets from its start to its end."""
    changelog_mib: float
    """In the segments of all brokers."""


@dataclass(frozen=True, slots=True)
class Look:
    """How large everything was at one time."""

    seconds: float
    """Of the soak, without the time in which it was judged."""
    records: int
    """Written to the input so far."""
    sizes: dict[str, Size]
    """Of the filters that are wronged, and of the bystander."""

    def figures(self) -> dict[str, float]:
        """Return all sizes by their names."""
        return {
            f"{whose} {name}": size
            for whose, sizes in self.sizes.items()
            for name, size in asdict(sizes).items()
        }


def size_of(kafka: RealKafka, stage: Stage, workers: Sequence[Worker]) -> Size:
    """Return what the filters of *stage* take now."""
    pids = [process.child.pid for worker in workers if (process := worker.process)]
    starts = start_offsets(kafka.bootstrap, stage.changelog, timeout_seconds=ASK_SECONDS)
    ends = end_offsets(kafka.bootstrap, stage.changelog, timeout_seconds=ASK_SECONDS)
    segments = [
        path
        for node in kafka.nodes
        for path in (node.directory / "data").glob(f"{stage.changelog}-*/*.log")
    ]
    return Size(
        disk_mib=max((_bytes_below(worker.state) for worker in workers), default=0) / MIB,
        resident_mib=max((memory_bytes("VmRSS", pid) for pid in pids), default=0) / MIB,
        changelog_records=sum(ends.values()) - sum(starts.values()),
        changelog_mib=sum(map(_bytes_of, segments)) / MIB,
    )


def _bytes_below(directory: Path) -> int:
    return sum(
        _bytes_of(Path(parent, name)) for parent, _, names in os.walk(directory) for name in names
    )


def _bytes_of(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):  # removed since it was listed
        return path.stat().st_size
    return 0


class Bystander:
    """A filter on the input of a life that nobody wrongs, but for its brokers."""

    def __init__(self, life: Life) -> None:
        """Make its topics; `tend` starts it."""
        directory = life.stage.directory / "bystander"
        directory.mkdir()
        partitions = len(end_offsets(life.kafka.bootstrap, life.stage.input))
        self.stage = Stage(life.kafka.bootstrap, directory, partitions=partitions)
        sections = {name: dict(section) for name, section in life.settings(0).items()}
        sections["index"] |= {"scope": "topic", "path": str(directory / "state")}
        # Its brokers are those that no proxy stands before; its clocks are the usual ones.
        sections["kafka"] = {"common": {"bootstrap.servers": life.kafka.bootstrap}}
        tolerated = frozenset({FENCED, TEMPORARY})
        self._supervisor = Supervisor(self.stage, lambda _: "", tolerated)
        self._supervisor.hire(1, lambda _: sections)
        self.starts = 1
        """Of its process: more than one, if it waited too long for a broker."""

    @property
    def workers(self) -> Sequence[Worker]:
        return self._supervisor.workers

    def tend(self) -> Iterator[str]:
        """Start it, again if it has ended; yield what is wrong with that."""
        for each in self._supervisor.tend():
            self.starts += 1
            if not each.as_expected:
                yield f"the bystander ended with {each.code}:\n{each.worker.told()}"

    def close(self) -> None:
        self.stage.close()


@dataclass(slots=True)
class Flatness:
    """The looks of a soak, and what they say."""

    period_seconds: float
    """The retention."""
    looks: list[Look] = field(default_factory=list)

    @property
    def periods(self) -> float:
        """Return how many retentions have passed, without the time in which it was judged."""
        return self.looks[-1].seconds / self.period_seconds if self.looks else 0.0

    def latest(self) -> str:
        """Return the last look for a person."""
        figures = self.looks[-1].figures() if self.looks else {}
        told = ", ".join(f"{name} {each:.1f}" for name, each in figures.items())
        return f"after {self.periods:.1f} periods: {told}"

    def medians(self) -> Iterator[tuple[str, float, float]]:
        """Yield each figure's name, and its medians of the second and the last third."""
        thirds = [self.looks[n * len(self.looks) // 3 :] for n in (1, 2)]
        second = thirds[0][: len(thirds[0]) - len(thirds[1])]
        for name in self.looks[-1].figures() if second else ():
            yield name, _median(name, second), _median(name, thirds[1])

    def grown(self) -> list[str]:
        """Return what is not flat."""
        if len(self.looks) < LOOKS_MIN:
            return [f"{len(self.looks)} looks are too few to say"]
        return [
            f"{name} grew from {before:.1f} to {after:.1f}"
            for name, before, after in self.medians()
            if after > GROWN_MAX * before + _slack(name)
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "rule": f"median of the last third of looks <= {GROWN_MAX} x the second third's, "
            f"changelog_mib + {_slack('changelog_mib')}",
            "retention_seconds": self.period_seconds,
            "periods": round(self.periods, 1),
            "looks": len(self.looks),
            "thirds": {
                name: {"second": round(before, 2), "last": round(after, 2)}
                for name, before, after in self.medians()
            },
        }


def _slack(name: str) -> int:
    return SEGMENT_MIB * REPLICAS if name.endswith("changelog_mib") else 0


def _median(name: str, looks: Sequence[Look]) -> float:
    """Return the median of a figure; what nobody had at a time, as nobody worked, is left out."""
    return median([each for look in looks if (each := look.figures()[name])] or [0.0])


class Looking:
    """A thread that looks at a life, and after a bystander of it."""

    def __init__(self, life: Life) -> None:
        assert life.retention.time is not None
        self.flatness = Flatness(life.retention.time / 1_000)
        self.wrong: list[str] = []
        """What happened to the bystander, or to the thread."""
        self._life, self._bystander = life, Bystander(life)
        self._before, self._since = 0.0, 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Looking:
        return self

    def __exit__(self, *exception: object) -> None:
        self._ending.set()
        self._thread.join()
        self._bystander.close()

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
        every = min(LOOK_SECONDS, self.flatness.period_seconds / LOOKS_A_PERIOD)
        try:
            while not self._ending.wait(TICK_SECONDS):
                self.wrong += self._bystander.tend()
                if self._since and time.monotonic() >= due:
                    due = time.monotonic() + every
                    # Who cannot be asked for want of a broker is asked later.
                    with contextlib.suppress(KafkaException, TimeoutError):
                        self.flatness.looks.append(self._look())
        except Exception as error:  # of a thread, which nobody would hear of
            self.wrong.append(f"nobody looks any more: {error!r}")

    def _look(self) -> Look:
        life, bystander = self._life, self._bystander
        sizes = {
            "wronged": size_of(life.kafka, life.stage, life.supervisor.workers),
            "bystander": size_of(life.kafka, bystander.stage, bystander.workers),
        }
        return Look(self.seconds, life.feeder.count, sizes)

    def as_json(self) -> dict[str, Any]:
        return {"bystander_starts": self._bystander.starts, **self.flatness.as_json()}
