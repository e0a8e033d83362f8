"""The audit: a sample of the verdicts, judged again by brute force on the sets.

Who is asked. The *reference set* are those signed documents of the index (forwarded and
remembered) whose ordinals hash lowest, at most `Rates.reference` of them: a uniform sample of
the whole memory in bounded space. An index may hold few signed documents or none (titles with
``short_text: exact_only``), and to find them all it would have to be read whole, so a document
belongs to the set only if it is also one of the `LOOKS` times as many, signed or not, that hash
lowest: a smaller sample then, as uniform. The *arrivals* are the documents whose ordinals hash,
differently, below `Rates.arrivals`. Each is compared with every reference document of a smaller
ordinal, on the token samples, with no signature, band or bucket in between. What the sketcher
made of a text is believed (a text that was split wrongly is wrong here too), and so is the
estimate that stands for sets above 1,024 tokens.

What is found, with "similar" for a Jaccard similarity of at least what the policy wants of such a
pair (the threshold, or what it is raised to for short texts):

- *true positive*: withheld as a duplicate (of whichever document), and similar to some
  reference document. Found with another match than ours is found: the verdict is right.
- *false negative*: judged unique, although similar to a reference document.
- *false positive*: withheld for a match that is a reference document (the best one, named in
  the evidence), and similar to none of them.
- *true negative*: judged unique, and similar to no reference document.
- A duplicate of documents outside of the reference set that is similar to none inside says
  nothing here, and is counted as audited only; so is one that was withheld for containment.

Recall = true positives / (true positives + false negatives): of the arrivals that had a
remembered original. Precision = true positives / (true positives + false positives). An arrival
with many originals is likelier to meet one in a partial reference set, and likelier to be
found: while the reference set is a part of the index, recall leans a little to the high side
where clusters of forwarded near-duplicates are common.

Ordinals are part of the changelog, so the reference set after a batch is the same after every
restart, takeover or restore, and so is the choice of arrivals. Not so the counts: they belong
to a process, a batch whose process died after its commit is not counted again, a batch that is
read again after a rewind is not audited, and where the full reference set changes within a
batch, batches cut elsewhere may compare with a document more or less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfilter.index.protocol import Documents, Index
from streamfilter.model import DUPLICATES, Decision
from streamfilter.pipeline import Judgement
from streamfilter.policy import MatchPolicy
from streamfilter.similarity.exact import Samples, joined, taken
from streamfilter.similarity.hashing import finalise
from streamfilter.similarity.overlap import Postings
from streamfilter.similarity.sketch import Sketches

I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
Flags = NDArray[np.bool_]

PART_RATIO = 4
"""A part of the reference set is at least so many times as large as the next: new documents are
sorted into a small part at once, and into the large one rarely."""
LOOKS = 8
"""Documents looked at for each wanted one: what a start reads of an index is bounded by that."""
PIECE_DOCUMENTS = 1_000
"""Documents read at a time while a reference set is remembered."""
CHUNK_ORDINALS = 1 << 18
"""Ordinals hashed at a time while a reference set is remembered: temporaries of 2 MiB."""

_NONE: I64 = np.zeros(0, np.int64)

CONTAINMENTS = ("exact_containment", "sampled_containment")
"""Methods of verdicts that do not claim a similarity."""

_ARRIVALS, _REFERENCE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_ALL = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Rates:
    """How much is audited."""

    arrivals: float = 0.0
    """Share of the judged documents, 0 to 1; 0: no audit."""
    reference: int = 0
    """Documents in the reference set, at most."""


OFF = Rates()


@dataclass(frozen=True, slots=True)
class Audited:
    """What the audit of one batch found."""

    arrivals: int = 0
    comparisons: int = 0
    true_positive: int = 0
    false_positive: int = 0
    false_negative: int = 0
    true_negative: int = 0

    @property
    def results(self) -> dict[str, int]:
        """Return the four results by name."""
        return {
            "true_positive": self.true_positive,
            "false_positive": self.false_positive,
            "false_negative": self.false_negative,
            "true_negative": self.true_negative,
        }


NOTHING = Audited()


class Audit:
    """Audits the batches of one index, in their order."""

    def __init__(self, rates: Rates, policy: MatchPolicy, index: Index) -> None:
        """Begin with the reference set that *index* implies; reads a bounded part of *index*."""
        self._rates, self._policy = rates, policy
        self._reference = _Reference(rates.reference)
        if rates.arrivals > 0 and rates.reference > 0 and len(index):
            self._reference.remember(index)

    @property
    def reference_documents(self) -> int:
        """Return the size of the reference set."""
        return self._reference.size

    def batch(self, sketches: Sketches, judgement: Judgement, *, first_ordinal: int) -> Audited:
        """Audit a batch that is new and has been written: document i has ordinal first + i."""
        if self._rates.arrivals <= 0 or self._rates.reference <= 0:
            return NOTHING
        if judgement.additions is not None:
            self._reference.add(judgement.additions.documents)
        ordinals = np.arange(first_ordinal, first_ordinal + len(sketches))
        chosen = _hashed(ordinals, _ARRIVALS) <= _limit(self._rates.arrivals)
        rows = np.flatnonzero(chosen & (sketches.set_sizes > 0))
        if not rows.size:
            return NOTHING
        whole = Samples(sketches.tokens, sketches.token_starts, sketches.set_sizes)
        found = self._reference.similar(taken(whole, rows), ordinals[rows], self._policy)
        similar = np.zeros(len(rows), bool)
        similar[found] = True
        decisions = [judgement.decisions[row] for row in rows.tolist()]
        return self._counted(decisions, ordinals[rows], similar)

    def _counted(self, decisions: Sequence[Decision], ordinals: I64, similar: Flags) -> Audited:
        withheld = np.array([decision.verdict in DUPLICATES for decision in decisions])
        best = np.array([d.match.ordinal if d.match else -1 for d in decisions], np.int64)
        contained = np.array([decision.method in CONTAINMENTS for decision in decisions])
        named = withheld & ~contained & self._reference.holds(best)
        return Audited(
            arrivals=len(decisions),
            comparisons=self._reference.smaller(ordinals),
            true_positive=int((withheld & similar).sum()),
            false_positive=int((named & ~similar).sum()),
            false_negative=int((~withheld & similar).sum()),
            true_negative=int((~withheld & ~similar).sum()),
        )


@dataclass(slots=True)
class _Part:
    """Some reference documents."""

    ordinals: I64
    hashes: U64
    samples: Samples
    postings: Postings | None = None

    @classmethod
    def of(cls, ordinals: I64, samples: Samples) -> _Part:
        return cls(ordinals, _hashed(ordinals, _REFERENCE), samples)

    def __len__(self) -> int:
        return len(self.ordinals)

    def below(self, limit: np.uint64) -> _Part:
        """Return the documents that hash to at most *limit*."""
        rows = np.flatnonzero(self.hashes <= limit)
        return _Part(self.ordinals[rows], self.hashes[rows], taken(self.samples, rows))


class _Reference:
    """The documents whose ordinals hash lowest, in a few parts that are each much smaller."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[_Part] = []
        self._looked: U64 = np.zeros(0, np.uint64)
        """Hashes of all documents up to the limit, signed or not."""
        self._limit = np.uint64(_ALL)
        """No document that hashes above it belongs to the set."""

    @property
    def size(self) -> int:
        return len(self._members())

    def _members(self) -> I64:
        ordinals = [part.ordinals[part.hashes <= self._limit] for part in self._parts]
        return np.concatenate([np.zeros(0, np.int64), *ordinals])

    def holds(self, ordinals: I64) -> Flags:
        """Return which of *ordinals* are in the set."""
        return np.isin(ordinals, self._members())

    def smaller(self, ordinals: I64) -> int:
        """Return how many pairs of one of *ordinals* and an earlier member there are."""
        return int(np.searchsorted(np.sort(self._members()), ordinals).sum())

    def add(self, documents: Documents) -> None:
        """Take those of *documents* that belong to the set; unsigned ones cannot be compared."""
        hashes = _hashed(documents.ordinals, _REFERENCE)
        inside = hashes <= self._limit
        if not inside.any():
            return
        self._looked = np.concatenate((self._looked, hashes[inside]))
        self._lower(self._looked, LOOKS * self._most)
        rows = np.flatnonzero((hashes <= self._limit) & (documents.set_sizes > 0))
        if rows.size:
            samples = Samples(documents.tokens, documents.token_starts, documents.set_sizes)
            self._parts.append(_Part.of(documents.ordinals[rows], taken(samples, rows)))
            self._lower(np.concatenate([part.hashes for part in self._parts]), self._most)
        self._looked = self._looked[self._looked <= self._limit]
        while len(self._parts) > 1 and len(self._parts[-2]) < PART_RATIO * len(self._parts[-1]):
            late, early = self._parts.pop(), self._parts.pop()
            self._parts.append(_merged(early.below(self._limit), late.below(self._limit)))

    def _lower(self, hashes: U64, most: int) -> None:
        """Lower the limit to where only *most* of *hashes* are left."""
        if len(hashes) >= most:
            self._limit = min(self._limit, np.partition(hashes, most - 1)[most - 1])

    def remember(self, index: Index) -> None:
        """Take the set from an *index* that holds documents already: lowest hashes first."""
        end, begun = index.progress.next_ordinal, -1
        # A share of the ordinals is about that share of the documents; a little more, to be sure.
        share = 1.25 * LOOKS * self._most / len(index)
        while True:
            ordinals = _low(end, above=begun, limit=int(_limit(share)))
            ordinals = ordinals[np.argsort(_hashed(ordinals, _REFERENCE))]
            for first in range(0, len(ordinals), PIECE_DOCUMENTS):
                piece = ordinals[first : first + PIECE_DOCUMENTS]
                self.add(index.fetch(np.sort(piece)))
                if self.size >= self._most or len(self._looked) >= LOOKS * self._most:
                    return
            if share >= 1:
                return
            share, begun = 2 * share, int(_limit(share))  # fewer are left of these than of others

    def similar(self, others: Samples, ordinals: I64, policy: MatchPolicy) -> I64:
        """Return the rows of *others* that are similar to a member of a smaller ordinal."""
        least = policy.threshold if policy.by_size else float(policy.wanted(_NONE, _NONE))
        found = [np.zeros(0, np.int64)]
        for part in self._parts:
            if part.postings is None:
                part.postings = Postings(part.samples)
            rows, ours, similarity = part.postings.similar(others, threshold=least)
            sizes = others.set_sizes[rows], part.samples.set_sizes[ours]
            kept = similarity >= policy.wanted(*sizes)
            kept &= (part.ordinals[ours] < ordinals[rows]) & (part.hashes[ours] <= self._limit)
            found.append(rows[kept])
        return np.unique(np.concatenate(found))


def _hashed(ordinals: I64, salt: np.uint64) -> U64:
    return finalise((ordinals.astype(np.uint64) + np.uint64(1)) ^ salt)


def _limit(share: float) -> np.uint64:
    """Return the hash up to which *share* of all hashes lie."""
    return np.uint64(min(_ALL, int(share * _ALL)))


def _low(end: int, *, above: int, limit: int) -> I64:
    """Return the ordinals below *end* whose hash is greater than *above*, and at most *limit*."""
    low = [np.zeros(0, np.int64)]
    for begin in range(0, end, CHUNK_ORDINALS):
        ordinals = np.arange(begin, min(end, begin + CHUNK_ORDINALS))
        hashes = _hashed(ordinals, _REFERENCE)
        chosen = hashes <= np.uint64(limit)
        if above >= 0:
            chosen &= hashes > np.uint64(above)
        low.append(ordinals[chosen])
    return np.concatenate(low)


def _merged(early: _Part, late: _Part) -> _Part:
    ordinals = np.concatenate((early.ordinals, late.ordinals))
    return _Part.of(ordinals, joined([early.samples, late.samples]))
