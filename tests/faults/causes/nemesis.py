"""Chooses what goes wrong next: kill points for who starts, and faults for who works.

A fault is a function of the life it spoils; it begins something, may plan its end, and returns
its name's trials. What it plans is done by `rage`, so faults may overlap.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.faults.life import FENCED, PROGRESS_SECONDS, SESSION_SECONDS, Life
from tests.faults.supervisor import KILLED, Worker
from tests.faults.tally import POINTS
from tests.support import small_runs
from tests.support.machine.processes import children_of
from tests.support.topics import end_offsets

ARMED_SHARE = 0.6
NTH_MAX = 6
AFTER_SECONDS = 1.5
"""A worker is left alone for up to this long before something happens to it."""
STUBBORN_SECONDS = 30.0
"""A worker whose kill point does not come is struck by something else then."""
SPARED = 5
"""After each fifth fault there is no other until a record comes out."""
STOP_SECONDS = 120.0
DELETE_SECONDS = 30.0
CLOSING_POINTS = tuple(p for p in POINTS if p.startswith("close."))
AGEING_POINTS = tuple(p for p in POINTS if p.startswith(("window.", "changelog.", "forget.")))
"""Of an index that forgets."""
RESTORING_POINTS = ("backup.begun", "backup.fetched", "backup.restored")
BACKUP_POINTS = tuple(p for p in POINTS if p.startswith("backup."))
RUN_POINTS = tuple(p for p in POINTS if p.startswith(("run.", "merge.")))
RARE = 2
"""Windows begin and go seldom: who is to die there dies at the first or second."""
KINDS = {
    "first": tuple(p for p in POINTS if p.startswith(("start.", "restore."))),
    "closing": CLOSING_POINTS,
    "freezing": (
        "batch.decided",
        "transaction.begun",
        "transaction.flushed",
        "transaction.offsets",
    ),
    "live": tuple(p for p in POINTS if p.startswith(("batch.", "transaction.", "index."))),
    "runs": RUN_POINTS,
    "ageing": AGEING_POINTS,
    "copying": BACKUP_POINTS,
}
SHARES = {
    "first": 0.2, "closing": 0.07, "freezing": 0.08, "live": 0.65, "runs": 1.6, "ageing": 5.0,
    "copying": 1.0,
}  # fmt: skip
"""A third of all kills is to be in the write or the merge of a run. Where an index forgets, most
of those that are armed are to die of that."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that can be done to a life."""

    name: str
    rows: tuple[int, ...]
    strike: Callable[[Nemesis, Worker], bool]
    """Does it to the life of a worker that works; False: not possible now."""
    weight: float = 1.0


