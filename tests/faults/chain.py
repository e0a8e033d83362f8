"""A life for directed faults: processes one after another on one stream, each ended by its fault.

    with Chain(place, directory, rng) as chain:
        chain.result.saw(killed_at("transaction.offsets")(chain))     # any number of times
        chain.finish()

The input drips in all the while. A static member takes its place again at once, so that a chain
need not wait for sessions; the rows about sessions have dynamic ones. `finish` lets a process of
which nobody wants anything drain the rest, and asks the oracle.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamfilter.killpoints import VARIABLE
from tests.faults.feeder import Feeder
from tests.faults.life import PROGRESS_SECONDS, SESSION_SECONDS, SOCKET_SECONDS
from tests.faults.places import Place
from tests.faults.recording import Watcher
from tests.faults.results import Result
from tests.faults.story import Story
from tests.faults.verdict import judge_stage, tasks_of
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import end_offsets

PARTITIONS = 2
FIRST_RECORDS, DRIP = 60, 25.0
TRANSACTION_SECONDS = 30
"""Longer than any freeze of a row: what is aborted is so by somebody, not by its age."""
TICK_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
KILLED, FENCED, TEMPORARY = -9, 76, 75


class StuckError(AssertionError):
    """Something that had to come has not."""


class Chain:
    """A stage, a feeder, a watcher, and the processes that come and go."""

    def __init__(
        self,
        place: Place,
        directory: Path,
        rng: random.Random,
        *,
        static: bool = True,
        proxied: bool = False,
    ) -> None:
        """Make the topics, and begin to feed and to watch.

        Args:
            place: where the broker is.
            directory: for configurations, logs and indexes.
            rng: decides everything that is decided.
            static: whether processes have a place in the group that outlives them.
            proxied: whether their way to the broker leads through the proxy.
        """
        self.place, self.rng, self.static = place, rng, static
        self.bootstrap = place.proxied if proxied else place.direct
        self.scope = rng.choice(("topic", "topic", "partition"))
        self.batch = rng.choice((3, 8, 25))
        self.result = Result(lives=1)
        self.patience = PATIENCE_SECONDS
        """A fault that has not happened by then is missed."""
        self.state = "a"
        """The index directory of the processes to come."""
        self.stage = Stage(place.direct, directory, partitions=PARTITIONS, launch=place.launch)
        self.stage.configuration()  # writes the seed
        story = Story(random.Random(rng.random()), PARTITIONS)
        self.feeder = Feeder(place.direct, self.stage.input, story, rate=DRIP)
        self.feeder.give(FIRST_RECORDS)
        self.watcher = Watcher(self.stage, place.direct)
        self._states = {"a"}
        self._begun = time.monotonic()

    def __enter__(self) -> Chain:
        return self

    def __exit__(self, *exception: object) -> None:
        self.feeder.close()
        self.watcher.close()
        self.stage.close()
        self.result.seconds = time.monotonic() - self._begun

    @property
    def directory(self) -> Path:
        """Return the index directory of the processes to come."""
        return self.stage.directory / self.state

    def start(self, *, armed: str = "", state: str = "", instance: str = "one") -> FilterProcess:
        """Start a process; *armed* is its kill point, *state* its own index directory."""
        state = state or self.state
        self._states.add(state)
        consumer = {"group.instance.id": instance} if self.static else {}
        settings: dict[str, dict[str, Any]] = {
            "index": {
                "scope": self.scope,
                "path": str(self.stage.directory / state),
                "seed_file": str(self.stage.directory / "seed"),
            },
            "batch": {"documents": self.batch},
            # A small memtable, so that flushes and compactions run all the time.
            "memory": {"memtable": "4Mi", "index_cache": "8Mi", "miss_filter": "1Mi"},
            "kafka": {
                "common": {"bootstrap.servers": self.bootstrap},
                "session_timeout": f"{SESSION_SECONDS}s",
                "transaction_timeout": f"{TRANSACTION_SECONDS}s",
                "start_timeout": f"{PROGRESS_SECONDS}s",
                "consumer": consumer,
                "producer": {"socket.timeout.ms": SOCKET_SECONDS * 1000},
            },
        }
        environment = {VARIABLE: armed, "OMP_NUM_THREADS": "1"}
        return self.stage.start(state=state, environment=environment, **settings)

    def ended(self, process: FilterProcess, *codes: int, seconds: float = 0.0) -> bool:
        """Wait for the end of *process*; False if it did not come in time, and it was killed.

        An exit code that is none of *codes* is a finding.
        """
        came = self.waited(lambda: process.child.exit_code is not None, seconds)
        if not came:
            process.kill()
        code = process.child.exit_code
        self.stage.processes.remove(process)
        if came and code is not None:
            self.result.exit_codes[code] += 1
            if code not in codes:
                told = process.told(f"ended with {code} where {codes} was to come")
                self.result.findings.append(f"E exit: {told}")
        return came

    def waited(self, until: Callable[[], object], seconds: float = 0.0) -> bool:
        """Return True as soon as *until* is true, False after so many seconds."""
        deadline = time.monotonic() + (seconds or self.patience)
        while not until():
            if time.monotonic() > deadline:
                return False
            time.sleep(TICK_SECONDS)
        return True

    def demand(self, until: Callable[[], object], what: str, process: FilterProcess) -> None:
        """Wait for what must come.

        Raises:
            StuckError: it has not, or the process has ended.
        """

        def over() -> bool:
            return bool(until()) or process.child.exit_code is not None

        if not self.waited(over, PROGRESS_SECONDS) or not until():
            raise StuckError(process.told(f"had to bring {what}"))

    def moving(self, process: FilterProcess) -> FilterProcess:
        """Return *process* once it works and has committed something."""
        self.demand(lambda: says(process, '"running"'), "itself to work", process)
        return self.progress(process)

    def progress(self, process: FilterProcess) -> FilterProcess:
        """Return *process* once a record was committed that was not when we asked."""
        before = self.watcher.count
        self.demand(lambda: self.watcher.count > before, "progress", process)
        return process

    def kill(self, process: FilterProcess) -> None:
        process.kill()
        self.ended(process, KILLED)

    def stop(self, process: FilterProcess) -> None:
        """End *process* as an operator would; it must end with 0."""
        # Before it listens the signal itself may end it: Python still imports.
        self.demand(lambda: says(process, "listening on"), "itself to listen", process)
        process.child._signal(15)
        if not self.ended(process, 0, seconds=PROGRESS_SECONDS):
            raise StuckError("a process did not end after SIGTERM")

    def finish(self) -> None:
        """Let a process drain what is there, and judge everything."""
        self.feeder.rest()
        process = self.start()
        records = sum(end_offsets(self.place.direct, self.stage.input).values())
        while self.watcher.count < records:
            self.progress(process)
        self.stop(process)
        tasks = tasks_of(self.stage, self.scope, PARTITIONS)
        states = [self.stage.directory / state for state in sorted(self._states)]
        found = judge_stage(self.stage, self.watcher, tasks, scope=self.scope, states=states)
        self.result.findings += map(str, found)
        self.result.records = records


def says(process: FilterProcess, words: str) -> bool:
    """Return whether the log of *process* has *words*."""
    log = process.log  # a forked process makes it itself, some time after its start
    return log.exists() and words in log.read_text(errors="replace")


def frozen(process: FilterProcess) -> bool:
    """Return whether *process* is stopped, by us or by itself."""
    try:
        stat = Path(f"/proc/{process.child.pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"
