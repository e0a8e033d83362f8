"""Does a flood of variants hide the copies that follow, and what does a document of it cost?

An enemy who wants a story to come out again and again needs no seed: he sends variants of it
before, just too different to be duplicates, and the story's buckets are full when it arrives.
So variants are judged first, then the text itself, then near-copies of it: which are found? All
of it takes the service's own way, sketch, judge and write, on RocksDB.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamfilter.bench.growth import IDENTITY
from streamfilter.bench.measure import Measured
from streamfilter.bench.options import Options
from streamfilter.bench.outcome import BenchResult, Check, Row, Table, Target
from streamfilter.index.opening import open_index
from streamfilter.index.protocol import Applied, Changes, Index, Progress
from streamfilter.matching.pipeline import Batch, Judgement, judge
from streamfilter.matching.verification import MatchPolicy
from streamfilter.model import BatchMark, Source, Span, Verdict
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher

NAME = "flood"
SKETCHER = Sketcher(Scheme(16, 6, shingling=Shingling(size=1)), seed=bytes(range(16)))
"""Shingles of one word, so that a changed word changes one token."""
WORDS = 100
COPIES = 200
COPY_CHANGES = (4, 5, 6, 7, 8)
"""Words changed in a copy: its similarity to the text is .92, .90, .89, .87 or .85."""
BATCH = 500


@dataclass(frozen=True, slots=True)
class Flood:
    """One attack: so many variants before the text, each with so many words changed."""

    variants: int
    changes: int
    """12: similarity .79 to the text and .64 to each other; 16: .72 and .54."""
    recall: float
    """The least share of the copies that we want found."""


FLOODS = (Flood(0, 12, 0.99), Flood(80, 12, 0.97), Flood(160, 12, 0.97), Flood(160, 16, 0.97),
          Flood(1_000, 12, 0.85))  # fmt: skip


@dataclass(slots=True)
class AttackResult:
    """What came of one attack."""

    found: int = 0
    of: int = 0
    candidates: float = 0.0
    """Of a copy."""

    @property
    def recall(self) -> float:
        """Return the share of the copies that were withheld."""
        return self.found / self.of


class BatchFilter:
    """Sketch, judge and write as the service does it, batch by batch."""

    def __init__(self, index: Index) -> None:
        self._index, self._number, self._next = index, 0, 0

    def take(self, texts: Sequence[str]) -> tuple[Judgement, Applied]:
        """Judge *texts* as one batch, and write what is new."""
        n, first, number = len(texts), self._next, self._number
        self._number, self._next = number + 1, first + n
        offsets = np.arange(first, first + n)
        batch = Batch(
            [str(offset) for offset in offsets.tolist()],
            np.zeros(n, np.int64), offsets, np.full(n, -1, np.int64),
        )  # fmt: skip
        judgement = judge(
            batch, SKETCHER.sketch(texts), index=self._index, policy=MatchPolicy(), number=number,
            locate=lambda partition, offset: Source("", partition, offset), first_ordinal=first,
        )  # fmt: skip
        progress = Progress(positions={0: first + n}, next_batch=number + 1, next_ordinal=first + n)
        mark = BatchMark(number, first, first + n, (Span(0, first, first + n),))
        return judgement, self._index.apply(Changes(progress, judgement.additions, (mark,)))


class Enemy:
    """Texts of an attack: a story, variants of it, and copies; a function of the seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"flood {seed}")
        self.text = self._words(WORDS)

    def variants(self, flood: Flood) -> list[str]:
        """Return what is sent first."""
        return [self._edited(flood.changes) for _ in range(flood.variants)]

    def copies(self, count: int = COPIES) -> list[str]:
        """Return near-copies of the text, of all similarities in turn."""
        return [self._edited(COPY_CHANGES[i % len(COPY_CHANGES)]) for i in range(count)]

    def others(self, count: int) -> list[str]:
        """Return texts that have nothing to do with each other."""
        return [" ".join(self._words(WORDS)) for _ in range(count)]

    def _words(self, count: int) -> list[str]:
        return [f"w{self._rng.getrandbits(40):x}" for _ in range(count)]

    def _edited(self, changes: int) -> str:
        words = list(self.text)
        for place in self._rng.sample(range(WORDS), changes):
            (words[place],) = self._words(1)
        return " ".join(words)


