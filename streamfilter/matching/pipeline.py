"""Sketch, match, decide: one micro-batch at a time, with the outcome of one document at a time.

The pipeline reads an index, changes nothing, and returns values; it neither logs nor measures
nor reads a clock. It would be true with Kafka replaced by a text file, and `streamfilter
filter` is exactly that. Whole micro-batches are judged as columns: every undecided document is
judged at once against the index and the batch's earlier documents, those of them that are
guessed to be unique; a verdict stands when all that it depends on came out as guessed, and the
others take another round with the better guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfilter.entities.held_out import NO_POOLS, HeldOut, pools_of
from streamfilter.index.protocol import Additions, Buckets, Documents, Index
from streamfilter.index.selection import buckets_at
from streamfilter.matching.candidates import Candidates, collect, meetings, merge
from streamfilter.matching.crowds import Crowd
from streamfilter.matching.decision import SHORT, UNIQUE, decide, keys_that_count
from streamfilter.matching.forgetting import NO_TOMBSTONES, Forgetting
from streamfilter.matching.overlay import Overlay
from streamfilter.matching.retention import EVERYTHING, Extent
from streamfilter.matching.verification import MatchPolicy, Outcome, Verifier
from streamfilter.model import (
    BatchMark,
    Decision,
    Positions,
    Record,
    Source,
    Verdict,
)
from streamfilter.similarity.columns import I64, Flags, distinct
from streamfilter.similarity.sketch import Sketches

__all__ = ["Accepted", "Batch", "Counts", "Judgement", "MatchPolicy", "accept", "decide", "judge"]


Locate = Callable[[int, int], Source]
"""(partition, offset) as the index numbers them → the source a person knows."""

WIDTH_MIN, WIDTH_GROWTH = 64, 4
"""A round looks at this many rows, or at so many times what the last one settled. Nearly always
that is all. Texts made from one template depend on each other in a chain, and looking at all of
them every time would cost the square of the batch."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The records of a batch, split by whether their position was judged before."""

    new: list[Record]
    reread: list[Record]


@dataclass(frozen=True, slots=True)
class Batch:
    """The documents of one micro-batch in the order of judgement (partition, offset)."""

    ids: Sequence[str]
    partitions: I64
    offsets: I64
    timestamps: I64
    """Milliseconds since the epoch; -1 when unknown."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What happened while judging, for the metrics."""

    candidates: I64
    """(n,) distinct candidates of each document."""
    confirmed: NDArray[np.float64]
    """Similarities of the verified pairs that reached the threshold."""
    rejected: NDArray[np.float64]
    """Similarities of those that did not: the false positives of the LSH step."""
    skipped: int = 0
    """Candidates beyond ``max_candidates``, and those that were outnumbered (`crowds`)."""
    missing: int = 0
    """Candidates whose record the index no longer has."""
    held_out: HeldOut = NO_POOLS
    """Of records: differences of the field that took no part."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of a micro-batch: a decision per document, and what the index should add."""

    decisions: list[Decision]
    additions: Additions | None
    counts: Counts
    unique: Flags
    """(n,) whom later documents meet: ``additions``, and who was forgotten within the batch."""


