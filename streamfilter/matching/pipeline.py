"""Sketch, match, decide: one micro-batch at a time, with the outcome of one document at a time.

The pipeline reads an index, changes nothing, and returns values. It writes no logs or metrics and
reads no clock. It does not depend on Kafka: `streamfilter filter` runs it on files.

A micro-batch is judged in rounds, as columns. Each round judges all undecided documents at once,
against the index and against the batch's earlier documents that are guessed to be unique. The
first guess is that none is. A verdict stands if all guesses that it depends on were right. The
other documents go to the next round, with the better guess.

Example: two documents of a batch have the same text. In round one both look unique. The first
verdict stands, and the second does not, because it depends on the first. Round two has the first
document as a candidate, and the second one is a duplicate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.entities.held_out import pools_of
from streamfilter.index.protocol import Additions, Buckets, Documents, Index
from streamfilter.matching.blocking.candidates import collect
from streamfilter.matching.blocking.forgetting import NEVER, NO_TOMBSTONES, Forgetting
from streamfilter.matching.blocking.overlay import Overlay
from streamfilter.matching.blocking.retention import EVERYTHING, Extent
from streamfilter.matching.blocking.visibility import SharedNames
from streamfilter.matching.lookup import Lookup, lookup
from streamfilter.matching.verdict.counts import Counts
from streamfilter.matching.verdict.decision import (
    SAME_FIELD,
    SAME_ID,
    SHORT,
    UNIQUE,
    Outcome,
    decide,
)
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.matching.verdict.verification import Verifier
from streamfilter.model import BatchMark, Decision, Match, Positions, Record, Source, Verdict
from streamfilter.similarity.columns import I64, Contents, Flags
from streamfilter.similarity.sketch import Sketches

__all__ = ["Accepted", "Batch", "Judgement", "MatchPolicy", "accept", "decide", "judge"]


Locate = Callable[[int, int], Source]
"""(partition, offset) as the index numbers them → the source with its topic."""

STORED = -1  # stands for a document of the index, in place of a row

WIDTH_MIN, WIDTH_GROWTH = 64, 4
"""From its third round on a batch judges at least 64 rows a round, or 4 times the number that the
last round settled. Nearly always that is all rows. Texts of one template, or windows that slide
over one text, depend on each other in a chain. Judging all of those in each round would take time
that grows with the square of the batch."""


class Accepted(Struct, frozen=True):
    """The records of a batch, split into new ones and ones that were judged before."""

    new: list[Record]
    reread: list[Record]


class Batch(Struct, frozen=True):
    """The documents of one micro-batch in the order of judgement (partition, offset)."""

    ids: Sequence[str]
    partitions: I64
    offsets: I64
    timestamps: I64  # milliseconds since the epoch; -1 when unknown

    def documents(self, contents: Contents, *, number: int, first_ordinal: int) -> Documents:
        """Return the documents as an index stores them, as part of batch *number*."""
        n = len(self.ids)
        return Documents(
            ordinals=np.arange(first_ordinal, first_ordinal + n),
            ids=self.ids,
            batches=np.full(n, number, np.int64),
            partitions=self.partitions,
            offsets=self.offsets,
            timestamps=self.timestamps,
            contents=contents,
        )


class Judgement(Struct, frozen=True):
    """The outcome of a micro-batch: a decision per document, and what the index should add."""

    decisions: list[Decision]
    additions: Additions | None
    counts: Counts
    unique: Flags  # (n,) with those that the batch itself forgets


def accept(next_positions: Positions, records: Sequence[Record]) -> Accepted:
    """Split *records*: those at or after their partition's next position are new.

    The result depends on the arguments alone, so it is the same live and in replay. All records of
    a partition without a position are new.
    """
    new: list[Record] = []
    reread: list[Record] = []
    for record in records:
        known = next_positions.get(record.source.number, 0)
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
    trusted: bool = False,
) -> Judgement:
    """Decide every document of *batch* as if they had arrived one at a time.

    ``as_of`` is None for new documents (document i gets ordinal ``first_ordinal + i``). For a
    re-read batch it is ``index.marks_covering(batch.partitions, batch.offsets)``. Each document
    then has only candidates with a smaller place (batch, partition, offset) that were remembered
    when its batch was judged. Nothing is added to the index.

    New documents are judged with *extent* and *forgetting*. A forgotten document is no candidate,
    and takes no place among those compared. If a tombstone frees a place that another document of
    the batch needs, `CutBatch` is raised. *trusted* documents are unique, whatever they match.
    """
    ours = batch.documents(sketches.contents, number=number, first_ordinal=first_ordinal)
    found = lookup(
        index,
        ours,
        sketches,
        policy,
        first_ordinal=first_ordinal,
        as_of=as_of,
        extent=extent,
        forgetting=forgetting,
    )
    return settle(
        ours, sketches, found, policy, locate=locate, first_ordinal=first_ordinal, trusted=trusted
    )


def settle(
    ours: Documents,
    sketches: Sketches,
    found: Lookup,
    policy: MatchPolicy,
    *,
    locate: Locate,
    first_ordinal: int,
    trusted: bool = False,
) -> Judgement:
    """Decide every document of *ours* from what was *found*, as `judge` does."""
    rounds = _Rounds(ours, sketches, found, policy, locate, first_ordinal)
    if trusted:
        rounds.trust()
    return rounds.judgement()


class _Rounds:
    """The verdicts of one micro-batch while its rounds go on."""

    def __init__(
        self,
        ours: Documents,
        sketches: Sketches,
        found: Lookup,
        policy: MatchPolicy,
        locate: Locate,
        first_ordinal: int,
    ) -> None:
        self._ours, self._sketches, self._found = ours, sketches, found
        self._least_set = policy.least_set
        self._locate, self._first, self._stored = locate, first_ordinal, found.stored
        self._verifier = Verifier(found.stored, ours.contents, policy, first_ordinal, found.limited)
        present, buckets, cap = found.present, found.buckets, found.bucket_cap
        self._probed: Buckets | None = buckets  # None: the write must read the buckets itself
        shared = present if found.new else np.zeros_like(present)
        self._overlay = Overlay(
            sketches.keys,
            shared,
            ours.contents.splitters,
            buckets,
            cap=cap,
            forgetting=found.visible.forgetting,
            kept=found.kept,
        )
        judged: Flags = np.asarray(present.any(axis=1))
        self._undecided = judged
        self._shared_names: SharedNames | None = None
        self._unique = np.zeros(len(ours), np.bool_)  # (n,) of unsettled rows a guess
        self._met, self._left_out = np.zeros((2, len(ours)), np.int64)
        """(n,) counts of `Asked`, for settled rows."""
        self._too_old = found.too_old.copy()
        """(n,) candidates that are too old to match; those of the batch for settled rows."""
        short = SHORT.get(policy.short_text, UNIQUE)
        self._decisions = [UNIQUE if each else short for each in judged.tolist()]
        self._remembers: Flags = judged | found.kept
        """(n,) rows that are remembered if nothing makes them duplicates."""
        self._by_id = policy.by_id
        if found.same_name is not None:
            self._take_known_names(found.same_name)
        self._outcomes: list[tuple[Outcome, Flags]] = []
        self._alike: defaultdict[int, set[int]] = defaultdict(set)
        """Undecided row → the earlier rows that match it; `STORED` for documents of the index."""
        self._copied: dict[int, int] = {}
        """Undecided row → an earlier row with the same text: what that one matches, it does."""
        self._withheld = np.zeros(len(ours), np.bool_)  # (n,) settled duplicates by their text

    def trust(self) -> None:
        """Decide all rows: those that can be remembered are unique. A known name stays one."""
        self._unique, self._undecided = self._remembers.copy(), np.zeros(len(self._ours), np.bool_)
        # The buckets of a row whose text is known were not probed: it was a duplicate so far.
        self._probed = None

    def _take_known_names(self, same_name: I64) -> None:
        """Decide the rows with a name that the index knows; others may share one in the batch."""
        known = np.flatnonzero(same_name >= 0)
        self._decide_by_name(known, same_name[known])
        self._undecided = same_name < 0
        if self._found.new:
            names, visible = self._found.names, self._found.visible
            self._shared_names = SharedNames(names, visible, first_ordinal=self._first)

    def _decide_by_name(self, rows: I64, ordinals: I64) -> None:
        for row, ordinal, (id_, source) in zip(
            rows.tolist(), ordinals.tolist(), self._describe(ordinals), strict=True
        ):
            same_id = self._by_id and id_ and id_ == self._ours.ids[row]
            method = SAME_ID if same_id else SAME_FIELD
            match = Match(id_, 1.0, 0, source, ordinal)
            self._decisions[row] = Decision(Verdict.EXACT_DUPLICATE, (match,), method)

    def judgement(self) -> Judgement:
        """Judge until all rows are settled; return decisions and what the index should add."""
        # The first round guesses that no row is unique, so no row has candidates in the batch. The
        # second judges all rows that are left. Later rounds judge few rows, with a better guess.
        n = width = len(self._undecided)
        for number in count():
            if not self._undecided.any():
                break
            looked = self._undecided & (np.cumsum(self._undecided) <= width)
            if number >= 2:
                self._guess(looked)
            settled = self.round(looked)
            width = n if not number else max(WIDTH_MIN, WIDTH_GROWTH * settled)
        found, forgetting = self._found, self._found.visible.forgetting
        if (end := self._overlay.cut(self._unique)) < NEVER:
            forgetting.end_before(end)
        rows = np.flatnonzero(self._unique & ~forgetting.rows_of(n))
        held_out = pools_of(
            self._decisions, self._ours.contents.payloads, found.stored, self._first, found.partners
        )
        return Judgement(
            self._decisions,
            self._additions(rows) if found.new and rows.size else None,
            Counts.of(
                self._decisions,
                self._outcomes,
                self._verifier.shortlist,
                held_out,
                met=self._met,
                left_out=self._left_out,
                too_old=self._too_old,
                left=self._sketches.left,
            ),
            self._unique,
        )

    def _additions(self, rows: I64) -> Additions:
        """Return what is remembered of *rows*. A record of too few fields is listed for no band."""
        everything = Additions(self._ours, self._sketches.keys, self._probed)
        added = everything.at(rows)
        documents = added.documents
        sizes = documents.contents.set_sizes
        few = (sizes > 0) & (sizes < self._least_set)
        if not few.any():
            return added
        contents = documents.contents.unsigned(few)
        return replace(added, documents=replace(documents, contents=contents))

    def round(self, undecided: Flags) -> int:
        """Judge the *undecided* rows, keep the verdicts that stand, and return their number."""
        met = self._overlay.levels(self._unique, undecided, first_ordinal=self._first)
        visible, listed = self._found.visible, collect(met, columns=self._sketches.keys.shape[1])
        too_old, own = visible.too_old(listed), visible.among(listed)
        asked, outcomes = self._verifier.round(undecided, own)
        unique = undecided.copy()
        for outcome in outcomes:
            unique[outcome.candidates.rows[outcome.confirmed]] = False
        earlier = None
        unique &= self._remembers
        if self._shared_names is not None:
            earlier = self._shared_names.earlier(self._unique)
            unique[earlier >= 0] = False
        settled = undecided & ~self._unsettled(undecided & (unique != self._unique), undecided)
        self._met[settled], self._left_out[settled] = asked.met[settled], asked.left_out[settled]
        self._too_old[settled] += too_old[settled]
        self._unique = np.where(undecided, unique, self._unique)
        self._undecided = self._undecided & ~settled
        by_text = settled
        if earlier is not None:
            by_text = settled & (earlier < 0)
            rows = np.flatnonzero(settled & (earlier >= 0))
            self._decide_by_name(rows, earlier[rows] + self._first)
        self._withheld |= by_text & ~unique
        for outcome in outcomes:
            stands, skipped = by_text[outcome.candidates.rows], asked.left_out > 0
            for row, decision in decide(outcome, stands, describe=self._describe, skipped=skipped):
                self._decisions[row] = decision
            self._outcomes.append((outcome, stands))
            self._note(outcome)
        return int(settled.sum())

    def _unsettled(self, changed: Flags, undecided: Flags) -> Flags:
        """Return which *undecided* rows may still change, if the guess was wrong for *changed*."""
        unsettled = self._overlay.unsettled(changed, undecided)
        while self._shared_names is not None:
            behind = self._shared_names.behind(changed | unsettled) & undecided & ~unsettled
            if not behind.any():
                break
            unsettled |= behind
            unsettled |= self._overlay.unsettled(changed | unsettled, undecided)
        return unsettled

    def _note(self, outcome: Outcome) -> None:
        """Keep the matches of undecided rows: earlier rows, or a stored document."""
        pairs = outcome.candidates
        chosen = np.flatnonzero(outcome.confirmed & self._undecided[pairs.rows])
        others = pairs.ordinals[chosen] - self._first
        copies = pairs.same_text[chosen] & (others >= 0)
        self._copied.update(
            zip(pairs.rows[chosen[copies]].tolist(), others[copies].tolist(), strict=True)
        )
        for row, other in zip(pairs.rows[chosen].tolist(), others.tolist(), strict=True):
            self._alike[row].add(max(other, STORED))

    def _guess(self, asked: Flags) -> None:
        """Guess which of the *asked* rows are unique, from all matches that are known.

        The first `WIDTH_MIN` of them are compared with each other for this, whether unique or not.
        So a round settles all of these, even if each depends on the one before it. The exception
        is a pair that a full bucket or ``max_candidates`` leaves out.
        """
        block = asked & (np.cumsum(asked) <= WIDTH_MIN)
        levels = self._overlay.levels(self._unique | block, block, first_ordinal=self._first)
        met = self._found.visible.among(collect(levels, columns=self._sketches.keys.shape[1]))
        self._note(self._verifier.verify(met, most=len(met)))
        unique = self._unique.tolist()
        unique.append(True)  # at index STORED: documents of the index are unique
        judged, remembers = asked.tolist(), self._remembers.tolist()
        withheld = set(np.flatnonzero(self._withheld).tolist())  # by their text: so are copies

        def comes_out(row: int) -> bool:
            if not judged[row]:
                return bool(unique[row])
            found = self._copied.get(row) in withheld or any(
                map(unique.__getitem__, self._alike[row])
            )
            if found:
                withheld.add(row)
            return remembers[row] and not found

        if self._shared_names is not None:
            self._shared_names.walk(unique, comes_out)
        else:
            for row in np.flatnonzero(asked).tolist():
                unique[row] = comes_out(row)
        self._unique = np.array(unique[:STORED], np.bool_)

    def _describe(self, ordinals: I64) -> list[tuple[str, Source]]:
        rows = ordinals - self._first
        own = rows >= 0
        places = np.searchsorted(self._stored.ordinals, ordinals[~own])
        ours = iter(described(self._ours, rows[own], self._locate))
        stored = iter(described(self._stored, places, self._locate))
        return [next(ours if each else stored) for each in own.tolist()]


def described(documents: Documents, rows: I64, locate: Locate) -> list[tuple[str, Source]]:
    places = map(locate, documents.partitions[rows].tolist(), documents.offsets[rows].tolist())
    return list(zip((documents.ids[row] for row in rows.tolist()), places, strict=True))
