"""The comparison of an audit sample with the whole index: similar pairs, and causes of misses.

Each slice of the index is compared with the whole sample, so the index is read at most once
a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamfilter.entities.scoring import RecordColumns, similar_records
from streamfilter.index.protocol import Documents, Index
from streamfilter.matching.blocking.candidates import collect
from streamfilter.matching.verdict.policy import MatchPolicy, Terms
from streamfilter.quality.live.audit_sample import DOUBTS, ArrivalKind, AuditSample, large
from streamfilter.similarity.columns import F64, I64, U64, Contents, Flags, KeysOf
from streamfilter.similarity.minhash import estimate
from streamfilter.similarity.overlap import Postings, Screen
from streamfilter.similarity.scheme import SAMPLE_TOKENS

SLICE_ORDINALS, SLICE_RECORDS = 128, 16
"""Ordinals read at a time: of texts, of records with fields. A batch waits for one slice at most,
which takes some milliseconds."""
MARGIN = 0.05
"""The similarity of cut sets is an estimate from up to 1,024 tokens; this is four standard errors.
If it is closer to the threshold, the audit does not know the truth. It reads the samples that the
verdict read, so it would confirm each verdict."""
ORIGINALS_MAX = 32  # originals of one missed arrival that are examined for the cause

CAUSES = ("bands", "full_buckets", "max_candidates", "estimate")
"""Why an arrival was missed, by the original that came closest to a match:

- ``bands``: the two share no key.
- ``full_buckets``: they share a key, but its bucket was full when the original arrived, and no
  longer key that they share lists it.
