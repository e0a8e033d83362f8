"""A sample on its way through the whole index: who was similar, and why it was not met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfilter.index.protocol import Documents, Index
from streamfilter.matching.audit_sample import ArrivalKind, AuditSample
from streamfilter.matching.candidates import collect
from streamfilter.matching.policy import MatchPolicy
from streamfilter.similarity.columns import F64, I64, U64, Flags, KeysOf
from streamfilter.similarity.minhash import estimate
from streamfilter.similarity.overlap import Postings, Screen

SLICE_ORDINALS = 128
"""Ordinals looked up at a time: some milliseconds, the longest that a batch waits for us."""
ORIGINALS_MAX = 32
"""Originals of one missed arrival that are asked why they were not met."""

CAUSES = ("bands", "full_buckets", "max_candidates", "estimate")
"""Why an arrival was not withheld, by the original that came furthest: ``bands``: they share no
key; ``full_buckets``: they share one, but its bucket was full when the original came, and no longer
key that they share lists it;
``max_candidates``: it was listed, and others were compared first; ``estimate``: their signatures
looked too unlike to be compared, or to count."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round found: a population, and a random sample of it."""

    population: Mapping[ArrivalKind, int]
    """Signed arrivals by what became of them."""
    withheld: I64
    """(BINS,) near-duplicates of the population by the similarity of their best match."""
    doubted: I64
    """(len(DOUBTS),) the same by the probability of being wrong that they told."""
    limit: int
    """Arrivals whose hash is at most this were chosen."""
    hashes: U64
    kinds: NDArray[np.int8]
    """(n,) `ArrivalKind` of each chosen arrival."""
    similarity: F64
    """(n,) of the most similar document before it that is similar; 0: there is none."""
    equal: Flags
    """(n,) True where a document before it has the very same text."""
    originals: I64
    """(n,) ordinal of that most similar document; -1: none."""
    doubts: F64
    """(n,) probability of being wrong, as the evidence tells it."""
    named: NDArray[np.int8]
    """(n,) 1: the match that the evidence names is similar, 0: it is not, -1: it was not seen."""
    causes: NDArray[np.int8]
    """(n,) place in `CAUSES` of a missed one; -1: not missed, or not known to be."""
    whole: Flags
    """(n,) True where no set was cut that had a say: the second look is the truth, no estimate."""
    comparisons: int
    """Pairs of a chosen arrival and a document before it."""
    forgotten: int
    """Documents that the index forgot meanwhile: misses of those may be overlooked."""

    @property
    def missed(self) -> Flags:
        """Return which were judged unique although something similar was there, for certain."""
        missed: Flags = (self.kinds == ArrivalKind.UNIQUE) & (self.similarity > 0) & self.whole
        return missed

    @property
    def results(self) -> dict[str, int]:
        """Return the results by name; those that the second look cannot know are none of the four.

        Of cut sets it reads what the verdict read, and would call each verdict right.
        """
        near = (self.kinds == ArrivalKind.NEAR) & self.whole
        unique = (self.kinds == ArrivalKind.UNIQUE) & self.whole
        similar = self.similarity > 0
        return {
            "true_positive": int((near & similar).sum()),
            "false_positive": int((near & ~similar).sum()),
            "false_negative": int((unique & similar).sum()),
            "true_negative": int((unique & ~similar).sum()),
            "not_known": int(((self.kinds <= ArrivalKind.NEAR) & ~self.whole).sum()),
        }

    @property
    def doubting(self) -> Flags:
        """Return of which near-duplicates it is known whether their evidence was right."""
        known: Flags = (self.kinds == ArrivalKind.NEAR) & (self.named >= 0) & self.whole
        return known

    @property
    def by_cause(self) -> dict[str, int]:
        """Return how many of the chosen were missed, by why."""
        return {name: int((self.causes == i).sum()) for i, name in enumerate(CAUSES)}