@dataclass(slots=True)
class Nemesis:
    """Wrongs one life."""

    life: Life
    faults: Sequence[Fault]
    points: Sequence[str] = tuple(POINTS)
    """Kill points that it may use."""
    armed_share: float = ARMED_SHARE
    _plans: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _counter: itertools.count[int] = field(default_factory=itertools.count)
    _strikes: int = 0
    _spared: int | None = None
    """How many records had come out after a fault that no other must follow at once."""

    @property
    def rng(self) -> random.Random:
        return self.life.rng

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Do something after so many seconds, while `rage` goes on."""
        heapq.heappush(self._plans, (time.monotonic() + seconds, next(self._counter), act))

    def arm(self, worker: Worker) -> str:
        """Return the kill point that a process about to be started gets."""
        rng = self.rng
        if rng.random() >= self.armed_share:
            return ""
        met = [point for point in self.points if is_met(point, self.life, worker)]
        kinds = {kind: [point for point in met if point in KINDS[kind]] for kind in KINDS}
        weights = [SHARES[kind] * bool(points) for kind, points in kinds.items()]
        if not any(weights):
            return ""
        (kind,) = rng.choices(list(kinds), weights)
        nth = 1 if kind in ("first", "closing") else rng.randint(1, NTH_MAX)
        nth = min(nth, RARE) if kind == "ageing" else nth
        how = ":stop" if kind == "freezing" else ""
        return f"{rng.choice(kinds[kind])}:{nth}{how}"

    def rage(self, *, until: Callable[[], bool]) -> None:
        """Strike again and again, then undo everything that is still planned to be undone."""
        self.life.supervisor.arm = self.arm
        next_at = time.monotonic()
        while not until() and not self.life.tally.findings:
            self.life.tend()
            self._do_what_is_due()
            self._thaw()
            if self._plans:
                self.life.forgive()
            if self.life.silent_seconds > PROGRESS_SECONDS:
                self.life.find("E", "stuck", f"nothing for {PROGRESS_SECONDS} s; {self._logs()}")
            worker = self.life.owner() if time.monotonic() >= next_at else None
            worker = None if self._spares() else worker
            if worker is not None and self._spares_sketchers():
                self._strike(worker, SKETCHER_KILLED)
            if worker is not None and self._is_free(worker):
                self._strike(worker)
                next_at = time.monotonic() + self.rng.uniform(0.2, AFTER_SECONDS)
            self.life.wait(0.2)
        while self._plans:
            self._do_what_is_due()
            self.life.wait(0.2)
        self.life.forgive()

    def _is_free(self, worker: Worker) -> bool:
        """Return whether it is our turn: an armed worker dies by itself, if its point comes."""
        if worker.fault:
            return False
        armed = worker.armed and worker.armed.partition(":")[0] not in CLOSING_POINTS
        return not armed or time.monotonic() - worker.begun > STUBBORN_SECONDS

    def _do_what_is_due(self) -> None:
        while self._plans and self._plans[0][0] <= time.monotonic():
            heapq.heappop(self._plans)[2]()
            self.life.disturbed()

    def _thaw(self) -> None:
        """Plan the waking of those that froze themselves inside a transaction."""
        for worker in self.life.supervisor.workers:
            if worker.armed.endswith(":stop") and worker.paused and worker.process:
                worker.armed, worker.expected = "", frozenset({FENCED})
                self.later(SESSION_SECONDS * self.rng.uniform(1.5, 3.0), worker.process.resume)
                self.life.tally.count("frozen inside a transaction", (22, 13))

    def _spares_sketchers(self) -> bool:
        """Return whether fewer than a third of the kills were of workers so far."""
        tally = self.life.tally
        return bool(self.life.sketchers) and 3 * tally.faults[SKETCHER_KILLED.name] <= tally.kills

    def _chosen(self, worker: Worker) -> Fault:
        if worker.armed:
            return TERMINATE
        (fault,) = self.rng.choices(self.faults, [fault.weight for fault in self.faults])
        return fault

    def _strike(self, worker: Worker, fault: Fault | None = None) -> None:
        if not self.faults:
            return
        fault = fault or self._chosen(worker)
        if fault.strike(self, worker):
            self.life.disturbed()
            self.life.tally.count(fault.name, fault.rows)
            self._strikes += 1
            if self._strikes % SPARED == 0:
                self._spared = self.life.watcher.count

    def _spares(self) -> bool:
        """Return whether there is no fault now: it is measured how long one record takes."""
        return self._spared is not None and self.life.watcher.count <= self._spared

    def _logs(self) -> str:
        return "\n".join(f"{w.name}: {w.shown()}" for w in self.life.supervisor.workers)


def is_met(point: str, life: Life, worker: Worker) -> bool:
    """Return whether *worker*, a filter of *life*, passes a kill point."""
    if point in RUN_POINTS:
        return life.stage.launch is small_runs.launch and worker.role != "edge"
    if point in BACKUP_POINTS:
        return life.backs_up and worker.state.exists() is (point not in RESTORING_POINTS)
    if point.startswith("forget."):
        return life.forgets
    return point not in AGEING_POINTS or life.retention.limited


def kill(nemesis: Nemesis, worker: Worker) -> bool:
    nemesis.life.supervisor.signal(worker, signal.SIGKILL, fault="killed", expected={KILLED})
    worker.back_at = time.monotonic() + nemesis.rng.choice((0, 0, 1.0))
    nemesis.life.tally.trials.update((60,) if worker.role else ())
    return True


def kill_all(nemesis: Nemesis, _: Worker) -> bool:
    for worker in nemesis.life.supervisor.workers:
        kill(nemesis, worker)
    return True


def wipe(nemesis: Nemesis, worker: Worker) -> bool:
    """Kill it and take its directory away: who works next, or this one, restores everything."""
    kill(nemesis, worker)
    assert worker.process is not None
    worker.process.wait_for_exit()
    shutil.rmtree(worker.state, ignore_errors=True)
    return True


def terminate(nemesis: Nemesis, worker: Worker) -> bool:
    """Ask it to end, in whatever it is doing; a kill point of its close may take it then."""
    life, number = nemesis.life, nemesis.rng.choice((signal.SIGTERM, signal.SIGINT))
    closing = worker.armed.partition(":")[0] in CLOSING_POINTS
    life.supervisor.signal(worker, number, fault="" if closing else "stopped", expected={0})
    process = worker.process
    if not life.wait(STOP_SECONDS, until=lambda: worker.process is not process):
        life.find("E", "stop", f"{worker.name} did not end in {STOP_SECONDS} s")
    return True


def pause(nemesis: Nemesis, worker: Worker) -> bool:
    """Freeze it for about twice the session, so that another process works meanwhile."""
    life, process = nemesis.life, worker.process
    assert process is not None
    life.supervisor.signal(worker, signal.SIGSTOP, fault="", expected={FENCED})
    seconds = SESSION_SECONDS * nemesis.rng.uniform(0.5, 2.5)
    nemesis.later(seconds, process.resume)
    return True


def remove_edge(nemesis: Nemesis, _: Worker) -> bool:
    """Stop an edge for a while: the others take its partitions, and give some back later."""
    edges = [each for each in nemesis.life.supervisor.workers if each.role == "edge" and each.alive]
    edges = [each for each in edges if not each.fault and not each.armed]
    if len(edges) < 2:
        return False
    worker = nemesis.rng.choice(edges)
    nemesis.life.supervisor.signal(worker, signal.SIGTERM, fault="removed", expected={0})
    worker.back_at = time.monotonic() + nemesis.rng.uniform(1.0, 3.0) * SESSION_SECONDS
    return True


def delete_ranges(nemesis: Nemesis, _: Worker) -> bool:
    """Delete all sketch ranges, also those that no judge has read: edges must sign again."""
    life = nemesis.life
    topic = f"{life.stage.group}.sketches"
    ends = end_offsets(life.kafka.bootstrap, topic)
    spots = [TopicPartition(topic, p, end) for p, end in ends.items()]
    admin = AdminClient({"bootstrap.servers": life.kafka.bootstrap, "log_level": 2})
    for future in admin.delete_records(spots).values():
        future.result(DELETE_SECONDS)
    return True


def double(nemesis: Nemesis, _: Worker) -> bool:
    """Take the transactional id of a task for a moment: its owner must notice, and go on."""
    life = nemesis.life
    task = nemesis.rng.choice(list(life.tasks))
    stranger = Producer(
        {
            "bootstrap.servers": life.kafka.bootstrap,
            "transactional.id": f"{life.stage.group}.{task}",
            "log_level": 2,
        }
    )
    try:
        stranger.init_transactions(20)
    except KafkaException:
        return False
    finally:
        stranger.close()
    return True


def kill_sketcher(nemesis: Nemesis, worker: Worker) -> bool:
    """Kill one of the processes that sketch for *worker*, if it has begun any."""
    assert worker.process is not None
    pids = children_of(worker.process.child.pid)
    for pid in nemesis.rng.sample(pids, min(1, len(pids))):
        with suppress(ProcessLookupError):  # gone with the process that it works for
            os.kill(pid, signal.SIGKILL)
        nemesis.life.tally.kills += 1
    return bool(pids)


SKETCHER_KILLED = Fault("a worker process killed", (52,), kill_sketcher)
TERMINATE = Fault("terminated", (12,), terminate)
CLUSTER_FAULTS = (
    Fault("an edge removed and added", (60,), remove_edge),
    Fault("sketch ranges deleted", (61,), delete_ranges, 2.0),
)
PROCESS_FAULTS = (
    Fault("killed at any moment", (11,), kill, 3.0),
    Fault("all killed at once", (11,), kill_all, 0.5),
    Fault("killed and its directory removed", (23,), wipe, 0.7),
    TERMINATE,
    Fault("frozen for about a session", (13,), pause),
    Fault("a double of its transactional id", (21,), double),
)
