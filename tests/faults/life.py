"""One stream, filters that are wronged while they work on it, and the oracle at checkpoints.

    with Life(kafka, directory, rng, protocol="range", workers=2) as life:
        nemesis = Nemesis(life, faults)
        nemesis.rage(kills=50)
        life.checkpoint()

Everything happens in the caller's thread but for what feeds and what watches: `tend` must be
called all the time, and `wait` does.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.local.real import RealKafka
from streamfilter.demo.running_filter import Child
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from tests.faults.causes.disks import Disks
from tests.faults.causes.proxy import Proxy
from tests.faults.feeder import Feeder
from tests.faults.judging.expected import beginning_of
from tests.faults.judging.oracle import Finding
from tests.faults.judging.recording import Watcher
from tests.faults.judging.verdict import judge_stage, tasks_of
from tests.faults.standstill import Processors, Silence
from tests.faults.story import Story, reach_of
from tests.faults.supervisor import KILLED, Ended, Settings, Supervisor, Worker
from tests.faults.tally import POINTS, Tally
from tests.support.stage import Stage
from tests.support.topics import ANY_TIME, alter_topic, end_offsets, start_offsets
from tests.truth.changelog import Failure

SESSION_SECONDS = 2
TRANSACTION_SECONDS = 5
SOCKET_SECONDS = 2
PROGRESS_SECONDS = 180
"""Without a committed record for this long, after all faults are over, it does not live."""
STALLED_SECONDS = 60
LONG, FULL_MILLISECONDS = 12, 500
"""Times as many words, and how long a batch is waited for: a worker is asked from 32 Ki characters
on."""
CUT_SECONDS = 30
"""Until a changelog is cut off: a try that fails is repeated after 10 s."""
READY_SECONDS = 300
LONG_AGO = 20 * 365 * 24 * 3_600_000
"""Milliseconds before now, when a story begins whose timestamps run faster than our clock. A slow
machine must not reach the present in a life: brokers refuse timestamps of the future."""
TICK_SECONDS = 0.1
FENCED, TEMPORARY = 76, 75
PROTOCOLS: dict[str, Callable[[int], dict[str, str]]] = {
    "cooperative": lambda _: {"partition.assignment.strategy": "cooperative-sticky"},
    "range": lambda _: {"partition.assignment.strategy": "range"},
    "static": lambda number: {"group.instance.id": f"w{number}"},
    "consumer": lambda _: {"group.protocol": "consumer"},
}


class Life:
    """A stage, its feeder, its watcher, its workers, and what was found."""

    backs_up = False
    """Whether the filters take backups."""

    def __init__(
        self,
        kafka: RealKafka,
        directory: Path,
        rng: random.Random,
        *,
        workers: int = 2,
        partitions: int = 2,
        rate: float = 50.0,
        scope: str = "topic",
        protocol: str = "cooperative",
        batch: int = 25,
        proxies: Sequence[Proxy] = (),
        limited: bool = False,
        forgets: bool = False,
        retention: Retention = UNLIMITED,
        speed: int = 0,
        sketchers: int = 0,
        edges: int = 0,
        launch: Callable[..., Child] = Child,
    ) -> None:
        """Make the topics, begin to feed, and find workers; `tend` starts them.

        Args:
            kafka: one node or three.
            directory: for configurations, logs and indexes.
            rng: decides everything that is decided.
            workers: how many filters.
            partitions: of the input, and of each output.
            rate: records a second.
            scope: of the index.
            protocol: of the group, a key of `PROTOCOLS`.
            batch: documents in a batch at most.
            proxies: one for each node, if the filters' way leads through them.
            limited: some records have timestamps that the input takes and the outputs refuse, and
                each filter has a disk of its own, if we may mount one.
            forgets: some records are tombstones that forget documents.
            speed: how much faster the timestamps run than our clock; 0: they are of the present.
            retention: how much is remembered; half of the stories come back later than that.
            sketchers: worker processes of each filter. Texts are so long then, and batches so full,
                that there is something to do for them.
            edges: how many edges work for the filters, which are judges then; 0: no roles.
            launch: how a filter is started.
        """
        self.kafka, self.rng, self.scope, self.batch = kafka, rng, scope, batch
        self.limited, self.forgets, self.retention = limited, forgets, retention
        self.sketchers, self.edges = sketchers, edges
        self.count, self.protocol, self.proxies = workers, protocol, proxies
        self._resting = False
        """True while nothing is to come out."""
        self.whole_at = 0.0
        """When all brokers can be expected to be back."""
        self.bootstrap = kafka.bootstrap_proxied if proxies else kafka.bootstrap
        self.tally = Tally()
        self.stage = Stage(kafka.bootstrap, directory, partitions=partitions, launch=launch)
        self.disks = Disks(directory, workers if limited else 0)
        if limited:
            alter_topic(kafka.bootstrap, self.stage.input, ANY_TIME)
        reach = reach_of(retention, rate, speed)
        seed = random.Random(rng.random())
        length = LONG if sketchers else 1
        story = Story(seed, partitions, odd=limited, forgets=forgets, reach=reach, length=length)
        if speed:
            story.pace = round(speed * 1_000 / rate)
            story.begun -= LONG_AGO
        self.feeder = Feeder(kafka.bootstrap, self.stage.input, story, rate=rate)
        self.feeder.give(40)
        tasks = partitions if scope == "partition" else 1
        self.watcher = Watcher(self.stage, kafka.bootstrap, tasks)
        # Where no one takes brokers away, nothing may end for want of them.
        tolerated = {FENCED, TEMPORARY} if proxies else {FENCED}
        self.supervisor = Supervisor(self.stage, lambda _: "", frozenset(tolerated))
        self._processors, self._seen = Processors(), 0
        self._silent, self._undisturbed = Silence(self._processors), Silence(self._processors)
        self.hire()
        self.tasks = tasks_of(self.stage, scope, partitions, retention)

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *exception: object) -> None:
        self.feeder.close()
        self.watcher.close()
        self.stage.close()
        self.disks.close()

    def settings(self, number: int) -> Settings:
        tombstones = "forget" if self.forgets else "forward"
        index: dict[str, Any] = {
            "scope": self.scope,
            "path": str(self.disks.of(number) / f"w{number}"),
            "seed_file": str(self.stage.directory / "seed"),
            "documents_max": self.retention.documents,
        }
        if self.retention.time is not None:
            index["retention"] = f"{self.retention.time}ms"
        return {
            "index": index,
            "cluster": {"enabled": bool(self.edges)},
            "input": {"topic": self.stage.input, "tombstones": tombstones},
            "batch": {
                "documents": self.batch,
                "workers": self.sketchers,
                **({"latency": f"{FULL_MILLISECONDS}ms"} if self.sketchers else {}),
            },
            # librdkafka's send_offsets_to_transaction may outlast its timeout for ever (seen after
            # a lost coordinator): then only the process's own watch ends it.
            "http": {"stalled_after": f"{STALLED_SECONDS}s"},
            # A small memtable, so that flushes and compactions run all the time.
            "memory": {"memtable": "4Mi", "index_cache": "8Mi", "miss_filter": "1Mi"},
            "kafka": {
                "common": {"bootstrap.servers": self.bootstrap},
                "session_timeout": f"{SESSION_SECONDS}s",
                "transaction_timeout": f"{TRANSACTION_SECONDS}s",
                # Who is starved of processor at his start waits; it is no fault of his.
                **({} if self.proxies else {"start_timeout": f"{READY_SECONDS}s"}),
                "consumer": PROTOCOLS[self.protocol](number),
                "producer": {"socket.timeout.ms": SOCKET_SECONDS * 1000},
            },
        }

    def hire(self) -> None:
        """Have as many workers as we should, by the present protocol."""
        judges = ["judge" if self.edges else ""] * self.count
        self.supervisor.hire(judges + ["edge"] * self.edges, self.settings)
        self.forgive()

    def tend(self, *, restart: bool = True) -> list[Ended]:
        """Look after the workers; note who ended, and how."""
        ended = self.supervisor.tend(restart=restart)
        for each in ended:
            self.disturbed()
            self.tally.exits[each.code] += 1
            if each.code == KILLED:
                self.tally.kills += 1
                point = each.armed.partition(":")[0]
                if not each.fault and point:
                    self.tally.count(f"at {point}", POINTS[point])
            if not each.as_expected:
                why = f"armed {each.armed!r}, {each.fault!r}"
                told = (
                    f"{each.worker.name} ended with {each.code} ({why}):\n{each.worker.log_end()}"
                )
                self.find("E", "exit", told)
        filters = (each.process for each in self.supervisor.workers if each.alive)
        nodes = [node.pid for node in self.kafka.nodes if node.pid]
        self._processors.look([*nodes, *(each.child.pid for each in filters if each)])
        if not self._resting:
            tally = self.tally
            tally.standstill = max(tally.standstill, self._silent.measured())
            tally.recovery = max(tally.recovery, self._undisturbed.measured())
        if self.watcher.count > self._seen:
            self._seen = self.watcher.count
            self.forgive()
        return ended

    def find(self, letter: str, check: str, what: str) -> None:
        self.tally.findings.append(str(Finding(letter, check, what)))

    @property
    def silent_seconds(self) -> float:
        """Return how long no record was committed."""
        return self._silent.seconds

    def forgive(self) -> None:
        """Count silence from now on only: what is still wrong explains it."""
        self._silent.begin()
        self._undisturbed.begin()

    def disturbed(self) -> None:
        """Count from now on how long it takes to go on after a fault."""
        self._undisturbed.begin()

    def wait(self, seconds: float, until: Callable[[], object] = lambda: False) -> bool:
        """Look after the workers for so long; return True as soon as *until* is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.tend()
            if until():
                return True
            time.sleep(TICK_SECONDS)
        return False

    def owner(self) -> Worker | None:
        """Return a worker that works now, if there is one."""
        working = [worker for worker, _ in self.supervisor.working()]
        return self.rng.choice(working) if working else None

    def checkpoint(self) -> None:
        """Let everything come to its end without faults, and judge it."""
        self.settle()
        self.wait(CUT_SECONDS, until=self._is_cut)
        self._resting = True
        self.stop_all()
        states = [worker.state for worker in self.supervisor.workers]
        found = judge_stage(self.stage, self.watcher, self.tasks, scope=self.scope, states=states)
        self.tally.findings += map(str, found)
        self.tally.records = sum(len(task.expected) for task in self.tasks.values())
        self.forgive()
        self._resting = False

    def settle(self) -> dict[int, int]:
        """Let all that was produced come out, without faults; return where the input ends."""
        self.supervisor.arm = lambda _: ""
        self.kafka.wait_until_ready(READY_SECONDS)
        self.feeder.rest()
        for worker in self.supervisor.workers:
            if worker.armed and worker.alive and worker.process:  # it might still die of it
                worker.fault, worker.expected = "disarmed", frozenset({KILLED})
                worker.process.kill()
        self.forgive()
        ends = end_offsets(self.kafka.bootstrap, self.stage.input)
        while not self._drained(ends):
            self.tend()
            time.sleep(TICK_SECONDS)
            if self.silent_seconds > PROGRESS_SECONDS:
                logs = "\n".join(f"{w.name}: {w.shown()}" for w in self.supervisor.workers)
                self.find("E", "stuck", f"{self.watcher.count} came out, not to {ends}:\n{logs}")
                break
        return ends

    def _drained(self, ends: Mapping[int, int]) -> bool:
        """Return whether the input has come out up to *ends*."""
        return self.watcher.count >= sum(ends.values())

    def _is_cut(self) -> bool:
        """Return whether the changelogs begin where they should: the oracle says if they do not."""
        if not self.retention.limited:
            return True
        starts = start_offsets(self.kafka.bootstrap, self.stage.changelog)
        logs = list(self.watcher.changelog.items())
        try:
            return all(starts[task] == beginning_of(sorted(log.items())) for task, log in logs)
        except Failure:  # the reader is in the middle of a batch
            return False

    def stop_all(self) -> None:
        """End every worker as an operator would; each must end with 0."""
        for worker in self.supervisor.workers:
            worker.back_at = float("inf")
            if worker.process is not None and worker.alive:
                worker.fault = "stopped"
                worker.expected = self.supervisor.ends_of(worker, signal.SIGTERM, {0})
                worker.process.terminate()
        self.tend(restart=False)
        for worker in self.supervisor.workers:
            worker.back_at = 0.0
