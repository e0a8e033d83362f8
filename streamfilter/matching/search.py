"""Search: the near-duplicates of one document among those that an index remembers.

The filter asks whether a document may pass; here the question is who is like it. So every
candidate is compared, none is cut off by ``max_candidates``, and each says how it fared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamfilter.index.buckets import copies
from streamfilter.index.levels import Level
from streamfilter.index.protocol import Documents, Meets, Readable
from streamfilter.matching.candidates import Candidates, collect
from streamfilter.matching.decision import Finding, Outcome
from streamfilter.matching.policy import MatchPolicy
from streamfilter.matching.verification import Verifier
from streamfilter.similarity.columns import I64, Contents, Flags, distinct
from streamfilter.similarity.sketch import Sketches


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


def met_in(
    index: Readable, sketches: Sketches, meets: Meets, *, short: bool = True
) -> tuple[Level, ...]:
    """Return the lists that name what each row of *sketches* shares a key with, or its text.

    Of documents that it does not *meet* those lists may name some, too.

    Args:
        index: where to look.
        sketches: of what is asked for.
        meets: which documents each row may meet.
        short: whether texts are looked for that are shorter than one shingle.
    """
    keys, contents = sketches.keys, sketches.contents
    present = sketches.keys_that_count(short=short)
    buckets = index.probe(keys, present, contents.signatures)
    found = copies(index, keys[:, -1], present[:, -1], contents.fingerprints, meets)
    return buckets.levels_beside(found)


def candidates_of(index: Readable, sketches: Sketches, *, but_for: I64 | None = None) -> Candidates:
    """Return the remembered documents that share a key, or the text, with each row of *sketches*.

    Whatever the policy makes of short texts: a search finds equal ones.

    Args:
        index: where to look.
        sketches: of what is asked for.
        but_for: (n,) the ordinal of each row's own document.
    """

    def meets(rows: I64, ordinals: I64) -> Flags:
        met: Flags = ordinals >= index.progress.horizon
        return met if but_for is None else met & (ordinals != but_for[rows])

    found = collect(met_in(index, sketches, meets), columns=sketches.keys.shape[1])
    return found.where(meets(found.rows, found.ordinals))


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