def accept(next_positions: Positions, records: Sequence[Record]) -> Accepted:
    """Split *records* by position: at or after their partition's next position is new.

    Pure, and the same live and in replay. A partition without a position is all new.
    """
    new: list[Record] = []
    reread: list[Record] = []
    for record in records:
        known = next_positions.get(record.source.partition, 0)
        (new if record.source.offset >= known else reread).append(record)
    return Accepted(new, reread)


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
    extent: Extent = EVERYTHING,
    forgetting: Forgetting = NO_TOMBSTONES,
) -> Judgement:
    """Decide every document of *batch* as if they had come one at a time.

    ``as_of`` is None for new documents (document i gets ordinal ``first_ordinal + i``). For a
    re-read batch it is ``index.marks_covering(batch.partitions, batch.offsets)``: each document
    then meets only documents with a smaller place (batch, partition, offset) that were remembered
    when its batch was judged, and nothing is added to the index. New documents are judged with
    *extent* and *forgetting*; what is forgotten is nobody's candidate, and takes no place among
    those compared.
    """
    horizons = _horizons(len(batch.ids), extent, as_of)
    present = keys_that_count(sketches.contents, sketches.keys.shape[1], policy)
    buckets = index.probe(sketches.keys, present, sketches.contents.signatures)
    if extent.opens is not None:
        buckets = buckets.aged()
    met = meetings(buckets.levels, columns=sketches.keys.shape[1])
    if horizons.any():
        met = (part.where(part.ordinals >= horizons[part.rows]) for part in met)
    if len(forgetting.ordinals):
        met = (part.where(forgetting.meets(part)) for part in met)
    if as_of is not None:
        met = (part.where(_earlier(part, index, batch, as_of)) for part in met)
    crowd = Crowd.of(met, documents=len(batch.ids), most=policy.estimated)
    stored = index.fetch(distinct(crowd.candidates.ordinals))
    alone = as_of is not None
    shared = np.zeros_like(present) if alone else present
    signatures, cap = sketches.contents.signatures, index.bucket_cap
    overlay = Overlay(sketches.keys, shared, signatures, buckets, cap=cap)
    undecided: Flags = np.asarray(present.any(axis=1))
    judging = _Judging(
        batch, sketches, stored, crowd, policy, locate, first_ordinal, undecided, forgetting
    )
    judging.leave_short(~undecided, policy)
    width = len(undecided)
    while undecided.any():
        looked = _first(undecided, width)
        settled = looked & ~judging.round(overlay, looked)
        undecided &= ~settled
        width = max(WIDTH_MIN, WIDTH_GROWTH * int(settled.sum()))
    additions = None if alone else judging.additions(buckets, number)
    counts = judging.counts(index, new=not alone)
    return Judgement(judging.decisions, additions, counts, judging.unique)


def _horizons(n: int, extent: Extent, as_of: Sequence[BatchMark | None] | None) -> I64:
    """Return (n,): from which ordinal on each document meets others."""
    if as_of is None:
        return np.full(n, extent.horizon, np.int64)
    return np.array([mark.horizon if mark else 0 for mark in as_of], np.int64)


def _first(undecided: Flags, width: int) -> Flags:
    """Return the first *width* of the *undecided* rows: they depend on no later one."""
    rows = np.flatnonzero(undecided)
    if len(rows) <= width:
        return undecided
    looked = np.zeros_like(undecided)
    looked[rows[:width]] = True
    return looked


def _earlier(
    known: Candidates, index: Index, batch: Batch, as_of: Sequence[BatchMark | None]
) -> Flags:
    """Return which candidates have a smaller place than the re-read document that met them."""
    firsts = np.array([mark.first_ordinal if mark else 0 for mark in as_of], np.int64)
    nexts = np.array([mark.next_ordinal if mark else 0 for mark in as_of], np.int64)
    rows, ordinals = known.rows, known.ordinals
    before = ordinals < firsts[rows]
    same_batch = ~before & (ordinals < nexts[rows])
    if same_batch.any():
        stored = index.fetch(distinct(ordinals[same_batch]))
        at = np.searchsorted(stored.ordinals, ordinals).clip(max=max(len(stored) - 1, 0))
        theirs, ours = stored.partitions[at], batch.partitions[rows]
        smaller = (theirs < ours) | ((theirs == ours) & (stored.offsets[at] < batch.offsets[rows]))
        before |= same_batch & smaller & (stored.ordinals[at] == ordinals)
    return before


