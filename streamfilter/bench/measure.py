"""Clocks and statistics: medians with their spread, and contenders that run in turns.

A machine is never idle: other programs run, and its clock rate changes with the temperature. So
contenders run in turns, A B A B, and a ratio is the median of the ratios within each turn. A
disturbance of a whole turn cancels out. Work inside one process is measured in processor seconds of
all its threads, which do not depend on other programs.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, to_builtins

T = TypeVar("T")


class Measured(Struct, frozen=True):
    """Several measurements of one thing."""

    median: float
    low: float  # first quartile
    high: float  # third quartile
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
        plain: dict[str, float] = to_builtins(self)
        return plain


def rates(seconds: Sequence[float], amount: float) -> Measured:
    return Measured.of([amount / max(each, 1e-9) for each in seconds])


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Measured:
    """Return how many times as fast we were: their seconds by ours, turn by turn."""
    pairs = zip(ours, theirs, strict=True)
    return Measured.of([their / max(our, 1e-9) for our, their in pairs])


def in_turns(contenders: Sequence[T], *, repeat: int) -> Iterator[tuple[int, T]]:
    """Yield (turn, contender), each of *contenders* once in each of *repeat* turns.

    Every other turn goes backwards, so that no contender always follows the same neighbour.
    """
    for turn in range(repeat):
        for contender in contenders if turn % 2 == 0 else contenders[::-1]:
            yield turn, contender


def interleaved(
    contenders: Mapping[str, Callable[[], object]], *, repeat: int
) -> dict[str, list[float]]:
    """Run every contender once in each of *repeat* turns; return their processor seconds.

    A turn before them does not count.
    """
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()
    gc.collect()
    gc.freeze()  # the collector passes over what lives already: the texts are not ours
    for _, name in in_turns(list(contenders), repeat=repeat):
        gc.collect()
        started = time.process_time()
        contenders[name]()
        found[name].append(time.process_time() - started)
    gc.unfreeze()
    return found
