"""Seeds of a world: files of documents that some lives of a process read instead of the input."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from streamfilter.engine.batches.seeding import NoOutputs, SeedCounts, SeedSource
from streamfilter.engine.parts import Parts
from streamfilter.index.input_table import NUMBERS_MAX, Piece, Seed
from streamfilter.model import Record, Source
from tests.simulator.texts import draw
from tests.simulator.world import BEGINNING
from tests.support.values import replace
from tests.truth.changelog import SEED_NAMES, Failure
from tests.truth.history import Input

COUNT = len(SEED_NAMES)
BEFORE = 10_000  # milliseconds


@dataclass(frozen=True, slots=True)
class SimSeed:
    """`engine.batches.seeding.SeedReader`: lines from 1 on, and a digest that is their number."""

    name: str
    lines: Sequence[Record]
    rng: random.Random

    @property
    def seeds(self) -> tuple[Seed, ...]:
        return (Seed(self.name),)

    def pieces(self, seeds: Mapping[str, Seed]) -> Iterator[Piece]:
        (seed,) = seeds.values()
        if seed.digest not in ("", f"the first {seed.lines}"):
            raise Failure("changelog", f"{seed} has another digest than its lines")
        at = 1
        while at <= len(self.lines):
            end = at + self.rng.randint(1, 4)
            some = [each for each in self.lines[at - 1 : end - 1] if each.source.offset >= at]
            end = at + len(some)
            new = [
                replace(each, source=Source(self.name, 0, each.source.offset))
                for each in some
                if each.source.offset >= seed.position
            ]
            yield Piece(new, {self.name: end}, f"the first {end - 1}")
            at = end


def draw_seeds(
    rng: random.Random, families: int, lines: int, *, dated: bool
) -> dict[int, list[Input]]:
    """Return the documents of the seeds, by their numbers, about *lines* together.

    Those that are *dated* are from before the world's beginning, in any order.
    """
    numbers = range(NUMBERS_MAX - COUNT, NUMBERS_MAX)

    def stamp() -> int:
        return BEGINNING - rng.randrange(BEFORE) if dated else -1

    return {
        number: [
            draw(rng, families, Source("", number, line), line, timestamp=stamp())
            for line in range(1, rng.randint(1, lines) + 1)
        ]
        for number in numbers
    }


def reading(parts: Parts, readers: Sequence[SimSeed]) -> Parts:
    """Return *parts* of a task that reads the seeds, as `kafka.lifecycle.seeding` makes them."""
    counts = SeedCounts()
    source = SeedSource(
        parts.source, parts.inputs, readers, counts, retention=parts.retention, clock=parts.clock
    )
    observer = parts.observer
    observer.moved = lambda moved, applied: source.moved(moved.decided.prepared.records)  # type: ignore[method-assign]
    return replace(
        parts, source=source, seeds=source, observer=observer, forwarder=NoOutputs(counts, 1 << 30)
    )
