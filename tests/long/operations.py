"""An operator's tasks under kills: `python -m tests.long.kills --operations --nodes 3 --kills 100`.

A group is seeded from a file, works, backs up its index, and is corrected by `release` and
`replay`. Another group with another threshold is seeded from the file and from the unique topic,
and takes over. Each verb and each process is killed, at kill points or at any moment, and is run
again until it ends well. Then the law judges both groups (`judging_operations`).
"""

from __future__ import annotations

import json
import os
import pickle
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local.real import RealKafka
from streamfilter.demo.running_filter import Child
from streamfilter.killpoints import VARIABLE
from tests.faults.causes.nemesis import PROCESS_FAULTS, Nemesis
from tests.faults.judging.recording import record_run
from tests.faults.life import FENCED, PROGRESS_SECONDS, TEMPORARY, TICK_SECONDS, Life
from tests.faults.supervisor import KILLED, Settings
from tests.faults.tally import POINTS, Tally
from tests.long.judging_operations import ARCHIVE, OPERATED, Operated
from tests.support import small_runs
from tests.support.topics import end_offsets, read_committed

STEPS = tuple(f"transaction.{step}" for step in ("begun", "outputs", "produced", "flushed"))
CORRECTING = (*STEPS, "transaction.committed")
SEEDING = (*CORRECTING, "transaction.offsets", "index.applied", "batch.decided", "start.assigned")
TAKING = ("takeover.fenced", "takeover.read", *STEPS, "transaction.offsets", "takeover.done")
SEEDED, RELEASES, DEATHS = 300, 3, 2
SHORT_SPACES = 9
"""A document with no more of them is too short to be judged."""
ARMED, MOMENT_SECONDS = 0.7, 6.0
"""Share of the verbs that die at a kill point. The others die within so many seconds, or end."""
TRIES_MAX = 40
"""Of one verb: others fence it, or a group has not forgotten a killed member yet."""
THRESHOLD = 0.6
"""Of the new group."""


@dataclass(slots=True)
class Asked:
    """A verb that is run again until it ends well; it is killed up to so many times."""

    verb: str
    config: Path
    arguments: Sequence[str]
    points: Sequence[str] = CORRECTING
    deaths: int = DEATHS
    process: Child | None = None
    point: str = ""
    until: float = 0.0
    tries: int = 0

    def ended(self, life: Operations) -> bool:
        """Start it, or look after it; return whether it has ended well."""
        if self.process is None:
            self.process = self._start(life.rng)
        elif time.monotonic() > self.until:
            self.process.kill()
        code, log = self.process.exit_code, self.process.log
        if code is None:
            return False
        self.process = None
        again = code in (KILLED, FENCED, TEMPORARY)
        letters_stay = self.verb == "replay" and code == 1
        if code == KILLED and self.deaths > 0:
            self.deaths -= 1
            life.killed(self.verb, self.point)
        elif (again and self.tries > TRIES_MAX) or not (again or code == 0 or letters_stay):
            life.find("E", "verb", f"{self.verb} ended with {code}:\n{log.read_text()[-2000:]}")
        return not again

    def _start(self, rng: random.Random) -> Child:
        self.tries += 1
        dies, armed = self.deaths > 0, rng.random() < ARMED
        self.point = rng.choice(self.points) if dies and armed else ""
        nth = rng.randint(1, 6) if self.verb == "seed" else 1
        seconds = rng.uniform(0, MOMENT_SECONDS) if dies > armed else PROGRESS_SECONDS
        self.until = time.monotonic() + seconds
        command = [sys.executable, "-m", "streamfilter", self.verb, "--config", str(self.config)]
        armed_with = {VARIABLE: f"{self.point}:{nth}" if self.point else ""}
        return Child(
            [*command, *self.arguments],
            log=self.config.with_suffix(f".{self.verb}.log"),
            environment={**os.environ, **armed_with, "OMP_NUM_THREADS": "1"},
        )


