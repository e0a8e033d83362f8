"""Search: the near-duplicates of one document among those that an index remembers.

The filter asks whether a document may pass; here the question is who is like it. So every
candidate is compared, none is cut off by ``max_candidates``, and each says how it fared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from streamfilter.index.protocol import Buckets, Documents, Progress
from streamfilter.matching.candidates import Candidates, collect
from streamfilter.matching.decision import Finding, Outcome
from streamfilter.matching.policy import MatchPolicy
from streamfilter.matching.verification import Verifier
from streamfilter.similarity.columns import I64, U8, U64, Contents, Flags, distinct
from streamfilter.similarity.sketch import Sketches


class Readable(Protocol):
    """The reading half of an index."""

    @property
    def bucket_cap(self) -> int:
        """Return how many ordinals a bucket lists before it turns newcomers away."""

    def probe(
        self, keys: U64, present: Flags | None = None, signatures: U8 | None = None
    ) -> Buckets:
        """Return the buckets of *keys*, and with *signatures* what full ones turned away."""

    def fetch(self, ordinals: I64) -> Documents:
        """Return the documents under *ordinals*."""

    @property
    def progress(self) -> Progress:
        """Return how far the index has come, and what it has forgotten."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One earlier document that shares a key with what was asked for, and what became of it."""

    ordinal: int
    id: str
    partition: int
    offset: int
    finding: Finding
    bands: int
    """Band keys that the two share."""
    shared: tuple[int, ...] = ()
    """Which ones, from 0; of a search nobody asks."""

    @property
    def confirmed(self) -> bool:
        """Return whether it is a match."""
        return self.finding.confirmed


BEHIND_ALL = 1 << 62
"""An ordinal behind every stored document: none of them is of the asker's own batch."""


def candidates_of(index: Readable, sketches: Sketches) -> Candidates:
    """Return the remembered documents that share a key with each row of *sketches*.

    Whatever the policy makes of short texts: a search finds equal ones.
    """
    keys = sketches.keys
    buckets = index.probe(keys, sketches.keys_that_count(short=True), sketches.contents.signatures)
    found = collect(buckets.levels, columns=keys.shape[1])
    return found.where(found.ordinals >= index.progress.horizon)


def compared(
    contents: Contents, candidates: Candidates, stored: Documents, *, policy: MatchPolicy
) -> Outcome:
    """Compare each of the *candidates* that *stored* (rising ordinals) still holds."""
    verifier = Verifier(stored, contents, policy, first_ordinal=BEHIND_ALL)
    return verifier.verify(candidates, every=True)


def search(index: Readable, sketches: Sketches, *, policy: MatchPolicy) -> list[list[Candidate]]:
    """Return for each row its candidates: most similar first, then the oldest."""
    candidates = candidates_of(index, sketches)
    stored = index.fetch(distinct(candidates.ordinals))
    outcome = compared(sketches.contents, candidates, stored, policy=policy)
    found: list[list[Candidate]] = [[] for _ in range(len(sketches))]
    order = np.lexsort((candidates.ordinals, -outcome.similarity, candidates.rows))
    for pair in order.tolist():
        if not outcome.missing[pair]:
            found[candidates.rows[pair]].append(candidate_of(outcome, pair, stored))
    return found


def candidate_of(
    outcome: Outcome, pair: int, stored: Documents, shared: tuple[int, ...] = ()
) -> Candidate:
    """Return the candidate of one *pair*, which *stored* (rising ordinals) still holds."""
    ordinal = int(outcome.candidates.ordinals[pair])
    row = int(np.searchsorted(stored.ordinals, ordinal))
    return Candidate(
        ordinal=ordinal,
        id=stored.ids[row],
        partition=int(stored.partitions[row]),
        offset=int(stored.offsets[row]),
        finding=outcome.finding(pair),
        bands=int(outcome.candidates.bands[pair]),
        shared=shared,
    )
