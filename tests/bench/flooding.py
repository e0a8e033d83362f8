"""Does a flood of variants hide the copies that follow, and what does a document of it cost?

An enemy who wants a story to come out again and again needs no seed: he sends variants of it
before, just too different to be duplicates, and the story's buckets are full when it arrives.
So variants are judged first, then the text itself, then near-copies of it: which are found? All
of it takes the service's own way, sketch, judge and write, on RocksDB.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamfilter.bench.measure import Measured
from streamfilter.bench.result import BenchResult, Check, Options, Row, Target
from streamfilter.index.protocol import Index
from streamfilter.model import Verdict
from streamfilter.similarity.scheme import Scheme, Shingling
from streamfilter.similarity.sketch import Sketcher
from tests.bench.judging import BatchFilter, fresh_index

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


@dataclass(frozen=True, slots=True)
class AttackResult:
    """What came of one attack."""

    recall: float
    """Share of the copies that were withheld."""
    candidates: float
    """Of a copy."""


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
    """Send the *flood*, the text and its copies, *batch* at a time; say what was found."""
    enemy, service = Enemy(seed), BatchFilter(index, SKETCHER)
    for texts in _cut([*enemy.variants(flood), " ".join(enemy.text)], batch):
        service.take(texts)
    judged = [service.take(texts)[1] for texts in _cut(enemy.copies(), batch)]
    verdicts = [each.verdict for judgement in judged for each in judgement.decisions]
    candidates = sum(int(judgement.counts.candidates.sum()) for judgement in judged)
    return AttackResult(verdicts.count(Verdict.NEAR_DUPLICATE) / COPIES, candidates / COPIES)


def _cut(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (texts[i : i + size] for i in range(0, len(texts), size))


def costs(index: Index, *, seed: int, batches: int) -> dict[str, float]:
    """Return microseconds of a document: ordinary ones, variants behind a thousand, and copies."""
    enemy, service = Enemy(seed), BatchFilter(index, SKETCHER)
    _timed(service, enemy.others(BATCH))  # what is done once is done
    found = {"ordinary": _timed(service, enemy.others(BATCH * batches))}
    _timed(service, enemy.variants(Flood(1_000, 12, 0)))
    found["variants"] = _timed(service, enemy.variants(Flood(BATCH * batches, 12, 0)))
    return {**found, "copies": _timed(service, enemy.copies(BATCH * batches))}


def _timed(service: BatchFilter, texts: list[str]) -> float:
    started = time.process_time()
    for cut in _cut(texts, BATCH):
        service.take(cut)
    return (time.process_time() - started) / len(texts) * 1e6


def run(options: Options) -> BenchResult:
    """Attack fresh indexes with each flood, and time one more."""
    found: list[Row] = []
    checks: list[Check] = []
    seeds = range(options.repeat)
    for flood in FLOODS:
        label = f"{flood.variants} variants ({flood.changes} words changed)"
        options.say(label)
        seen: list[AttackResult] = []
        for seed in seeds:
            with fresh_index() as index:
                seen.append(attacked(index, flood, seed=seed))
        recall = sum(each.recall for each in seen) / len(seen)
        found.append({
            "variants first": flood.variants, "words changed": flood.changes,
            "copies": COPIES * len(seen), "missed": round(COPIES * len(seen) * (1 - recall)),
            "candidates": Measured.of([each.candidates for each in seen]),
        })  # fmt: skip
        checks.append(Check.at_least(f"recall behind {label}", recall, flood.recall))
    options.say("costs")
    taken: list[dict[str, float]] = []
    for seed in seeds:
        with fresh_index() as index:
            taken.append(costs(index, seed=seed, batches=1 if options.quick else 4))
    times = {n: Measured.of([each[n] / each["ordinary"] for each in taken]) for n in taken[0]}
    timed: list[Row] = [
        {"documents": name, "us": Measured.of([each[name] for each in taken]),
         "times an ordinary one": times[name]}
        for name in times
    ]  # fmt: skip
    return BenchResult(
        {"copies found": found, "processor time of a document": timed}, checks,
        [Target(f"{name} in a flood, times an ordinary document", times[name].median, 3,
                at_most=True) for name in ("variants", "copies")],
        settings={"words": WORDS, "batch": BATCH, "copies": COPY_CHANGES},
    )  # fmt: skip