class _Judging:
    """The verdicts of one micro-batch while its rounds go on."""

    def __init__(
        self,
        batch: Batch,
        sketches: Sketches,
        stored: Documents,
        crowd: Crowd,
        policy: MatchPolicy,
        locate: Locate,
        first_ordinal: int,
        judged: Flags,
        forgetting: Forgetting,
    ) -> None:
        self.decisions: list[Decision] = [UNIQUE] * len(batch.ids)
        self._batch, self._sketches, self._stored = batch, sketches, stored
        self._verifier = Verifier(stored, sketches.contents, policy, first_ordinal=first_ordinal)
        self._locate, self._first, self._forgetting = locate, first_ordinal, forgetting
        self._crowd = crowd
        self._shortlist = self._verifier.shortlist(crowd.candidates)
        self._known = crowd.candidates.where(self._shortlist.kept)
        self._places = crowd.places[self._shortlist.kept]
        self._unique = judged & ~self._shortlist.likely
        """Right of the rows that are settled, a guess of the others: all that look like nobody."""
        self._met = crowd.met.copy()
        """(n,) candidates of each document; of one that is not settled, those of the index."""
        self._outcomes: list[tuple[Outcome, Flags]] = []

    def leave_short(self, short: Flags, policy: MatchPolicy) -> None:
        """Decide the texts that have nothing to be judged by."""
        for row in np.flatnonzero(short).tolist():
            self.decisions[row] = SHORT[policy.short_text]

    def round(self, overlay: Overlay, undecided: Flags) -> Flags:
        """Judge all *undecided* rows, keep what stands, and return what remains undecided."""
        met = overlay.levels(self._unique, undecided, first_ordinal=self._first)
        own = collect(met, columns=self._sketches.keys.shape[1])
        own = own.where(self._forgetting.meets(own))
        asked = undecided[self._known.rows]
        known, places = self._known.where(asked), self._places[asked]
        theirs, ours = self._crowd.beside(known, places, own)
        outcome = self._verifier.verify(merge(known.where(theirs), own.where(ours)))
        unique = undecided.copy()
        unique[outcome.candidates.rows[outcome.confirmed]] = False
        unsettled = overlay.unsettled(undecided & (unique != self._unique), undecided)
        settled = undecided & ~unsettled
        self._met += np.where(settled, np.bincount(own.rows, minlength=len(settled)), 0)
        self._keep(outcome, settled)
        self._unique = np.where(undecided, unique, self._unique)
        return unsettled

    def _keep(self, outcome: Outcome, settled: Flags) -> None:
        """Turn the settled rows' confirmed pairs into decisions, and remember the counts."""
        stands = settled[outcome.candidates.rows]
        skipped = self._outnumbered()
        for row, decision in decide(outcome, stands, describe=self._describe, skipped=skipped):
            self.decisions[row] = decision
        self._outcomes.append((outcome, stands))

    def _outnumbered(self) -> I64:
        """Return (n,): how many candidates of each document nobody has looked at."""
        return np.maximum(self._met - self._crowd.most, 0)

    def _describe(self, ordinals: I64) -> list[tuple[str, Source]]:
        """Return ids and sources of candidates: stored ones, or of this very batch."""
        rows = ordinals - self._first
        own, places = rows >= 0, np.searchsorted(self._stored.ordinals, ordinals)
        rows = np.where(own, rows, places)
        return [
            described(self._batch if ours else self._stored, row, self._locate)
            for ours, row in zip(own.tolist(), rows.tolist(), strict=True)
        ]

    @property
    def unique(self) -> Flags:
        """Return (n,): whom later documents meet, as is known so far."""
        return self._unique

    def additions(self, buckets: Buckets, number: int) -> Additions | None:
        """Return what the index should add: the unique documents, and the buckets just read."""
        rows = np.flatnonzero(self.unique & ~self._forgetting.rows_of(len(self.unique)))
        if not rows.size:
            return None
        sketches, batch = self._sketches, self._batch
        documents = Documents(
            ordinals=self._first + rows,
            ids=[batch.ids[row] for row in rows.tolist()],
            batches=np.full(len(rows), number, np.int64),
            partitions=batch.partitions[rows],
            offsets=batch.offsets[rows],
            timestamps=batch.timestamps[rows],
            contents=sketches.contents.at(rows),
        )
        return Additions(documents, sketches.keys[rows], buckets_at(buckets, rows))

    def counts(self, index: Index, *, new: bool) -> Counts:
        """Return what happened, counted once for each document."""
        similar = [o.similarity[s & o.confirmed] for o, s in self._outcomes]
        rejected = [o.similarity[s & o.rejected] for o, s in self._outcomes]
        known = self._shortlist
        asked = np.array([each.verdict is not Verdict.EXACT_DUPLICATE for each in self.decisions])
        if len(known.rejected):
            rejected.append(known.rejected[asked[known.rejected_rows]])
        skipped = sum(int((s & o.skipped).sum()) for o, s in self._outcomes)
        return Counts(
            candidates=self._met,
            confirmed=np.concatenate([*similar, np.zeros(0)]),
            rejected=np.concatenate([*rejected, np.zeros(0)]),
            skipped=skipped + int(self._outnumbered().sum(where=asked)),
            missing=sum(int((s & o.missing).sum()) for o, s in self._outcomes),
            held_out=pools_of(
                self.decisions,
                self._sketches.contents.payloads,
                self._stored,
                index,
                self._first,
                new=new,
            ),
        )


def described(documents: Batch | Documents, row: int, locate: Locate) -> tuple[str, Source]:
    """Return id and source of one document."""
    source = locate(int(documents.partitions[row]), int(documents.offsets[row]))
    return documents.ids[row], source
