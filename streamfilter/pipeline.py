"""Sketch, match, decide: one micro-batch at a time, in the order of judgement.

(Interface first; the body follows.) The pipeline reads an index, changes nothing, and returns values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfilter.index.protocol import Additions, Index
from streamfilter.model import BatchMark, Decision, Positions, Record, Source
from streamfilter.similarity.sketch import Sketches

Locate = Callable[[int, int], Source]
"""(partition, offset) as the index numbers them → the source a person knows."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The records of a batch, split by whether their position was judged before."""

    new: list[Record]
    reread: list[Record]


@dataclass(frozen=True, slots=True)
class MatchPolicy:
    """What counts as a duplicate."""

    threshold: float = 0.8
    method: str = "exact"
    """``exact`` (sets) or ``signature``."""
    max_candidates: int = 8
    short_text: str = "exact_only"
    """A text shorter than one shingle: ``exact_only``, ``forward`` (unjudged) or ``drop``."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The documents of one micro-batch in the order of judgement (partition, offset)."""

    ids: Sequence[str]
    partitions: NDArray[np.int64]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened while judging, for the metrics."""

    candidates: NDArray[np.int64]
    """(n,) distinct candidates of each document."""
    confirmed: NDArray[np.float64]
    """Similarities of the verified pairs that passed the threshold."""
    rejected: NDArray[np.float64]
    """Similarities of those that did not: the false positives of the LSH step."""
    skipped: int = 0
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of a micro-batch: a decision per document, and what the index should add."""

    decisions: list[Decision]
    additions: Additions | None
    counts: Counts


def accept(next_positions: Positions, records: Sequence[Record]) -> Accepted:
    """Split *records* (sorted by partition, offset): at or after the next position is new."""
    raise NotImplementedError


def judge(
    batch: Batch,
    sketches: Sketches,
    *,
    index: Index,
    policy: MatchPolicy,
    locate: Locate,
    number: int,
    first_ordinal: int,
    as_of: Sequence[BatchMark | None] | None = None,
) -> Judgement:
    """Decide every document of *batch* as if they had come one at a time.

    ``as_of`` is None for new documents (document i gets ordinal ``first_ordinal + i``). For a
    re-read batch it is ``index.marks_covering(batch.partitions, batch.offsets)``: each document
    then meets only documents with a smaller place (batch, partition, offset), and nothing is added.
    """
    raise NotImplementedError
