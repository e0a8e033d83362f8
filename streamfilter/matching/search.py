"""Search: the near-duplicates of one document among those that an index remembers.

The filter decides whether a document passes; a search lists the documents similar to it. So every
candidate is compared, ``max_candidates`` does not apply, and each candidate has its result.
"""

from __future__ import annotations

from math import isnan

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.entities.scoring import field_points
from streamfilter.index.bands.buckets import copies
from streamfilter.index.bucket_levels import Level
from streamfilter.index.format import values_of
from streamfilter.index.protocol import Documents, Meets, Readable
from streamfilter.matching.blocking.candidates import NO_CANDIDATES, Candidates, collect, merged
from streamfilter.matching.verdict.decision import Fate, Finding, Outcome
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.matching.verdict.verification import Verifier
from streamfilter.similarity.columns import I64, Contents, Flags, distinct
from streamfilter.similarity.sketch import Sketches


class Candidate(Struct, frozen=True):
    """One earlier document that shares a key with the document searched for, and its result."""

    ordinal: int
    id: str
    partition: int
    offset: int
    finding: Finding
    bands: int  # number of band keys that the two share
    shared: tuple[int, ...] = ()  # numbers of these bands, from 0; empty in a search
    points: tuple[float | None, ...] = ()  # of each field of a record; None: absent

    @property
    def confirmed(self) -> bool:
        return self.finding.confirmed


BEHIND_ALL = 1 << 62  # an ordinal behind every stored document: no candidate is of the batch itself


NAMED_MAX = 255  # as many documents as the bucket of a longer key lists


def met_in(
    index: Readable, sketches: Sketches, meets: Meets, *, short: bool = True, least: int = 1
) -> tuple[Level, ...]:
    """Return the bucket lists under the keys of each row of *sketches*, its text's included.

    *meets* says which documents each row may match. The lists may also hold others; the caller
    removes them. *short* and *least* are those of `Sketches.keys_that_count`.
    """
    keys, contents = sketches.keys, sketches.contents
    present = sketches.keys_that_count(short=short, least=least)
    buckets = index.probe(keys, present, contents.splitters)
    found = copies(index, keys[:, -1], present[:, -1], contents.fingerprints, meets)
    return buckets.levels_beside(found)


def candidates_of(
    index: Readable, sketches: Sketches, *, but_for: I64 | None = None, reach: int = 0
) -> Candidates:
    """Return the remembered documents that share a key, or the text, with each row of *sketches*.

    A search finds equal short texts, whatever the policy's ``short_text`` is. *but_for* (n,) is the
    ordinal of each row's own document, which is left out. *reach* is that of `named_by`.
    """

    def meets(rows: I64, ordinals: I64) -> Flags:
        met: Flags = ordinals >= index.progress.horizon
        return met if but_for is None else met & (ordinals != but_for[rows])

    found = collect(met_in(index, sketches, meets), columns=sketches.keys.shape[1])
    if sketches.contents.also:
        found = merged(found, named_by(index, sketches.contents, reach))
    return found.where(meets(found.rows, found.ordinals))


def named_by(index: Readable, contents: Contents, reach: int = 0) -> Candidates:
    """Return the remembered documents with a value of `verify.also_same` of each row.

    Of each value these are the `NAMED_MAX` oldest, and the oldest from *reach* on: those before may
    all be too old. A thousand records of one address would be half a million pairs.
    """
    if not contents.also:
        return NO_CANDIDATES
    names = values_of(contents)
    known: dict[bytes, set[int]] = {name: set() for each in names for name in each}
    horizon = index.progress.horizon
    for since in {horizon, max(horizon, reach)}:
        for name, ordinals in zip(known, index.named([*known], NAMED_MAX, since), strict=True):
            known[name].update(ordinals.tolist())
    found = [
        (row, ordinal)
        for row, each in enumerate(names)
        for ordinal in sorted({o for name in each for o in known[name]})
    ]
    rows, ordinals = np.array(found, np.int64).reshape(-1, 2).T
    none = np.zeros(len(rows), np.int64)
    return Candidates.of(rows, ordinals, bands=none, weights=none, same_text=none > 0)


def compared(
    contents: Contents, candidates: Candidates, stored: Documents, *, policy: MatchPolicy
) -> Outcome:
    """Compare each of the *candidates* that *stored* (rising ordinals) still has."""
    verifier = Verifier(stored, contents, policy, first_ordinal=BEHIND_ALL)
    return verifier.verify(candidates, every=True)


def search(
    index: Readable, sketches: Sketches, *, policy: MatchPolicy, reach: int = 0
) -> list[list[Candidate]]:
    """Return for each row its candidates: most similar first, then the oldest."""
    candidates = candidates_of(index, sketches, reach=reach)
    stored = index.fetch(distinct(candidates.ordinals))
    outcome = compared(sketches.contents, candidates, stored, policy=policy)
    found: list[list[Candidate]] = [[] for _ in range(len(sketches))]
    order = np.lexsort((candidates.ordinals, -outcome.similarity, candidates.rows))
    for pair in order.tolist():
        if not outcome.missing[pair]:
            found[candidates.rows[pair]].append(
                candidate_of(outcome, pair, stored, sketches.contents, reach=reach)
            )
    return found


def candidate_of(
    outcome: Outcome,
    pair: int,
    stored: Documents,
    ours: Contents,
    shared: tuple[int, ...] = (),
    reach: int = 0,
) -> Candidate:
    """Return the candidate of one *pair*; a document below *reach* is too old to match."""
    ordinal = int(outcome.candidates.ordinals[pair])
    row = int(np.searchsorted(stored.ordinals, ordinal))
    finding, points = outcome.finding(pair), list[float]()
    if ordinal < reach:
        finding = replace(finding, fate=Fate.TOO_OLD)
    if ours.payloads:
        own, other = ours.payloads[outcome.candidates.rows[pair]], stored.contents.payloads[row]
        points = field_points([own], [other], outcome.policy.fields)[0].tolist()
    return Candidate(
        ordinal=ordinal,
        id=stored.ids[row],
        partition=int(stored.partitions[row]),
        offset=int(stored.offsets[row]),
        finding=finding,
        bands=int(outcome.candidates.bands[pair]),
        shared=shared,
        points=tuple(None if isnan(each) else each for each in points),
    )
