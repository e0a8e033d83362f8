"""Lives side by side until every row has its trials: who does what next, and what is enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tests.faults.results import File, Result, table

FINDINGS_MAX = 3
"""A row that has so many is not tried any more."""
MISSED_MAX = 3
"""Nor one of which so many times its trials were missed."""
Slot = TypeVar("Slot")


@dataclass(slots=True)
class Goal:
    """What is wanted of one row, and how far it has come."""

    trials: int
    result: Result = field(default_factory=Result)
    under_way: int = 0
    lives: int = 0

    @property
    def lacking(self) -> int:
        """Return how many trials are neither done nor under way."""
        hopeless = self.result.missed > MISSED_MAX * self.trials
        if hopeless or len(self.result.findings) >= FINDINGS_MAX:
            return 0
        return max(0, self.trials - self.result.trials - self.under_way)


@dataclass(slots=True)
class SideBySide(Generic[Slot]):
    """Runs lives in as many threads as there are slots."""

    rows: Iterable[int]
    trials: int
    chain: int
    """Trials of one life at most."""
    live: Callable[[int, int, int, Slot], Result]
    """Lives: row, number of the life, trials to try, slot."""
    file: File
    seconds_max: float = float("inf")
    """No life begins later."""
    goals: dict[int, Goal] = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.goals = {row: Goal(self.trials) for row in self.rows}

    @property
    def results(self) -> dict[int, Result]:
        return {row: goal.result for row, goal in self.goals.items()}

    def run(self, slots: Sequence[Slot]) -> int:
        """Return the exit code: 0 if every row has its trials and nothing was found."""
        threads = [threading.Thread(target=self._work, args=(slot,)) for slot in slots]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(table(self.results), flush=True)
        for row, result in self.results.items():
            for finding in result.findings:
                print(f"row {row}: {finding}", flush=True)
        short = [row for row, goal in self.goals.items() if goal.result.trials < goal.trials]
        if short:
            print(f"rows without all of their trials: {short}", flush=True)
        return 1 if short or any(each.findings for each in self.results.values()) else 0

    def _work(self, slot: Slot) -> None:
        while (task := self._next()) is not None:
            row, number, count = task
            try:
                result = self.live(row, number, count, slot)
            except BaseException as error:  # a thread's exception would be lost
                result = Result(lives=1, findings=[f"harness: life {number}: {error!r}"])
            self._done(row, number, count, result)

    def _next(self) -> tuple[int, int, int] | None:
        with self._lock:
            lacking = {row: goal.lacking for row, goal in self.goals.items()}
            row = max(lacking, key=lambda row: lacking[row], default=0)
            if not lacking.get(row) or time.monotonic() - self._begun > self.seconds_max:
                return None
            goal, count = self.goals[row], min(self.chain, lacking[row])
            goal.under_way += count
            goal.lives += 1
            return row, goal.lives, count

    def _done(self, row: int, number: int, count: int, result: Result) -> None:
        with self._lock:
            goal = self.goals[row]
            goal.under_way -= count
            goal.result.add(result)
            seconds = time.monotonic() - self._begun
            self.file.save(self.results, seconds)
            done = sum(goal.result.trials for goal in self.goals.values())
            print(
                f"{seconds:6.0f} s: row {row}, life {number}: {dict(result.seen)}, {result.missed} "
                f"missed, {result.records} records, {result.seconds:.0f} s, findings "
                f"{len(result.findings)}; {done} trials in all",
                flush=True,
            )
