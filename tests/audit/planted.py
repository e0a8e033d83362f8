"""Streams with planted near-duplicates, judged by the real pipeline on an index in memory."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from streamfilter.index.memory import MemoryIndex
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes, Documents, Index
from streamfilter.matching.blocking.retention import Extent
from streamfilter.matching.pipeline import Batch, Judgement, judge
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Source
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher, Sketches

WORDS = 60


def fresh(chooser: random.Random) -> str:
    return " ".join(f"w{chooser.getrandbits(40):x}" for _ in range(WORDS))


def with_changed_end(text: str, chooser: random.Random, words: int) -> str:
    """Change the last *words*: of 58 shingles, 58 - words stay, in a union of 58 + words."""
    end = " ".join(f"x{chooser.getrandbits(40):x}" for _ in range(words))
    return " ".join(text.split()[:-words]) + " " + end


@dataclass
class Run:
    """One index and what judges against it."""

    sketcher: Sketcher
    index: Index
    policy: MatchPolicy

    @classmethod
    def of(cls, *, bands: int, rows: int, threshold: float, seed: int, cap: int = 8,
           method: str = "exact", most: int = 128) -> "Run":  # fmt: skip
        sketcher = Sketcher(Scheme(bands, rows), seed=seed.to_bytes(16, "big"))
        index = MemoryIndex(sketcher.scheme.widths, bucket_cap=cap)
        return cls(
            sketcher,
            index,
            MatchPolicy(
                threshold=threshold, method=method, max_candidates=min(most, 8), max_estimated=most
            ),
        )

    def step(self, texts: list[str], values: Sequence = ()) -> tuple[Sketches, Judgement, int]:
        """Judge and write one batch; return its sketches, judgement and first ordinal."""
        before = self.index.progress
        first, number = before.next_ordinal, before.next_batch
        n = len(texts)
        ids = [str(first + i) for i in range(n)]
        none = np.zeros(n, np.int64)
        batch = Batch(ids, none, np.arange(first, first + n), none - 1)
        sketches = self.sketcher.sketch(texts, values)
        judgement = judge(
            batch, sketches, index=self.index, policy=self.policy, number=number,
            first_ordinal=first, extent=Extent(before.horizon),
            locate=lambda partition, offset: Source("t", partition, offset),
        )  # fmt: skip
        progress = Progress(positions={0: first + n}, next_batch=number + 1,
                            next_ordinal=first + n, horizon=before.horizon)  # fmt: skip
        self.index.apply(Changes(progress, judgement.additions))
        return sketches, judgement, first

    def documents(self) -> Documents:
        return self.index.fetch(np.arange(self.index.progress.next_ordinal))


def batches(texts: list[str], size: int) -> Iterator[list[str]]:
    for begin in range(0, len(texts), size):
        yield texts[begin : begin + size]