- ``max_candidates``: the original was listed, but too many others were looked at first.
- ``estimate``: by their signatures the two were too different to be compared, or to count.
"""


class Round(Struct, frozen=True):
    """The result of one round: counts of a population, and a random sample of it."""

    population: Mapping[ArrivalKind, int]
    """Arrivals of the round by kind; unsigned ones are `ArrivalKind.OTHER`."""
    uncertain: int
    """Near-duplicates of the population whose evidence leaves doubt: their sets were cut."""
    doubted: I64
    """(len(DOUBTS),) near-duplicates of the population by their probability of being wrong."""
    limit: int  # arrivals whose hash is at most this were chosen
    hashes: U64
    kinds: NDArray[np.int8]  # (n,) `ArrivalKind` of each chosen arrival
    similarity: F64
    """(n,) similarity of the most similar earlier document; 0: none is similar enough."""
    equal: Flags  # (n,) True where an earlier document has an equal text
    originals: I64  # (n,) ordinal of that most similar document; -1: none
    doubts: F64  # (n,) probability of being wrong, as the evidence states it
    named: NDArray[np.int8]
    """(n,) 1: the match that the evidence names is similar, 0: it is not, -1: it was not seen."""
    causes: NDArray[np.int8]
    """(n,) place in `CAUSES` of a missed arrival; -1: not missed, or not known to be."""
    whole: Flags
    """(n,) True where the truth is known: no cut set is within `MARGIN` of the threshold."""
    comparisons: int  # number of pairs of a chosen arrival and a document before it
    forgotten: int
    """Documents that the index forgot during the round; an arrival missed because of one of them
    may be overlooked."""

    @classmethod
    def pooled(cls, rounds: Sequence[Round]) -> Round:
        """Pool *rounds*: keep the arrivals that the strictest limit of all would have chosen."""
        limit = min((each.limit for each in rounds), default=0)
        kept = [each.hashes <= np.uint64(limit) for each in rounds]
        columns = {
            name: np.concatenate(
                [nothing, *(getattr(e, name)[rows] for e, rows in zip(rounds, kept, strict=True))]
            )
            for name, nothing in _COLUMNS.items()
        }
        return cls(
            population={k: sum(each.population.get(k, 0) for each in rounds) for k in ArrivalKind},
            uncertain=sum(each.uncertain for each in rounds),
            doubted=sum((each.doubted for each in rounds), np.zeros(len(DOUBTS), np.int64)),
            limit=limit,
            comparisons=sum(each.comparisons for each in rounds),
            forgotten=sum(each.forgotten for each in rounds),
            **columns,
        )

    @property
    def missed(self) -> Flags:
        """Return which were judged unique although a similar document was certainly there."""
        missed: Flags = (self.kinds == ArrivalKind.UNIQUE) & (self.similarity > 0) & self.whole
        return missed

    @property
    def results(self) -> dict[str, int]:
        """Return the number of arrivals by result; ``not_known`` if a cut set leaves it open."""
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
        """Return the near-duplicates for which the audit knows whether the evidence was right."""
        known: Flags = (self.kinds == ArrivalKind.NEAR) & (self.named >= 0) & self.whole
        return known

    @property
    def by_cause(self) -> dict[str, int]:
        """Return how many of the chosen arrivals were missed, by cause."""
        return {name: int((self.causes == i).sum()) for i, name in enumerate(CAUSES)}


_COLUMNS: dict[str, NDArray[Any]] = {
    "hashes": np.zeros(0, np.uint64), "kinds": np.zeros(0, np.int8), "similarity": np.zeros(0),
    "equal": np.zeros(0, np.bool_), "originals": np.zeros(0, np.int64), "doubts": np.zeros(0),
    "named": np.zeros(0, np.int8), "causes": np.zeros(0, np.int8), "whole": np.zeros(0, np.bool_),
}  # fmt: skip
"""The columns of a round, empty."""


class Scan:
    """Compares a sample with the index, one slice after the other."""

    def __init__(self, sample: AuditSample, policy: MatchPolicy, keys_of: KeysOf) -> None:
        self.sample, self._policy, self._keys_of = sample, policy, keys_of
        self._chosen = sample.parts[0]
        n = len(self._chosen.hashes)
        self._ours = self._chosen.contents
        self._keys = keys_of(self._ours)
        if policy.fields:
            self._records = RecordColumns.of(self._ours.payloads, len(policy.fields))
        else:
            self._postings, self._screen = Postings(self._ours.samples), Screen(self._ours.samples)
        self.cursor = int(self._chosen.horizons.min()) if n else 0
        """The next ordinal to compare with."""
        self._end = int(self._chosen.ordinals.max(initial=0))
        self._similarity, self._originals = np.zeros(n), np.full(n, -1, np.int64)
        self._equal, self._named = np.zeros(n, bool), np.full(n, -1, np.int8)
        self._reached: list[dict[int, bool]] = [{} for _ in range(n)]
        """By unique arrival: original that shares a key with it → whether their signatures are
        similar enough for a comparison."""
        self._comparisons = 0
        self._whole: Flags = np.full(n, policy.sample_modulus == 1)
        self._cut: Flags = self._ours.set_sizes > policy.whole_up_to

    def slice(self, index: Index) -> bool:
        """Compare with the next documents; return whether all have been compared."""
        size = SLICE_RECORDS if self._policy.fields else SLICE_ORDINALS
        end = min(self.cursor + size, self._end)
        if self.cursor < end:
            self._compare(index.fetch(np.arange(self.cursor, end)))
        self.cursor = end
        return end >= self._end

    def _compare(self, documents: Documents) -> None:
        chosen, policy = self._chosen, self._policy
        earlier = np.searchsorted(np.sort(chosen.ordinals), documents.ordinals, "right")
        reached = np.searchsorted(np.sort(chosen.horizons), documents.ordinals, "right")
        self._comparisons += int((reached - earlier).sum())
        self._named[self._names(documents.ordinals)] = 0
        theirs = documents.contents
        cut = theirs.set_sizes > policy.whole_up_to
        rows, ours, similarity = self._pairs(theirs, cut)
        seen = documents.ordinals[rows] < chosen.ordinals[ours]
        seen &= documents.ordinals[rows] >= chosen.horizons[ours]
        seen &= self._comparable(theirs, rows, ours)
        terms = policy.terms(self._ours.set_sizes[ours], theirs.set_sizes[rows])
        enough, close = terms.reached_by(similarity)[0], _close(terms, similarity)
        self._whole[ours[seen & close & (cut[rows] | self._cut[ours])]] = False
        kept = seen & enough
        if kept.any():
            self._keep(documents, rows[kept], ours[kept], similarity[kept])

    def _pairs(self, theirs: Contents, cut: Flags) -> tuple[I64, I64, F64]:
        """Return (their row, our row, similarity) of all pairs that may be similar enough."""
        policy = self._policy
        least = policy.threshold if policy.by_size else float(policy.terms(_NONE, _NONE).wanted)
        if policy.fields:
            small = np.flatnonzero(~large(theirs))
            self.sample.forgotten += len(theirs) - len(small)
            columns = RecordColumns.of(theirs.at(small).payloads, len(policy.fields))
            rules = policy.field_rules
            ours, rows, score = similar_records(self._records, columns, rules, threshold=least)
            return small[rows], ours, score
        if self._cut.any() or cut.any():
            least -= MARGIN
        if policy.containment is not None:
            share = min(least, policy.containment)
            return self._postings.overlapping(theirs.samples, share=share)
        hopeful = np.flatnonzero(self._screen.covers(theirs.samples, threshold=least))
        if not hopeful.size:
            return _NONE, _NONE, np.zeros(0)
        found = self._postings.similar(theirs.samples.at(hopeful), threshold=least)
        return hopeful[found[0]], found[1], found[2]

    def _comparable(self, theirs: Contents, rows: I64, ours: I64) -> Flags:
        """Return which pairs agree in what they must. Only records have their scope beside them."""
        count = theirs.agreeing
        if self._policy.fields:
            count = max(theirs.digests.shape[1] - len(self._policy.also_same), 0)
        if not count:
            return np.ones(len(rows), np.bool_)
        equal = theirs.digests[rows, :count] == self._ours.digests[ours, :count]
        return np.asarray(equal.all(axis=1))

    def _names(self, ordinals: I64) -> Flags:
        """Return which arrivals' evidence names one of the rising *ordinals*."""
        if not ordinals.size:
            return np.zeros(len(self._named), np.bool_)
        named = self._chosen.named
        at = np.searchsorted(ordinals, named).clip(max=len(ordinals) - 1)
        found: Flags = ordinals[at] == named
        return found

    def _keep(self, documents: Documents, rows: I64, ours: I64, similarity: F64) -> None:
        """Keep the similar pairs: the best of each arrival, and the originals that share a key."""
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
        """Return the round: what was found, and the causes of the misses."""
        sample, chosen = self.sample, self._chosen
        return Round(
            sample.population, sample.uncertain, sample.doubted, sample.limit,
            chosen.hashes, self._still_judged(), self._similarity, self._equal, self._originals,
            chosen.doubts, self._named, self._causes(index), self._whole, self._comparisons,
            sample.forgotten,
        )  # fmt: skip

    def _still_judged(self) -> NDArray[np.int8]:
        """Return the kinds; OTHER if the document that an arrival was withheld for is gone."""
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
            found = index.probe(self._keys[met], None, self._ours.splitters[met])
            listing = collect(found.levels, columns=self._keys.shape[1])
            for i, row in enumerate(met.tolist()):
                listed = set(listing.ordinals[listing.rows == i].tolist())
                causes[row] = CAUSES.index(_cause(self._reached[row], listed))
        return causes


def _close(terms: Terms, similarity: F64) -> Flags:
    """Return which estimates from cut sets are within four standard errors of what decides."""
    close: Flags = np.abs(similarity - terms.wanted) < MARGIN
    if (least := terms.contained_from) is not None:
        errors = np.sqrt(least * (1 - np.minimum(least, 1.0)) / SAMPLE_TOKENS)
        close |= np.abs(similarity - least) < 4 * errors
    return close


def _cause(reached: dict[int, bool], listed: set[int]) -> str:
    """Return the cause of a miss, from the originals that share a key with the arrival."""
    alike = [like for ordinal, like in reached.items() if ordinal in listed]
    if not alike:
        return "full_buckets"
    return "max_candidates" if any(alike) else "estimate"


_NONE: I64 = np.zeros(0, np.int64)
