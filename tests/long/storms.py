"""Rebalance storms: `python -m tests.long.storms --trials 30 --seconds 20 --lives 3`.

A storm is a group of two to four filters on four tasks, of which one joins, leaves or is killed
every two to five seconds. The protocol changes from storm to storm. That a task has one owner at
any time is judged by what was written: its changelog is one history without gaps and repeats,
and the outputs follow from it. Beside that nobody may go on telling that he owns a task of another.
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.local.real import RealKafka
from tests.faults.life import PROTOCOLS, SESSION_SECONDS, SHORT_CLOCKS, Life
from tests.faults.results import File, Result
from tests.faults.supervisor import KILLED, Worker
from tests.long.side_by_side import SideBySide
from tests.support.forge import Forge

ROW = 20
WORKERS_MAX, WORKERS_MIN = 4, 2
TASKS = 4
BETWEEN_SECONDS = (2.0, 5.0)
DOUBLE_SECONDS = 10 * SESSION_SECONDS
"""Who was thrown out hears of it at his next heartbeat or commit; this is far beyond."""
RATE = 40.0


class Storm:
    """One storm in one life."""

    def __init__(self, life: Life) -> None:
        self.life, self.rng = life, life.rng
        self.events: list[str] = []
        self._double_since: dict[str, float] = {}

    @property
    def _present(self) -> list[Worker]:
        return [w for w in self.life.supervisor.workers if w.alive or w.back_at != float("inf")]

    def rage(self, seconds: float) -> None:
        """Let somebody join, leave or die every few seconds."""
        for worker in self.life.supervisor.workers[WORKERS_MIN:]:
            worker.back_at = float("inf")
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.life.tally.findings:
            self.life.wait(self.rng.uniform(*BETWEEN_SECONDS), until=self._look)
            self.life.forgive()
            self._strike()
        for worker in self.life.supervisor.workers:
            worker.back_at = 0.0

    def _strike(self) -> None:
        present = self._present
        absent = [w for w in self.life.supervisor.workers if w not in present]
        choices = ["killed"]
        if absent:
            choices += ["joined"]
        if len(present) > WORKERS_MIN:
            choices += ["left"]
        what = self.rng.choice(choices)
        worker = self.rng.choice(absent if what == "joined" else present)
        if what == "joined":
            worker.back_at = 0.0
        elif not worker.alive or worker.fault:
            return
        elif what == "left":
            worker.back_at = float("inf")
            self.life.supervisor.signal(worker, signal.SIGTERM, fault="left", expected={0})
        else:
            worker.back_at = time.monotonic() + self.rng.choice((0.0, 1.0))
            self.life.supervisor.signal(worker, signal.SIGKILL, fault="killed", expected={KILLED})
        self.events.append(what)

    def _look(self) -> bool:
        """Find a task that two have told to own for long; never an end of the wait."""
        owners: dict[str, list[str]] = {}
        for worker, status in self.life.supervisor.working():
            for task in status.get("tasks", ()):
                owners.setdefault(task, []).append(worker.name)
        now = time.monotonic()
        doubles = {task for task, names in owners.items() if len(names) > 1}
        self._double_since = {task: self._double_since.get(task, now) for task in doubles}
        for task, since in self._double_since.items():
            if now - since > DOUBLE_SECONDS:
                self.life.find("E", "owners", f"{task} is owned by {owners[task]}")
        return bool(self.life.tally.findings)


def storm(kafka: RealKafka, forge: Forge, seconds: float, seed: str, protocol: str) -> Result:
    """Live one storm, and judge it."""
    begun, rng, result = time.monotonic(), random.Random(seed), Result(lives=1, seeds=[seed])
    with (
        tempfile.TemporaryDirectory(prefix="streamfilter-storm-") as directory,
        Life(
            kafka, Path(directory), rng, workers=WORKERS_MAX, partitions=TASKS, rate=RATE,
            scope="partition", protocol=protocol, launch=forge.launch,
        ) as life,
    ):  # fmt: skip
        storm = Storm(life)
        storm.rage(seconds)
        life.checkpoint()
        result.saw(f"{protocol}: {len(storm.events)} events" if len(storm.events) > 1 else "")
        result.findings = [f"seed {seed}, {protocol}: {each}" for each in life.tally.findings]
        result.exit_codes, result.records = life.tally.exits, life.tally.records
    result.seconds = time.monotonic() - begun
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    command = (
        f"python -m tests.long.storms --trials {options.trials} --seconds {options.seconds:g} "
        f"--lives {options.lives} --seed {options.seed}"
    )
    print(command, flush=True)
    protocols = list(PROTOCOLS)
    with Forge() as forge, RealKafka(properties=SHORT_CLOCKS) as kafka:
        side_by_side: SideBySide[int] = SideBySide(
            (ROW,),
            options.trials,
            1,
            lambda _, number, __, ___: storm(
                kafka, forge, options.seconds, f"{options.seed}/{number}",
                protocols[number % len(protocols)],
            ),
            File(options.json, command),
        )  # fmt: skip
        return side_by_side.run(range(options.lives))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.long.storms", description=__doc__)
    parser.add_argument("--trials", type=int, default=30, help="storms")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each")
    parser.add_argument("--lives", type=int, default=3, help="side by side")
    parser.add_argument("--seed", default=str(time.time_ns() % 1_000_000))
    parser.add_argument("--json", type=Path, help="where runs are added up")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
