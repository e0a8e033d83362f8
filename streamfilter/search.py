"""Search: the near-duplicates of one document among those that an index remembers.

The filter asks whether a document may pass; here the question is who is like it. So every
candidate is compared, none is cut off by ``max_candidates``, and each says how it fared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamfilter.candidates import Candidates, collect, hits_of
from streamfilter.entities.scoring import compare_records
from streamfilter.index.protocol import I64, U8, U32, U64, Buckets, Documents, Flags
from streamfilter.policy import MatchPolicy
from streamfilter.similarity.exact import Compared, Samples, jaccard
from streamfilter.similarity.minhash import estimate


class Fate(StrEnum):
    """What became of a candidate."""

    SAME_TEXT = "same_text"
    MATCH = "match"
    BELOW = "below_threshold"


class Sketched(Protocol):
    """Columns that can be compared: `Sketches` of texts, or `Documents` of an index."""

    @property
    def fingerprints(self) -> U8:
        """(n, 16) content fingerprints."""

    @property
    def signatures(self) -> U8:
        """(n, k) 8-bit slots."""

    @property
    def set_sizes(self) -> I64:
        """(n,) distinct tokens."""

    @property
    def tokens(self) -> U32:
        """All samples, one after the other."""

    @property
    def token_starts(self) -> I64:
        """(n + 1,) where each sample begins."""

    @property
    def payloads(self) -> Sequence[bytes]:
        """Of records, what they are compared by."""


class Readable(Protocol):
    """The reading half of an index."""

    def probe(self, keys: U64, present: Flags | None = None) -> Buckets:
        """Return the buckets of *keys*."""

    def fetch(self, ordinals: I64) -> Documents:
        """Return the documents under *ordinals*."""


@dataclass(frozen=True, slots=True)
class Met:
    """Pairs that share a key, compared: p pairs of (row, stored document)."""

    candidates: Candidates
    known: Flags
    """False where the index no longer has the candidate."""
    estimates: NDArray[np.float64]
    similarity: NDArray[np.float64]
    whole: Flags
    """True where the similarity is exact."""
    same_text: Flags
    confirmed: Flags
    """True for duplicates, by the policy."""


@dataclass(frozen=True, slots=True)
class Found:
    """One earlier document that shares a key with the text that was asked for."""

    ordinal: int
    id: str
    partition: int
    offset: int
    bands: int
    """Band keys that the two share."""
    estimate: float
    """Jaccard as the signatures estimate it."""
    similarity: float
    """By the sets: exact, or an estimate of their samples."""
    exact: bool
    fate: Fate


def present_keys(sketched: Sketched, columns: int) -> Flags:
    """Return (n, *columns*): which keys count; a text without shingles has its last only."""
    present = np.repeat(sketched.set_sizes[:, None] > 0, columns, axis=1)
    present[:, -1] = True
    return present


def candidates_of(index: Readable, sketched: Sketched, keys: U64) -> Candidates:
    """Return the stored documents that share a key with each row of *sketched*."""
    return collect(hits_of(index.probe(keys, present_keys(sketched, keys.shape[1]))))


def met(
    sketched: Sketched, candidates: Candidates, stored: Documents, *, policy: MatchPolicy
) -> Met:
    """Compare each of the *candidates* that *stored* (rising ordinals) still holds."""
    at = np.searchsorted(stored.ordinals, candidates.ordinals).astype(np.int64)
    at = np.minimum(at, max(len(stored) - 1, 0))
    known = np.zeros(len(candidates), np.bool_)
    if len(stored):
        known = stored.ordinals[at] == candidates.ordinals
    rows, there = candidates.rows[known], at[known]
    equal_slots = (sketched.signatures[rows] == stored.signatures[there]).sum(axis=1)
    compared = similarities(sketched, rows, stored, there, policy)
    same_text = candidates.same_text & known
    same_text[known] &= (sketched.fingerprints[rows] == stored.fingerprints[there]).all(axis=1)
    columns = np.zeros((2, len(candidates)))
    columns[0, known] = estimate(equal_slots, sketched.signatures.shape[1])
    columns[1, known] = compared.similarity
    columns[1, same_text] = 1.0
    whole, confirmed = same_text.copy(), same_text.copy()
    whole[known] |= compared.whole
    sizes = sketched.set_sizes[rows], stored.set_sizes[there]
    confirmed[known] |= _enough(compared.similarity, *sizes, policy)
    return Met(candidates, known, columns[0], columns[1], whole, same_text, confirmed)


def _enough(similarity: NDArray[np.float64], ours: I64, theirs: I64, policy: MatchPolicy) -> Flags:
    """Return which pairs the policy calls duplicates, by what their sets say."""
    enough: Flags = similarity >= policy.wanted(ours, theirs)
    containment = policy.containments(similarity, ours, theirs)
    if containment is not None and policy.containment is not None:
        enough |= containment >= policy.containment
    return enough


def similarities(
    left: Sketched, left_rows: I64, right: Sketched, right_rows: I64, policy: MatchPolicy
) -> Compared:
    """Return the similarity of each pair (left[left_rows[p]], right[right_rows[p]])."""
    if policy.method == "fields":
        return compare_records(
            [left.payloads[row] for row in left_rows.tolist()],
            [right.payloads[row] for row in right_rows.tolist()],
            policy.fields,
        )
    one, other = (Samples(each.tokens, each.token_starts, each.set_sizes) for each in (left, right))
    return jaccard(one, left_rows, other, right_rows)


def search(
    index: Readable, sketched: Sketched, keys: U64, *, policy: MatchPolicy
) -> list[list[Found]]:
    """Return for each row its candidates: most similar first, then the oldest."""
    candidates = candidates_of(index, sketched, keys)
    stored = index.fetch(np.unique(candidates.ordinals))
    compared = met(sketched, candidates, stored, policy=policy)
    found: list[list[Found]] = [[] for _ in range(len(keys))]
    order = np.lexsort((candidates.ordinals, -compared.similarity, candidates.rows))
    for pair in order.tolist():
        if compared.known[pair]:
            found[candidates.rows[pair]].append(_found(compared, pair, stored))
    return found


def _found(compared: Met, pair: int, stored: Documents) -> Found:
    ordinal = int(compared.candidates.ordinals[pair])
    row = int(np.searchsorted(stored.ordinals, ordinal))
    fate = Fate.MATCH if compared.confirmed[pair] else Fate.BELOW
    return Found(
        ordinal=ordinal,
        id=stored.ids[row],
        partition=int(stored.partitions[row]),
        offset=int(stored.offsets[row]),
        bands=int(compared.candidates.bands[pair]),
        estimate=float(compared.estimates[pair]),
        similarity=float(compared.similarity[pair]),
        exact=bool(compared.whole[pair]),
        fate=Fate.SAME_TEXT if compared.same_text[pair] else fate,
    )