class Operations(Life):
    """One group, its successor, and what is asked of them."""

    backs_up = True

    def __init__(self, kafka: RealKafka, directory: Path, rng: random.Random) -> None:
        self.successor = ""
        """The new group, if it is the one that works."""
        self.mended_at = dict[int, int]()
        """From where on texts are read under both names, by partition."""
        self.archive = str(directory / ARCHIVE), "--name", ARCHIVE
        super().__init__(
            kafka, directory, rng, rate=5.0, launch=small_runs.launch, batch=rng.choice((5, 25)),
            protocol=rng.choice(("cooperative", "range", "consumer")),
        )  # fmt: skip
        self.feeder.give(SEEDED)
        self.feeder.rest()  # until all of them are in the topic, which is read now
        self.feeder.go_on()
        given = (each.value or b"" for each in read_committed(kafka.bootstrap, self.stage.input))
        texts = [each for each in given if b'"text"' in each and each.count(b" ") > SHORT_SPACES]
        old = [each.replace(b'"d', b'"old', 1) for each in texts[::2]]
        (directory / ARCHIVE).write_bytes(b"\n".join(old))
        self.first = end_offsets(kafka.bootstrap, self.stage.input)
        copies = [str(json.loads(each)["id"]) for each in texts[::2]]
        self.released = rng.sample(copies, 2 * RELEASES)
        """Copies of documents in the archive, so they are withheld."""

    def settings(self, number: int) -> Settings:
        given: dict[str, dict[str, Any]] = {k: {**v} for k, v in super().settings(number).items()}
        target = f"file://{self.stage.directory / 'backups'}"
        given["index"]["backup"] = {"target": target, "every": "10s", "keep": 1}
        given["input"]["text"] = ["/text", "/body"] if self.mended_at else "/text"
        if self.successor:
            given["index"]["path"] = str(self.stage.directory / f"n{number}")
            given["input"]["take_over"] = self.stage.group
            given["kafka"]["group"] = self.successor
            given["similarity"] = {"threshold": THRESHOLD}
        return given

    @contextmanager
    def succeeded(self) -> Iterator[None]:
        """Let the settings be those of the new group."""
        self.successor = f"{self.stage.group}.new"
        yield
        self.successor = ""

    def killed(self, what: str, point: str) -> None:
        """Count a kill of a verb, or of a start that takes over."""
        self.tally.kills += 1
        self.tally.count(f"killed in {what}", POINTS.get(point, (10,)) if point else (11,))

    def live(self, tally: Tally, kills: int) -> None:
        """Let the tasks be done, with *kills* or more; judge all that came of it."""
        for part in (self._begins, self._goes_on, self._ends):
            print(f"  {self.protocol}, batch {self.batch}: {self.tally.kills} kills", flush=True)
            part(kills)
            if self.tally.findings:
                break
        said = self.tally.findings or "nothing found"
        print(f"  {self.tally.kills} kills, {self.tally.records} records: {said}", flush=True)
        tally.add(self.tally)

    def _begins(self, kills: int) -> None:
        """Seed the index, and release while the group works; mend the configuration."""
        first = self._asked("seed", *self.archive)
        while not (first.ended(self) or self.tally.findings):
            time.sleep(TICK_SECONDS)
        self._work(kills // 3, self._releases(self.released[:RELEASES]))
        self.mended_at = self.settle()
        self.stop_all()

    def _goes_on(self, kills: int) -> None:
        """Replay and release while the group works, and seed the new group; let it take over."""
        self._work(kills * 2 // 3, self._later())
        if not self.tally.findings:
            self._take_over()

    def _ends(self, kills: int) -> None:
        """Let the new group work, and judge."""
        old = self.stage.configuration(**self.settings(0))
        with self.succeeded():
            self._work(kills, iter(()))
            self.settle()
            self.stop_all()
            new = self.stage.configuration(**self.settings(0))
            theirs = read_committed(self.stage.bootstrap, f"{self.successor}.changelog")
        log = [(each.source.offset, each.value or b"") for each in theirs]
        raw = record_run(self.stage, self.watcher)
        operated = Operated((old, new), raw, log, self.mended_at, self.released)
        (self.stage.directory / OPERATED).write_bytes(pickle.dumps(operated))
        self.tally.records = sum(map(len, raw.inputs.values()))
        self.tally.findings += operated.judged(self.stage.directory)

    def _asked(self, verb: str, *arguments: str) -> Asked:
        config = self.stage.configuration(**self.settings(0))
        if verb == "seed":
            return Asked(verb, config, arguments, SEEDING, 2 * DEATHS)
        return Asked(verb, config, [*arguments, "--yes"])

    def _work(self, goal: int, verbs: Iterator[Asked]) -> None:
        """Let processes work and be killed, until all *verbs* have ended well beside them."""
        self.feeder.go_on()
        self.hire()
        asked = next(verbs, None)

        def enough() -> bool:
            nonlocal asked
            if asked is not None and asked.ended(self):
                asked = next(verbs, None)
            return asked is None and self.tally.kills >= goal

        Nemesis(self, PROCESS_FAULTS).rage(until=enough)

    def _releases(self, chosen: Sequence[str]) -> Iterator[Asked]:
        """Release one withheld record after another."""
        if not self.wait(PROGRESS_SECONDS, until=lambda: self._drained(self.first)):
            self.find("E", "stuck", f"{self.first} was not reached")
        for each in chosen:
            yield self._asked("release", "--id", each)

    def _later(self) -> Iterator[Asked]:
        """Send letters back, release, and fill the index of the new group."""
        yield self._asked("replay")
        yield from self._releases(self.released[RELEASES:])
        for source in (self.archive, *2 * [("--topic", self.stage.unique)]):
            with self.succeeded():
                asked = self._asked("seed", *source)
            yield asked

    def _drained(self, ends: Mapping[int, int]) -> bool:
        wanted = {f"{self.stage.input}/{p}": end for p, end in ends.items()}
        return any(
            all(status["positions"].get(spot, 0) >= end for spot, end in wanted.items())
            for _, status in self.supervisor.working()
        )

    def _take_over(self) -> None:
        """Kill the old group, then the new one at each step; the old one works in between."""
        self.supervisor.arm = lambda _: ""
        *steps, done = TAKING
        for number, point in enumerate((*self.rng.sample(steps, len(steps)), done)):
            if number % 3 == 2:
                self.forgive()
                self.hire()
                seen = self.watcher.count
                if not self.wait(PROGRESS_SECONDS, lambda seen=seen: self.watcher.count > seen):
                    self.find("E", "take over", f"{self.stage.group} did not go on")
            self._dies_taking(point)
        said = self.stage.refused(**self.settings(0))
        assert "took over the input of the group" in said, said

    def _dies_taking(self, point: str) -> None:
        """End the old group, and let the new one take over and die at *point*."""
        self._resting = True
        for worker in self.supervisor.workers:
            if worker.process is not None and worker.alive:
                worker.fault, worker.expected = "killed", frozenset({KILLED, FENCED})
                worker.process.kill()
        self.tend(restart=False)
        with self.succeeded():
            process = self.stage.start(environment={VARIABLE: point}, **self.settings(0))
        if process.wait_for_exit() != KILLED:
            self.find("E", "take over", process.with_log(f"did not die at {point}"))
        self.killed("take over", point)
        self._resting = False
