"""Verification: from candidates to confirmed matches, and what became of each other one.

Those in a crowd (`crowds`) are left out before anybody looks at them, those whose signature
estimate is hopeless are rejected; of the others the ``max_candidates`` with the best estimates are
compared on their sets. Shared bands say less than the whole signature: eight variants of a text
may well share more of them with a copy than the text itself does, and would be compared in its
place. An equal content fingerprint, all 128 bits of it, decides before anything else.

A batch is judged in rounds, and what the index has is looked at once for all of them: behind a
flood a document has a hundred candidates there, of which a round asks for a few. So they are kept
as a shortlist, in the order in which they would be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streamfilter.index.protocol import Documents
from streamfilter.matching.candidates import Candidates, merge
from streamfilter.matching.comparers import Compare
from streamfilter.matching.crowds import Crowd
from streamfilter.matching.decision import Outcome
from streamfilter.matching.policy import MatchPolicy, Terms
from streamfilter.similarity.columns import F64, I64, Contents, Flags, places_of, ranks
from streamfilter.similarity.minhash import estimate, independent_trials, trials_of_kept

_NONE = np.zeros(0, np.int64)
_BANDS_BITS = 16
_MOST_BANDS = (1 << _BANDS_BITS) - 1
_FINEST_BITS = 21
_FINEST = 1 << _FINEST_BITS - 1
"""No two estimates of a signature's slots are nearer to each other than this many to one."""

PAIRS_AT_ONCE = 4_096
"""Signatures compared at a time: half a megabyte each side stays in the processor's cache."""

WORD = 8
LANES = np.uint64(0x0101010101010101)
"""Times this, the top byte of a word is the sum of its bytes."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What is known of candidates before sets are compared: columns of one value for each."""

    at: I64
    """Row among stored + own documents."""
    known: Flags
    equal_text: Flags
    near: Flags
    """Worth an estimate: there, and of a document that has no equal text."""
    estimated: F64
    hopeful: Flags
    terms: Terms


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom the documents of a batch are held against in a round, and whom not."""

    candidates: Candidates
    """Who may be compared, of the rows that were asked for."""
    met: I64
    """(n,) how many each document has met, in the index and in its batch."""
    left_out: I64
    """(n,) how many of these are not looked at, or not compared: whatever it is alike to."""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Of the candidates that the index has, those that can have a say, whoever else there is."""

    crowd: Crowd
    """Its candidates: of each document the most similar first, by their estimates."""
    most: int
    """How many of a document are compared."""
    rejected_rows: I64
    rejected: F64
    """Estimates of the hopeless ones."""
    missing_rows: I64
    """Of candidates that the index no longer has."""

    def with_own(self, asked: Flags, own: Candidates) -> Asked:
        """Return who may be compared in *asked* rows.

        *own* are the candidates that these rows have in their own batch; all of them that are
        looked at are returned, for nobody has estimated them.
        """
        known = self.crowd.candidates
        met = self.crowd.met + np.bincount(own.rows, minlength=len(asked))
        stays, own_stays = self.crowd.stay(own)
        places = np.flatnonzero(stays & asked[known.rows])
        rows = known.rows[places]
        foremost = ranks(rows) < self.most
        beyond = np.bincount(rows[~foremost], minlength=len(asked))
        left_out = np.maximum(met - self.crowd.most, 0) + beyond
        return Asked(merge(known.at(places[foremost]), own.where(own_stays)), met, left_out)


