"""Clocks and statistics: medians with their spread, and contenders that take turns.

A machine is never quiet: other programs come and go, and its clock changes with the heat. So
contenders run in turns, A B A B, and a ratio is the median of the ratios within each turn; what
disturbs a whole turn cancels out. Work inside one process is timed in processor seconds of all
its threads: what it costs a core, whoever else uses the machine.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """Several measurements of one thing."""

    median: float
    low: float
    """First quartile."""
    high: float
    """Third quartile."""
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Measured:
        """Return the median and quartiles of *values*; at least one."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0], 1)
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high, len(values))

    @property
    def spread(self) -> float:
        """Return half the distance of the quartiles as a share of the median."""
        return (self.high - self.low) / 2 / abs(self.median) if self.median else 0.0

    def as_json(self) -> dict[str, float]:
        """Return the fields as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Seconds:
    """What one piece of work took."""

    wall: float
    cpu: float
    """Of all threads of the process."""


def timed(work: Callable[[], object]) -> Seconds:
    """Do *work* once."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Seconds(time.perf_counter() - wall, time.process_time() - cpu)


def rates(seconds: Sequence[float], amount: float) -> Measured:
    """Return *amount* a second, over several runs."""
    return Measured.of([amount / max(each, 1e-9) for each in seconds])


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Measured:
    """Return how many times as fast we were: their seconds by ours, turn by turn."""
    pairs = zip(ours, theirs, strict=True)
    return Measured.of([their / max(our, 1e-9) for our, their in pairs])


def interleaved(
    contenders: Mapping[str, Callable[[], object]], *, repeat: int
) -> dict[str, list[Seconds]]:
    """Run every contender once in each of *repeat* turns, after one that does not count.

    Every other turn goes backwards, so that nobody always follows the same neighbour.
    """
    found: dict[str, list[Seconds]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()
    with _quiet_collector():
        for turn in range(repeat):
            order = list(contenders) if turn % 2 == 0 else list(contenders)[::-1]
            for name in order:
                gc.collect()
                found[name].append(timed(contenders[name]))
    return found


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Let the collector pass over what lives already (the texts), as if they were not ours."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
