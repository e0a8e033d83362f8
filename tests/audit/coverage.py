"""How often does each figure of quality hold the truth?

Whole runs of the real pipeline and the real audit over one stream under many seeds, each figure
held against what a comparison of all with all says of that run: of the arrivals with an original
that was forwarded before them and is remembered, the share that was withheld.

    python -m tests.audit.coverage --runs 200 --figures tests/bench_runs/coverage.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from streamfilter.bench.machine import machine, versions
from streamfilter.index.protocol import Changes, Removals
from streamfilter.matching.audit import Audit, Rates
from streamfilter.model import Verdict
from streamfilter.monitoring.quality import Figure, Quality
from streamfilter.similarity.estimators import curve_of
from streamfilter.similarity.exact import Samples
from streamfilter.similarity.overlap import Postings
from tests.audit.planted import Run, batches
from tests.audit.streams import MADE, REAL

SHAPES = {"5 x 12": (5, 12), "10 x 10": (10, 10), "16 x 6": (16, 6)}
THRESHOLD, BATCH, ARRIVALS = 0.8, 100, 0.25
SHORT_MEMORY = 300
"""Ordinals remembered, for the streams whose name says so."""


@dataclass(frozen=True)
class Pairs:
    """All pairs of a stream at or above the threshold: later, earlier, whether equal."""

    later: np.ndarray
    earlier: np.ndarray

    @classmethod
    def of(cls, run: Run, texts: list[str]) -> Pairs:
        sketches = run.sketcher.sketch(texts)
        samples = Samples(sketches.tokens, sketches.token_starts, sketches.set_sizes)
        one, other, _ = Postings(samples).similar(samples, threshold=THRESHOLD)
        kept = one > other
        return cls(one[kept], other[kept])


@dataclass(frozen=True)
class Truth:
    near: float
    equal: float


def measured(texts: list[str], pairs: Pairs, shape: tuple[int, int], seed: int, *, memory: int = 0,
             lag: int = 0, method: str = "exact") -> tuple[dict[str, Figure], Truth]:  # fmt: skip
    """Run the whole stream under *seed*; return the figures told, and the truth."""
    bands, rows = shape
    run = Run.of(bands=bands, rows=rows, threshold=THRESHOLD, seed=seed + 1, method=method)
    quality = Quality()
    quality.curve, quality.exact = curve_of(run.sketcher.scheme), method == "exact"
    audit = Audit(Rates(ARRIVALS), run.policy, run.index, run.sketcher.keys_of)
    verdicts: list[Verdict] = []
    horizon = np.zeros(len(texts), np.int64)
    for batch in batches(texts, BATCH):
        sketches, judgement, first = run.step(batch)
        horizon[first : first + len(batch)] = _forget(run, sketches, first, memory, horizon)
        verdicts += [decision.verdict for decision in judgement.decisions]
        near = [d for d in judgement.decisions if d.verdict is Verdict.NEAR_DUPLICATE]
        quality.matched(np.array([m.similarity for d in near for m in d.matches]))
        audit.batch(sketches, judgement, first_ordinal=first)
        if first >= lag:
            _looked(audit, quality)
    _looked(audit, quality)
    window = quality.window()
    figures = {
        "audit_recall": window.recall(), "audit_recall_equal": window.recall_equal(),
        "recall_by_weights": quality.recall_by_weights(),
    }  # fmt: skip
    for row in window.by_similarity():
        told = row["recall"]
        figure = Figure(told["value"], told["lower"], told["upper"], told["why"])
        figures[f"recall from {row['from']:g}"] = figure
    return figures, _truth(run, texts, pairs, verdicts, horizon)


def _forget(run: Run, sketches, first: int, memory: int, horizon) -> int:
    """Forget what is older than *memory* ordinals; return the first that was remembered."""
    if not memory:
        return 0
    kept = max(0, first - memory)
    old = run.index.fetch(np.arange(kept))
    if len(old):
        keys = run.sketcher.keys_of(old.signatures, old.fingerprints)
        removals = Removals(old.ordinals, keys, old.signatures)
        run.index.apply(Changes(run.index.progress, removals=removals))
    return max(0, first - BATCH - memory)


def _looked(audit: Audit, quality: Quality) -> None:
    while audit.waiting:
        found = audit.look()
        if found is not None:
            quality.audited(found)


def _truth(run, texts, pairs: Pairs, verdicts: list[Verdict], horizon) -> Truth:
    unique = np.array([v is Verdict.UNIQUE for v in verdicts])
    seen = unique[pairs.earlier] & (pairs.earlier >= horizon[pairs.later])
    missed = np.zeros(len(texts), bool)
    missed[pairs.later[seen & unique[pairs.later]]] = True
    found = {v: sum(each is v for each in verdicts) for v in Verdict}
    near = found[Verdict.NEAR_DUPLICATE]
    return Truth(near / max(near + int(missed.sum()), 1), 1.0)


def holds(figure: Figure, truth: float) -> bool:
    """Return whether a figure is right about the truth, as far as it claims anything."""
    low = figure.lower is None or figure.lower <= truth + 1e-9
    return low and (figure.upper is None or truth <= figure.upper + 1e-9)


def row(stream: str, shape: str, runs: int) -> dict[str, object]:
    """Return how often each figure of one stream and shape held the truth, and how wide it is."""
    name, _, trouble = stream.partition(", ")
    texts = (MADE | REAL)[name]()
    pairs = Pairs.of(Run.of(bands=16, rows=6, threshold=THRESHOLD, seed=1), texts)
    told: dict[str, list[tuple[Figure, float]]] = defaultdict(list)
    more = TROUBLES.get(trouble, {})
    for seed in range(runs):
        figures, truth = measured(texts, pairs, SHAPES[shape], seed, **more)
        told["audit_recall"].append((figures["audit_recall"], truth.near))
        told["audit_recall_equal"].append((figures["audit_recall_equal"], truth.equal))
        told["recall_by_weights"].append((figures["recall_by_weights"], truth.near))
    return {"stream": stream, "shape": shape, "runs": runs,
            "figures": {each: _summary(found) for each, found in told.items()}}  # fmt: skip


def _summary(found: list[tuple[Figure, float]]) -> dict[str, object]:
    widths = [f.upper - f.lower for f, _ in found if f.upper is not None and f.lower is not None]
    bias = [f.value - truth for f, truth in found if f.value is not None]
    says = [figure.says for figure, _ in found]
    return {
        "holds": round(float(np.mean([holds(*each) for each in found])), 3),
        "says": {word: says.count(word) for word in sorted(set(says))},
        "truth": round(float(np.mean([truth for _, truth in found])), 4),
        "bias": round(float(np.mean(bias)), 4) if bias else None,
        "width": round(float(np.mean(widths)), 4) if widths else None,
    }


TROUBLES = {
    "short memory": {"memory": SHORT_MEMORY},
    "short memory, late": {"memory": SHORT_MEMORY, "lag": 500},
}
STREAMS = (*REAL, *MADE, "news, short memory", "bursts, short memory, late")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--streams", nargs="*", default=STREAMS)
    parser.add_argument("--shapes", nargs="*", default=tuple(SHAPES))
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    begun, rows = time.monotonic(), []
    for stream in args.streams:
        for shape in args.shapes:
            rows.append(row(stream, shape, args.runs))
            print(json.dumps(rows[-1]), flush=True)
    if args.figures:
        command = f"python -m tests.audit.coverage --runs {args.runs}"
        told = {
            "question": __doc__.splitlines()[0], "command": command, "machine": machine(),
            "versions": versions(), "seconds": round(time.monotonic() - begun), "rows": rows,
        }  # fmt: skip
        args.figures.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