@dataclass(slots=True)
class Verifier:
    """Compares documents of a micro-batch with candidates: stored ones, and the batch's own.

    A pair is compared once, however many rounds ask for it.
    """

    stored: Documents
    """By rising ordinals."""
    ours: Contents
    policy: MatchPolicy
    first_ordinal: int
    """Of the batch's own documents."""
    crowd: Crowd | None = None
    """Whom a batch that is judged has met in the index; who searches brings his own candidates."""
    _all: Contents = field(init=False)
    """Stored + own."""
    _shortlist: Shortlist | None = None
    _compared: tuple[I64, F64, Flags, I64] = field(
        default_factory=lambda: (_NONE, np.zeros(0), np.zeros(0, np.bool_), _NONE)
    )
    """Keys of the pairs that were compared, rising, and what came of them."""

    def __post_init__(self) -> None:
        self._all = Contents.joined([self.stored.contents, self.ours])

    @property
    def shortlist(self) -> Shortlist:
        """Return who of the crowd can have a say: those that are hopeless or gone cannot."""
        if self._shortlist is None:
            crowd = self.crowd
            assert crowd is not None, "who brings candidates of his own has no rounds"
            candidates, look = crowd.candidates, self._look(crowd.candidates)
            rejected, kept = look.near & ~look.hopeful, look.hopeful | look.equal_text
            order = _best_first(candidates, look.estimated, np.flatnonzero(kept))
            self._shortlist = Shortlist(
                crowd.at(order), self.policy.max_candidates, candidates.rows[rejected],
                look.estimated[rejected], candidates.rows[~look.known],
            )  # fmt: skip
        return self._shortlist

    def round(self, asked: Flags, own: Candidates) -> tuple[Asked, Outcome]:
        """Verify whom *asked* rows have met: in the crowd, and of the batch's *own*."""
        beside = self.shortlist.with_own(asked, own)
        return beside, self.verify(beside.candidates)

    def _look(
        self, candidates: Candidates, *, every: bool = False, outnumbered: Flags | None = None
    ) -> _Look:
        """Look at everything but the sets."""
        at, known = self._positions(candidates.ordinals)
        equal_text = self._equal_texts(candidates, at, known, every=every)
        near = known & ~equal_text
        if not every:
            exact_rows = np.zeros(len(self.ours), bool)
            exact_rows[candidates.rows[equal_text]] = True
            near &= ~exact_rows[candidates.rows]
        if outnumbered is not None:
            near &= ~outnumbered
        estimated = np.zeros(len(candidates))
        estimated[near] = self._estimates(candidates.rows[near], at[near])
        sizes = self.ours.set_sizes[candidates.rows], self._all.set_sizes[at]
        terms = self.policy.terms(*sizes)
        hopeful = near
        if not every:
            hopeful = near & terms.hopeful(estimated, slots=self.ours.slots)
        return _Look(at, known, equal_text, near, estimated, hopeful, terms)

    def verify(
        self,
        candidates: Candidates,
        *,
        every: bool = False,
        most: int | None = None,
        outnumbered: Flags | None = None,
    ) -> Outcome:
        """Compare as many of *candidates* as the policy allows, or *most*; or *every* one of them.

        To judge a document, an equal text is enough, the oldest one; then nobody asks the others.
        Who searches wants to hear of all. Nobody looks at those who are *outnumbered*.
        """
        look = self._look(candidates, every=every, outnumbered=outnumbered)
        at, equal_text, near = look.at, look.equal_text, look.near
        hopeful, estimated = look.hopeful, look.estimated
        chosen, most = hopeful, self.policy.max_candidates if most is None else most
        if not every:
            chosen = _most_similar(candidates, estimated, hopeful, most)
        skipped = hopeful & ~chosen
        if outnumbered is not None:
            skipped |= outnumbered & ~equal_text
        similarity, whole, sample = self._similarities(candidates.rows, at, chosen, estimated)
        enough, containment = look.terms.reached_by(similarity)
        confirmed = chosen & enough
        similarity[equal_text], whole[equal_text] = 1.0, True
        if containment is not None:
            containment[equal_text] = 1.0
        return Outcome(
            self.policy, candidates, similarity, whole, sample, equal_text,
            confirmed=confirmed | equal_text,
            rejected=(chosen & ~confirmed) | (near & ~hopeful),
            skipped=skipped,
            missing=~look.known,
            compared=chosen,
            estimated=estimated,
            wanted=look.terms.wanted,
            containment=containment,
            outnumbered=outnumbered,
        )  # fmt: skip

    def _positions(self, ordinals: I64) -> tuple[I64, Flags]:
        """Return each candidate's row among stored + own documents, and whether it is there."""
        stored = len(self.stored)
        at = places_of(ordinals, self.stored.ordinals)
        own = ordinals >= self.first_ordinal
        inside = np.minimum(at, max(stored - 1, 0))
        known = own.copy()
        if stored:
            known |= self.stored.ordinals[inside] == ordinals
        return np.where(own, stored + ordinals - self.first_ordinal, inside), known

    def _equal_texts(self, candidates: Candidates, at: I64, known: Flags, *, every: bool) -> Flags:
        """Return who has the very same normalised text: *every* one, or the oldest of each row.

        To judge, the copies that share the whole text's key are enough. In a search a copy may
        share the keys of bands alone: not all of its pages are read.
        """
        equal = known.copy() if every else candidates.same_text & known
        asked = np.flatnonzero(equal)
        ours = self.ours.fingerprints[candidates.rows[asked]]
        equal[asked] = (ours == self._all.fingerprints[at[asked]]).all(axis=1)
        if every:
            return equal
        hits = np.flatnonzero(equal)
        order = hits[np.lexsort((candidates.ordinals[hits], candidates.rows[hits]))]
        equal[order[1:][np.diff(candidates.rows[order]) == 0]] = False
        return equal

    def _estimates(self, rows: I64, at: I64) -> F64:
        slots = self._slots()
        ours, theirs = self.ours.signatures[:, :slots], self._all.signatures[:, :slots]
        equal = np.empty(len(rows), np.int64)
        for begin in range(0, len(rows), PAIRS_AT_ONCE):
            these = slice(begin, begin + PAIRS_AT_ONCE)
            equal[these] = _trues(ours.take(rows[these], axis=0) == theirs.take(at[these], axis=0))
        return estimate(equal, slots)

    def _slots(self) -> int:
        return self.policy.slots_of(self.ours.slots)

    def _similarities(
        self, rows: I64, at: I64, chosen: Flags, estimated: F64
    ) -> tuple[F64, Flags, I64]:
        """Return similarity, whole?, sample of each pair; only *chosen* ones are compared."""
        similarity, whole = estimated.copy(), np.zeros(len(rows), bool)
        sample = np.full(len(rows), self._slots(), np.int64)
        compare = self.policy.comparer.compare
        if compare is not None and chosen.any():
            keys = rows[chosen] * len(self._all) + at[chosen]
            self._compare(compare, keys)
            found = np.searchsorted(self._compared[0], keys)
            similarity[chosen], whole[chosen], sample[chosen] = (
                column[found] for column in self._compared[1:]
            )
            whole &= self.policy.sample_modulus == 1
        elif compare is None:
            sample = self._trials(rows, at, estimated)
        return similarity, whole, sample

    def _trials(self, rows: I64, at: I64, estimated: F64) -> I64:
        """Return how many independent slots the estimate of each pair is worth."""
        both = self.ours.set_sizes[rows] + self._all.set_sizes[at]
        unions = both / (1 + estimated)
        trials = independent_trials(self._slots(), slots=self.ours.slots, unions=unions)
        return trials if self.policy.sample_modulus == 1 else trials_of_kept(trials, unions)

    def _compare(self, compare: Compare, keys: I64) -> None:
        """Compare the pairs in *keys* that were not compared before."""
        fresh = np.setdiff1d(keys, self._compared[0], assume_unique=True)
        if not fresh.size:
            return
        rows, at = np.divmod(fresh, len(self._all))
        result = compare(self.policy, self.ours, rows, self._all, at)
        columns = (fresh, result.similarity, result.whole, result.union)
        order = np.argsort(np.concatenate((self._compared[0], fresh)), kind="stable")
        joined = zip(self._compared, columns, strict=True)
        a, b, c, d = (np.concatenate(pair)[order] for pair in joined)
        self._compared = (a, b, c, d)


