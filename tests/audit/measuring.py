"""One row of the coverage record: a stream under many seeds, each figure held against the truth.

Whole runs of the real pipeline and the real audit, each figure held against what a comparison of
all with all says of that run: of the arrivals with an original that was forwarded before them and
is remembered, the share that was withheld; of the withheld, the share that is right.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamfilter.index.protocol import Changes
from streamfilter.model import Decision, Verdict, Window
from streamfilter.quality.live.audit import Audit, Rates
from streamfilter.quality.live.audit_sample import BINS, DOUBTS, bins_of, doubts_of
from streamfilter.quality.live.figures import Figure, Quality
from streamfilter.similarity.overlap import Postings
from tests.audit.planted import Run, batches
from tests.audit.streams import MADE, REAL
from tests.support.values import replace

SHAPES = {"5 x 12": (5, 12), "10 x 10": (10, 10), "16 x 6": (16, 6)}
THRESHOLD, BATCH, ARRIVALS = 0.8, 100, 0.25
SHORT_MEMORY = 300
"""Ordinals remembered, for the streams whose name says so."""
NO_SIZES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Pairs:
    """All pairs of a stream as similar as the policy wants: later, earlier, similarity."""

    later: np.ndarray
    earlier: np.ndarray
    similarity: np.ndarray

    @classmethod
    def of(cls, run: Run, texts: list[str]) -> Pairs:
        sketches = run.sketcher.sketch(texts)
        samples = sketches.contents.samples
        wanted = float(run.policy.terms(NO_SIZES, NO_SIZES).wanted)  # by sketch it is no threshold
        one, other, similarity = Postings(samples).similar(samples, threshold=wanted)
        kept = one > other
        return cls(one[kept], other[kept], similarity[kept])


Told = list[tuple[str, Figure, float]]
"""Figures by name, each with the truth; ranges of one figure have one name."""


def measured(texts: list[str], pairs: Pairs, shape: tuple[int, int], seed: int, *, memory: int = 0,
             lag: int = 0, method: str = "exact") -> Told:  # fmt: skip
    """Run the whole stream under *seed*; return the figures reported, and the truth of each."""
    bands, rows = shape
    run = Run.of(bands=bands, rows=rows, threshold=THRESHOLD, seed=seed + 1, method=method)
    quality = Quality()
    quality.exact = method == "exact"
    audit = Audit(Rates(ARRIVALS), run.policy, run.index, run.sketcher.keys_of)
    decisions: list[Decision] = []
    horizon = np.zeros(len(texts), np.int64)
    for batch in batches(texts, BATCH):
        sketches, judgement, first = run.step(batch)
        horizon[first : first + len(batch)] = since = run.index.progress.horizon
        _forget(run, memory)
        decisions += judgement.decisions
        given = np.full(len(batch), since)
        audit.batch(sketches, judgement, first_ordinal=first, since=given)
        if first >= lag:
            _looked(audit, quality)
    _looked(audit, quality)
    window, truth = quality.window(), Truth.of(pairs, decisions, horizon)
    told: Told = [
        ("audit_recall", window.recall(), truth.recall()),
        ("audit_recall_equal", window.recall_equal(), 1.0),
        ("audit_precision", window.precision(), truth.precision()),
    ]
    for row in window.by_similarity():
        place = round(row["from"] * BINS)
        told.append(("recall by similarity", _figure(row["recall"]), truth.recall_in(place)))
    for row in window.reliability():
        told.append(("reliability", _figure(row), truth.wrong_in(DOUBTS.index(row["up_to"]))))
    return told


def _figure(told: dict[str, Any]) -> Figure:
    return Figure(told["value"], told["lower"], told["upper"], told["why"])


def _forget(run: Run, memory: int) -> None:
    """Forget what is older than *memory* ordinals; a window holds a batch."""
    if memory:
        index, ends = run.index, run.index.progress
        newest = index.windows[-1].number
        opens = Window(newest + 1, ends.next_ordinal, ends.next_batch)
        horizon = max(0, ends.next_ordinal - memory)
        index.apply(Changes(replace(ends, horizon=horizon), opens=opens))


def _looked(audit: Audit, quality: Quality) -> None:
    while audit.waiting:
        found = audit.look()
        if found is not None:
            quality.audited(found)


@dataclass(frozen=True)
class Truth:
    """What a comparison of all with all says of a run."""

    near: np.ndarray
    """(n,) who was withheld as a near-duplicate,"""
    unique: np.ndarray
    """(n,) and who was forwarded."""
    best: np.ndarray
    """(n,) similarity to the best original that was forwarded and is remembered; 0: none."""
    doubts: np.ndarray
    """(n,) range of the probability of being wrong that the verdict reported."""
    wrong: np.ndarray
    """(n,) whether the match that the evidence names is not similar."""

    @classmethod
    def of(cls, pairs: Pairs, decisions: list[Decision], horizon: np.ndarray) -> Truth:
        unique = np.array([d.verdict is Verdict.UNIQUE for d in decisions])
        seen = unique[pairs.earlier] & (pairs.earlier >= horizon[pairs.later])
        best = np.zeros(len(decisions))
        np.maximum.at(best, pairs.later[seen], pairs.similarity[seen])
        similar = set(zip(pairs.later.tolist(), pairs.earlier.tolist(), strict=True))
        named = [d.match.ordinal if d.match else -1 for d in decisions]
        return cls(
            np.array([d.verdict is Verdict.NEAR_DUPLICATE for d in decisions]), unique, best,
            doubts_of(np.array([d.p_false_positive for d in decisions])),
            np.array([pair not in similar for pair in enumerate(named)]),
        )  # fmt: skip

    def recall(self) -> float:
        return self._recall(self.best > 0)

    def recall_in(self, place: int) -> float:
        return self._recall((self.best > 0) & (bins_of(self.best) == place))

    def _recall(self, among: np.ndarray) -> float:
        return self._share(self.near & among, (self.near | self.unique) & among)

    def precision(self) -> float:
        return self._share(self.near & (self.best > 0), self.near)

    def wrong_in(self, place: int) -> float:
        told = self.near & (self.doubts == place)
        return self._share(told & self.wrong, told)

    @staticmethod
    def _share(these: np.ndarray, of: np.ndarray) -> float:
        return int(these.sum()) / max(int(of.sum()), 1)


def holds(figure: Figure, truth: float) -> bool:
    """Return whether a figure is right about the truth, as far as it claims anything."""
    low = figure.lower is None or figure.lower <= truth + 1e-9
    return low and (figure.upper is None or truth <= figure.upper + 1e-9)


def row(stream: str, shape: str, runs: int) -> dict[str, object]:
    """Return how often each figure of one stream and shape held the truth, and how wide it is."""
    name, _, trouble = stream.partition(", ")
    texts = (MADE | REAL)[name]()
    found: dict[str, list[tuple[Figure, float]]] = defaultdict(list)
    more, begun = TROUBLES[trouble] if trouble else {}, time.process_time()
    method = str(more.get("method", "exact"))
    pairs = Pairs.of(Run.of(bands=16, rows=6, threshold=THRESHOLD, seed=1, method=method), texts)
    for seed in range(runs):
        for each, figure, truth in measured(texts, pairs, SHAPES[shape], seed, **more):
            found[each].append((figure, truth))
    return {"stream": stream, "shape": shape, "runs": runs,
            "seconds": round(time.process_time() - begun),
            "figures": {each: _summary(one) for each, one in found.items()}}  # fmt: skip


def _summary(found: list[tuple[Figure, float]]) -> dict[str, object]:
    widths = [f.upper - f.lower for f, _ in found if f.upper is not None and f.lower is not None]
    bias = [f.value - truth for f, truth in found if f.value is not None]
    says = [figure.says for figure, _ in found]
    return {
        "holds": round(float(np.mean([holds(*each) for each in found])), 3),
        "figures": len(found),
        "says": {word: says.count(word) for word in sorted(set(says))},
        "truth": round(float(np.mean([truth for _, truth in found])), 4),
        "bias": round(float(np.mean(bias)), 4) if bias else None,
        "width": round(float(np.mean(widths)), 4) if widths else None,
    }


TROUBLES = {
    "short memory": {"memory": SHORT_MEMORY},
    "short memory, late": {"memory": SHORT_MEMORY, "lag": 500},
    "by signatures": {"method": "signature"},
    "by sketch": {"method": "sketch"},
}
STREAMS = (*REAL, *MADE, "news, short memory", "bursts, short memory, late",
           "commits, by signatures", "clusters, by signatures",
           "commits, by sketch", "clusters, by sketch")  # fmt: skip