class Scan:
    """A sample on its way through the index."""

    def __init__(self, sample: AuditSample, policy: MatchPolicy, keys_of: KeysOf) -> None:
        self.sample, self._policy, self._keys_of = sample, policy, keys_of
        self._chosen = sample.parts[0]
        n = len(self._chosen.hashes)
        self._ours = self._chosen.contents
        self._keys = keys_of(self._ours)
        self._postings, self._screen = Postings(self._ours.samples), Screen(self._ours.samples)
        self._cursor = int(self._chosen.horizons.min()) if n else 0
        self._end = int(self._chosen.ordinals.max(initial=0))
        self._similarity, self._originals = np.zeros(n), np.full(n, -1, np.int64)
        self._equal, self._named = np.zeros(n, bool), np.full(n, -1, np.int8)
        self._reached: list[dict[int, bool]] = [{} for _ in range(n)]
        """Of a unique arrival: originals that share a key with it, and whether their signatures
        are alike enough to be compared."""
        self._comparisons = 0
        self._whole: Flags = self._ours.set_sizes <= policy.whole_up_to

    def slice(self, index: Index) -> bool:
        """Compare with the next documents; return whether all have been looked at."""
        end = min(self._cursor + SLICE_ORDINALS, self._end)
        if self._cursor < end:
            self._compare(index.fetch(np.arange(self._cursor, end)))
        self._cursor = end
        return end >= self._end

    def _compare(self, documents: Documents) -> None:
        chosen, policy = self._chosen, self._policy
        earlier = np.searchsorted(np.sort(chosen.ordinals), documents.ordinals, "right")
        reached = np.searchsorted(np.sort(chosen.horizons), documents.ordinals, "right")
        self._comparisons += int((reached - earlier).sum())
        self._named[self._names(documents.ordinals)] = 0
        samples = documents.contents.samples
        least = policy.threshold if policy.by_size else float(policy.terms(_NONE, _NONE).wanted)
        self._cut(documents, least)
        hopeful = np.flatnonzero(self._screen.covers(samples, threshold=least))
        if not hopeful.size:
            return
        rows, ours, similarity = self._postings.similar(samples.at(hopeful), threshold=least)
        rows = hopeful[rows]
        sizes = samples.set_sizes[rows], self._ours.set_sizes[ours]
        kept = similarity >= policy.terms(*sizes).wanted
        kept &= documents.ordinals[rows] < chosen.ordinals[ours]
        kept &= documents.ordinals[rows] >= chosen.horizons[ours]
        if kept.any():
            self._keep(documents, rows[kept], ours[kept], similarity[kept])

    def _cut(self, documents: Documents, least: float) -> None:
        """Note whom a cut set among *documents* may be similar to: there the look is no truth.

        By sizes, not by what was found: the verdict read the very same samples, so an estimate
        that misled it misleads us, and a pair that it hid is not found here either.
        """
        sizes = documents.contents.set_sizes
        cut = sizes > self._policy.whole_up_to
        if cut.any():
            later = self._chosen.ordinals > documents.ordinals[cut].min()
            reached = self._ours.set_sizes >= least * sizes[cut].min()
            self._whole &= ~(later & reached)

    def _names(self, ordinals: I64) -> Flags:
        """Return whose evidence names one of *ordinals*, which rise."""
        if not ordinals.size:
            return np.zeros(len(self._named), np.bool_)
        named = self._chosen.named
        at = np.searchsorted(ordinals, named).clip(max=len(ordinals) - 1)
        found: Flags = ordinals[at] == named
        return found

    def _keep(self, documents: Documents, rows: I64, ours: I64, similarity: F64) -> None:
        """Remember the similar pairs: the best of each arrival, and who shares a key with it."""
        chosen, policy = self._chosen, self._policy
        theirs, own = documents.contents, self._ours
        same = (theirs.fingerprints[rows] == own.fingerprints[ours]).all(axis=1)
        meets = self._keys_of(theirs)[rows, :-1] == self._keys[ours, :-1]
        slots = policy.slots_of(own.slots)
        equal = (theirs.signatures[rows] == own.signatures[ours])[:, :slots].sum(axis=1)
        sizes = own.set_sizes[ours], theirs.set_sizes[rows]
        alike = policy.terms(*sizes).hopeful(estimate(equal, slots), slots=slots)
        pairs = (documents.ordinals[rows], ours, similarity, same, meets.any(axis=1), alike)
        for ordinal, our, value, one, met, like in zip(*(p.tolist() for p in pairs), strict=True):
            self._equal[our] |= one
            if ordinal == chosen.named[our]:
                self._named[our] = 1
            if value > self._similarity[our]:
                self._similarity[our], self._originals[our] = value, ordinal
            reached = self._reached[our]
            if met and chosen.kinds[our] == ArrivalKind.UNIQUE and len(reached) < ORIGINALS_MAX:
                reached[ordinal] = like

    def result(self, index: Index) -> Round:
        """Return what was found, and why the missed ones were missed."""
        sample, chosen = self.sample, self._chosen
        return Round(
            sample.population, sample.withheld, sample.doubted, sample.limit,
            chosen.hashes, self._still_judged(), self._similarity, self._equal, self._originals,
            chosen.doubts, self._named, self._causes(index), self._whole, self._comparisons,
            sample.forgotten,
        )  # fmt: skip

    def _still_judged(self) -> NDArray[np.int8]:
        """Return the kinds; withheld for a document that is gone is no longer to be judged."""
        kinds = self._chosen.kinds.copy()
        kinds[(kinds == ArrivalKind.NEAR) & (self._similarity == 0) & (self._named < 0)] = (
            ArrivalKind.OTHER
        )
        return kinds

    def _causes(self, index: Index) -> NDArray[np.int8]:
        unique = (self._chosen.kinds == ArrivalKind.UNIQUE) & self._whole
        missed = np.flatnonzero(unique & (self._similarity > 0))
        causes = np.full(len(self._similarity), -1, np.int8)
        causes[missed] = CAUSES.index("bands")
        met = np.array([row for row in missed.tolist() if self._reached[row]], np.int64)
        if met.size:
            found = index.probe(self._keys[met], None, self._ours.signatures[met])
            listing = collect(found.levels, columns=self._keys.shape[1])
            for i, row in enumerate(met.tolist()):
                listed = set(listing.ordinals[listing.rows == i].tolist())
                causes[row] = CAUSES.index(_cause(self._reached[row], listed))
        return causes


def _cause(reached: dict[int, bool], listed: set[int]) -> str:
    """Return why none of the originals that share a key with an arrival was confirmed."""
    alike = [like for ordinal, like in reached.items() if ordinal in listed]
    if not alike:
        return "full_buckets"
    return "max_candidates" if any(alike) else "estimate"


_NONE: I64 = np.zeros(0, np.int64)