def _trues(flags: Flags) -> I64:
    """Return how many of each row are True: for a sum of bytes numpy widens each to eight."""
    if flags.shape[1] % WORD or flags.shape[1] > 255:
        return np.asarray(flags.sum(axis=1), np.int64)
    # Eight sums side by side; `sum` takes three times as long as einsum for rows so short.
    lanes = np.einsum("ij->i", flags.view(np.uint64))
    return np.asarray(lanes * LANES >> np.uint64(56), np.int64)


def _most_similar(candidates: Candidates, estimated: F64, hopeful: Flags, most: int) -> Flags:
    """Return the *hopeful* pairs, but of each row at most as many, those of the best estimates."""
    asked = np.flatnonzero(hopeful)
    if np.bincount(candidates.rows[asked]).max(initial=0) <= most:
        return hopeful
    order = _best_first(candidates, estimated, asked)
    chosen = np.zeros(len(candidates), np.bool_)
    chosen[order[ranks(candidates.rows[order]) < most]] = True
    return chosen


def _best_first(
    candidates: Candidates, estimated: F64, places: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the rising *places* of pairs by row, those of the best estimates first."""
    # Of equal estimates those that share more bands, then the oldest: the sort is stable.
    unlike = np.rint((1.0 - estimated[places]) * _FINEST).astype(np.int64)
    fewer = _MOST_BANDS - candidates.bands[places]
    keys = (candidates.rows[places] << _FINEST_BITS | unlike) << _BANDS_BITS | fewer
    return places[np.argsort(keys, kind="stable")]
