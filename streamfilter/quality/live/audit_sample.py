"""A random sample of the arrivals: the documents with the lowest keyed hashes.

Every arrival of a round is equally likely to be chosen, however many there are and however similar
they are to each other. While it is gathered, a sample is cut whenever it exceeds twice
`SAMPLE_MAX`.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from streamfilter.matching.verdict.decision import SAME_FIELD, SAME_ID
from streamfilter.model import Decision, Verdict
from streamfilter.similarity.columns import F64, I64, U8, U64, Contents, Flags
from streamfilter.similarity.hashing import finalise
from streamfilter.similarity.sketch import Sketches

SAMPLE_MAX = 2_000
"""Chosen arrivals of one round. They take at most 8 MiB, and the next round's as much again."""
RECORDS_MAX = 400
"""The same of records with fields: a pair of them takes two microseconds, not some nanoseconds."""
PAYLOAD_MAX = 4_096
"""Bytes of a record that is audited: bounds the memory, and the time of a comparison."""
BINS = 20  # similarities are counted in 20 ranges of .05

DOUBTS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0)
"""Upper ends of the ranges in which the verdicts' probabilities of being wrong are counted."""

CERTAIN = 1e-4
"""A verdict with a lower probability of being wrong counts as right where sets were cut."""

_ALL = 2**64 - 1


class ArrivalKind(IntEnum):
    """The verdict on an arrival, as the audit groups them."""

    UNIQUE = 0
    NEAR = 1
    EXACT = 2
    OTHER = 3
    """Withheld by an id or a field, too short to be signed, too large, or not comparable now."""


class Chosen(Struct, frozen=True):
    """Some chosen arrivals, as columns."""

    ordinals: I64
    hashes: U64
    kinds: NDArray[np.int8]
    horizons: I64  # lowest ordinal that was remembered when the arrival was judged
    named: I64  # ordinal of the match that the evidence names first; -1: none
    doubts: F64  # probability of being wrong, as the evidence states it
    contents: Contents

    def where(self, rows: I64) -> Chosen:
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, contents=self.contents.at(rows), **columns)

    @staticmethod
    def joined(parts: list[Chosen]) -> Chosen:
        contents = Contents.joined([part.contents for part in parts])
        columns = {n: np.concatenate([getattr(part, n) for part in parts]) for n in _COLUMNS}
        return replace(parts[0], contents=contents, **columns)


_COLUMNS = ("ordinals", "hashes", "kinds", "horizons", "named", "doubts")


class AuditSample(Struct):
    """The arrivals of a round, and the chosen ones with the lowest hashes."""

    limit: int
    most: int = SAMPLE_MAX
    population: Counter[ArrivalKind] = field(default_factory=Counter)
    uncertain: int = 0  # near-duplicates whose probability of being wrong is above `CERTAIN`
    doubted: I64 = field(default_factory=lambda: np.zeros(len(DOUBTS), np.int64))
    parts: list[Chosen] = field(default_factory=list)
    size: int = 0
    forgotten: int = 0

    @classmethod
    def up_to(cls, share: float, most: int) -> AuditSample:
        """Begin a sample of at most *share* of the arrivals, and at most so many."""
        return cls(min(_ALL, int(share * _ALL)), most)

    def take(
        self, sketches: Sketches, decisions: list[Decision], first: int, *, since: I64 | None = None
    ) -> None:
        """Count a batch, and choose among it; row i might match the ordinals from since[i] on."""
        contents = sketches.contents
        signed = contents.set_sizes > 0
        kinds = np.array([_kind(decision) for decision in decisions], np.int8)
        kinds[~signed | large(contents)] = ArrivalKind.OTHER
        counts = np.bincount(kinds, minlength=len(ArrivalKind)).tolist()
        self.population.update(dict(zip(ArrivalKind, counts, strict=True)))
        near = np.flatnonzero(kinds == ArrivalKind.NEAR)
        doubts = np.array([decision.p_false_positive for decision in decisions])
        self.doubted = self.doubted + np.bincount(doubts_of(doubts[near]), minlength=len(DOUBTS))
        self.uncertain += int((doubts[near] > CERTAIN).sum())
        hashes = _hashed(contents.fingerprints, first)
        asked = (kinds == ArrivalKind.UNIQUE) | (kinds == ArrivalKind.NEAR)
        rows = np.flatnonzero(asked & (hashes <= np.uint64(self.limit)))
        if not rows.size:
            return
        matches = [decisions[row].match for row in rows.tolist()]
        self.parts.append(Chosen(
            first + rows, hashes[rows], kinds[rows],
            np.zeros(len(rows), np.int64) if since is None else since[rows],
            np.array([match.ordinal if match else -1 for match in matches], np.int64),
            doubts[rows], contents.at(rows),
        ))  # fmt: skip
        self.size += len(rows)
        if self.size > 2 * self.most:
            self._lower()

    def _lower(self) -> None:
        """Keep the `most` lowest hashes; the limit is just below the first one cut."""
        hashes = np.concatenate([part.hashes for part in self.parts])
        if len(hashes) > self.most:
            self.limit = int(np.partition(hashes, self.most)[self.most]) - 1
        whole = Chosen.joined(self.parts)
        self.parts = [whole.where(np.flatnonzero(whole.hashes <= np.uint64(self.limit)))]
        self.size = len(self.parts[0].hashes)

    def closed(self) -> AuditSample:
        """Return this sample, complete and in one part."""
        self._lower()
        return self


_OF_NO_TEXT = SAME_ID, SAME_FIELD
_UNIQUE, _NEAR, _EXACT = Verdict.UNIQUE, Verdict.NEAR_DUPLICATE, Verdict.EXACT_DUPLICATE


def _kind(decision: Decision) -> int:
    """Return the `ArrivalKind`. Runs for every document, so the most frequent case comes first."""
    verdict = decision.verdict
    if verdict is _UNIQUE:
        return 0
    if decision.method in _OF_NO_TEXT:
        return 3
    return 1 if verdict is _NEAR else 2 if verdict is _EXACT else 3


def large(contents: Contents) -> Flags:
    if not contents.payloads:
        return np.zeros(len(contents), np.bool_)
    return np.array([len(payload) > PAYLOAD_MAX for payload in contents.payloads], np.bool_)


def bins_of(similarity: F64) -> I64:
    """Return the range of .05 that each similarity falls into, 0 to `BINS` - 1."""
    return np.minimum((similarity * BINS + 1e-9).astype(np.int64), BINS - 1)


def doubts_of(probabilities: F64) -> I64:
    """Return the range of `DOUBTS` that each probability falls into."""
    return np.searchsorted(DOUBTS, probabilities, "left").clip(max=len(DOUBTS) - 1).astype(np.int64)


def _hashed(fingerprints: U8, first: int) -> U64:
    """Hash the keyed fingerprints with their ordinals.

    The choice cannot be predicted without the key.
    """
    keyed = np.ascontiguousarray(fingerprints).view("<u8").reshape(-1, 2)[:, 0]
    ordinals = np.arange(first, first + len(keyed), dtype=np.uint64)
    return finalise(keyed ^ finalise(ordinals + np.uint64(1)))