def attacked(index: Index, flood: Flood, *, seed: int, batch: int = BATCH) -> AttackResult:
    """Send the *flood*, the text and its copies, *batch* at a time; tell what was found."""
    enemy, service, seen = Enemy(seed), BatchFilter(index), AttackResult()
    for texts in _cut([*enemy.variants(flood), " ".join(enemy.text)], batch):
        service.take(texts)
    for texts in _cut(enemy.copies(), batch):
        judgement, _ = service.take(texts)
        seen.of += len(texts)
        seen.found += sum(each.verdict is Verdict.NEAR_DUPLICATE for each in judgement.decisions)
        seen.candidates += int(judgement.counts.candidates.sum()) / COPIES
    return seen


def _cut(texts: list[str], size: int) -> list[list[str]]:
    return [texts[i : i + size] for i in range(0, len(texts), size)]


def costs(index: Index, *, seed: int, batches: int) -> dict[str, float]:
    """Return microseconds of a document: ordinary ones, variants behind a thousand, and copies."""
    enemy, service = Enemy(seed), BatchFilter(index)
    service.take(enemy.others(BATCH))  # what is done once is done
    told = {"ordinary": _timed(service, enemy.others(BATCH * batches))}
    for texts in _cut(enemy.variants(Flood(1_000, 12, 0)), BATCH):
        service.take(texts)
    told["variants"] = _timed(service, enemy.variants(Flood(BATCH * batches, 12, 0)))
    told["copies"] = _timed(service, enemy.copies(BATCH * batches))
    return told


def _timed(service: BatchFilter, texts: list[str]) -> float:
    started = time.process_time()
    for cut in _cut(texts, BATCH):
        service.take(cut)
    return (time.process_time() - started) / len(texts) * 1e6


def run(options: Options) -> BenchResult:
    """Attack fresh indexes with each flood, and time one more."""
    recalls: list[Row] = []
    checks: list[Check] = []
    seeds = range(1 if options.quick else options.repeat)
    for flood in FLOODS:
        options.say(f"{flood.variants} variants with {flood.changes} words changed")
        seen = [_attacked_anew(flood, seed) for seed in seeds]
        row: Row = {"variants first": flood.variants, "words changed": flood.changes}
        row |= {"copies": sum(each.of for each in seen)}
        row |= {"missed": sum(each.of - each.found for each in seen)}
        row |= {"candidates": Measured.of([each.candidates for each in seen])}
        recalls.append(row)
        recall = sum(each.found for each in seen) / sum(each.of for each in seen)
        name = f"recall behind {flood.variants} variants ({flood.changes} words changed)"
        checks.append(Check.at_least(name, recall, flood.recall))
    options.say("costs")
    told = [_timed_anew(seed, batches=1 if options.quick else 4) for seed in seeds]
    ratios = {name: [each[name] / each["ordinary"] for each in told] for name in told[0]}
    timed: list[Row] = [
        {
            "documents": name,
            "us": Measured.of([each[name] for each in told]),
            "times an ordinary one": Measured.of(ratios[name]),
        }
        for name in ratios
    ]
    targets = [
        Target(f"{name} in a flood, times an ordinary document", median, 3, at_most=True)
        for name in ("variants", "copies")
        for median in (Measured.of(ratios[name]).median,)
    ]
    return BenchResult(
        NAME, __doc__.splitlines()[0],
        [Table("copies found", recalls), Table("processor time of a document", timed)],
        checks, targets, settings={"words": WORDS, "batch": BATCH, "copies": COPY_CHANGES},
    )  # fmt: skip


def _attacked_anew(flood: Flood, seed: int) -> AttackResult:
    with _fresh_index() as index:
        return attacked(index, flood, seed=seed)


def _timed_anew(seed: int, *, batches: int) -> dict[str, float]:
    with _fresh_index() as index:
        return costs(index, seed=seed, batches=batches)


@contextmanager
def _fresh_index() -> Iterator[Index]:
    with (
        tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory,
        closing(open_index(Path(directory, "index"), IDENTITY)) as index,
    ):
        yield index
