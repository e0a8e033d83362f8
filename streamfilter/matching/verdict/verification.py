"""Verification: which candidates are confirmed as matches, and what became of the others.

1. An equal content fingerprint (all 128 bits) is a match. It decides before anything else.
2. Candidates beyond the bound of `candidate_limit` are left out before their signatures are read.
3. Candidates whose signature estimate is hopeless are rejected.
4. The ``max_candidates`` with the best estimates are compared on their sets. If none of them
   matches, as many others follow, then twice as many, and so on.

Candidates are ranked by the whole signature, because shared bands say less. Eight variants of a
text may share more bands with a copy than the text itself does, and would take its place.

A batch is judged in rounds. In a flood a document has a hundred candidates in the index, and a
round needs only a few. So the index's candidates are estimated once for all rounds, and kept as a
shortlist in the order in which they would be compared.
"""

from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from streamfilter.index.protocol import Documents
from streamfilter.matching.blocking.candidate_limit import LimitedCandidates
from streamfilter.matching.blocking.candidates import Candidates, merge
from streamfilter.matching.verdict.comparers import Compare
from streamfilter.matching.verdict.decision import Outcome
from streamfilter.matching.verdict.policy import MatchPolicy, Terms
from streamfilter.similarity.columns import F64, I64, Contents, Flags, places_of, ranks
from streamfilter.similarity.minhash import estimate, independent_trials, trials_of_kept

_NONE = np.zeros(0, np.int64)
_BANDS_BITS = 16
_MOST_BANDS = (1 << _BANDS_BITS) - 1
_FINEST_BITS = 21
_FINEST = 1 << _FINEST_BITS - 1  # of an estimate, for sorting: finer than any gap
PAIRS_AT_ONCE = 4_096  # half a megabyte a side fits the processor's cache

WORD = 8
LANES = np.uint64(0x0101010101010101)  # times this, a word's top byte is its bytes' sum


class _Look(Struct, frozen=True):
    """The state before sets are compared: columns with one value for each candidate."""

    at: I64  # row among stored + own documents
    known: Flags
    equal_text: Flags
    near: Flags  # whether to estimate: the candidate exists, and its document has no equal text
    estimated: F64
    hopeful: Flags
    differs: I64 | None
    """Place in `MatchPolicy.agree_on` of what a pair first differs in, -1: nothing; None: the
    policy names nothing."""
    terms: Terms

    @property
    def hopeless(self) -> Flags:
        """Return which pairs agree in what they must, but are too unlike by their signatures."""
        hopeless = self.near & ~self.hopeful
        return hopeless if self.differs is None else hopeless & (self.differs < 0)

    @property
    def differing(self) -> Flags:
        """Return which estimated pairs do not agree in what they must."""
        none = np.zeros(len(self.near), np.bool_)
        return none if self.differs is None else self.near & (self.differs >= 0)


class Asked(Struct, frozen=True):
    """The candidates that a round may compare, and how many it leaves out."""

    candidates: Candidates  # pairs that may be compared, for the asked rows
    met: I64  # (n,) how many candidates each document has in the index and in its batch
    left_out: I64  # (n,) how many of these are not estimated or not passed on
    more: Flags  # (n,) whether the index has more hopeful candidates, which are not passed on


class Shortlist(Struct, frozen=True):
    """The index's candidates that may become matches: neither hopeless nor missing."""

    limited: LimitedCandidates  # these, for each document the best estimates first
    rejected_rows: I64
    rejected: F64  # estimates of the hopeless ones
    missing_rows: I64  # rows of the candidates that the index no longer has
    differing_rows: I64  # rows of the candidates that do not agree in what they must

    def with_own(self, asked: Flags, own: Candidates, *, most: int) -> Asked:
        """Return the candidates that may be compared for the *asked* rows.

        Of the index's candidates the *most* foremost of each row are returned. *own* are those of
        its own batch. They have no estimates yet, so all that their bound allows are returned.
        """
        known = self.limited.candidates
        met = self.limited.met + np.bincount(own.rows, minlength=len(asked))
        stays, own_stays = self.limited.stay(own)
        places = np.flatnonzero(stays & asked[known.rows])
        rows = known.rows[places]
        foremost = ranks(rows) < most
        beyond = np.bincount(rows[~foremost], minlength=len(asked))
        left_out = np.maximum(met - self.limited.most, 0) + beyond
        candidates = merge(known.at(places[foremost]), own.where(own_stays))
        return Asked(candidates, met, left_out, beyond > 0)


@dataclass(slots=True)
class Verifier:
    """Compares documents of a batch with stored ones and its own, each pair once in all rounds."""

    stored: Documents  # by rising ordinals
    ours: Contents
    policy: MatchPolicy
    first_ordinal: int  # ordinal of the batch's first document
    limited: LimitedCandidates | None = None
    """The batch's candidates in the index. None for a search, which passes candidates itself."""
    _all: Contents = field(init=False)  # contents of the stored documents, then of the batch's own
    _shortlist: Shortlist | None = None
    _compared: tuple[I64, F64, Flags, I64] = field(
        default_factory=lambda: (_NONE, np.zeros(0), np.zeros(0, np.bool_), _NONE)
    )
    """Keys of the compared pairs, rising, and their results: similarity, whole?, union."""

    def __post_init__(self) -> None:
        self._all = Contents.joined([self.stored.contents, self.ours])

    @property
    def shortlist(self) -> Shortlist:
        """Return the limited candidates that are neither hopeless nor missing."""
        if self._shortlist is None:
            limited = self.limited
            assert limited is not None, "who brings candidates of his own has no rounds"
            candidates, look = limited.candidates, self._look(limited.candidates)
            rejected, kept = look.hopeless, look.hopeful | look.equal_text
            order = _best_first(candidates, look.estimated, np.flatnonzero(kept))
            self._shortlist = Shortlist(
                limited.at(order), candidates.rows[rejected], look.estimated[rejected],
                candidates.rows[~look.known], candidates.rows[look.differing],
            )  # fmt: skip
        return self._shortlist

    def round(self, asked: Flags, own: Candidates) -> tuple[Asked, list[Outcome]]:
        """Verify the candidates of the *asked* rows: the limited ones and the batch's *own*.

        Each row is in one outcome. The second one has the rows whose foremost candidates failed,
        with all of their candidates. Most rounds have no such row.
        """
        beside = self.shortlist.with_own(asked, own, most=self.policy.max_candidates)
        outcome = self.verify(beside.candidates, further=False)
        rows, failed = outcome.candidates.rows, beside.more
        failed[rows[outcome.skipped]] = True
        failed[rows[outcome.confirmed]] = False
        if not failed.any():
            return beside, [outcome]
        own = own.where(failed[own.rows])
        rest = self.shortlist.with_own(failed, own, most=self.policy.estimated)
        left_out = np.where(failed, rest.left_out, beside.left_out)
        passed = outcome.where(~failed[rows])
        return replace(beside, left_out=left_out), [passed, self.verify(rest.candidates)]

    def _look(
        self, candidates: Candidates, *, every: bool = False, outnumbered: Flags | None = None
    ) -> _Look:
        """Check everything but the sets: existence, equal texts, signature estimates."""
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
        differs = self._differs(candidates.rows, at)
        if differs is not None:
            hopeful = hopeful & (differs < 0)
        return _Look(at, known, equal_text, near, estimated, hopeful, differs, terms)

    def _differs(self, rows: I64, at: I64) -> I64 | None:
        """Return the first condition that each pair fails, -1 for none."""
        agreeing = self.ours.agreeing
        if not agreeing:
            return None
        ours, theirs = self.ours.digests[rows, :agreeing], self._all.digests[at, :agreeing]
        other = ours != theirs
        return np.where(other.any(axis=1), other.argmax(axis=1), -1)

    def _same_field(self, rows: I64, at: I64) -> I64 | None:
        """Return the first value of `MatchPolicy.also_same` that each pair shares, -1 for none."""
        if not self.ours.also:
            return None
        ours, theirs = self.ours.naming[rows], self._all.naming[at]
        same = (ours == theirs) & (ours != 0)
        return np.where(same.any(axis=1), same.argmax(axis=1), -1)

    def verify(
        self,
        candidates: Candidates,
        *,
        every: bool = False,
        further: bool = True,
        most: int | None = None,
        outnumbered: Flags | None = None,
    ) -> Outcome:
        """Compare *candidates*: for each document as many as the policy allows, or *most*.

        A verdict needs only the oldest equal text; the other candidates are then not compared. A
        search needs all of them: *every* compares each candidate. Candidates that are
        *outnumbered* are not estimated.

        If none of a document's compared candidates matches, *further* compares as many again as
        were compared, those with the next best estimates, until one matches or none is left.
        """
        look = self._look(candidates, every=every, outnumbered=outnumbered)
        at, equal_text, hopeful, rows = look.at, look.equal_text, look.hopeful, candidates.rows
        same_field = self._same_field(rows, at)
        by_field = look.known & (False if same_field is None else same_field >= 0)
        most = self.policy.max_candidates if most is None else most
        places = None if every else _places(candidates, look.estimated, hopeful, most)
        limits = np.full(len(self.ours), most)
        while True:
            chosen = hopeful if places is None else hopeful & (places < limits[rows])
            similarity, whole, sample = self._similarities(rows, at, chosen, look.estimated)
            enough, containment = look.terms.reached_by(similarity)
            confirmed, skipped = (chosen & enough) | by_field, hopeful & ~chosen & ~by_field
            failed = np.bincount(rows[skipped], minlength=len(limits)) > 0
            failed[rows[confirmed]] = False
            if not further or not failed.any():
                break
            limits[failed] *= 2
        if outnumbered is not None:
            skipped |= outnumbered & ~equal_text
        similarity[equal_text], whole[equal_text] = 1.0, True
        if containment is not None:
            containment[equal_text] = 1.0
        return Outcome(
            self.policy, candidates, similarity, whole, sample, equal_text,
            confirmed=confirmed | equal_text,
            rejected=(chosen & ~confirmed) | (look.hopeless & ~by_field),
            skipped=skipped,
            missing=~look.known,
            compared=chosen,
            estimated=look.estimated,
            wanted=look.terms.wanted,
            containment=containment,
            outnumbered=outnumbered,
            differs=look.differs,
            same_field=same_field,
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
        """Return which candidates have an equal normalised text: *every* one, or each row's oldest.

        For a verdict, the copies found by the whole text's key are enough. In a search a copy may
        be found by band keys alone, because not all pages of the whole text's bucket are read.
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
        """Return for each pair how many independent slots its estimate is worth."""
        both = self.ours.set_sizes[rows] + self._all.set_sizes[at]
        unions = both / (1 + estimated)
        trials = independent_trials(self._slots(), slots=self.ours.slots, unions=unions)
        return trials if self.policy.sample_modulus == 1 else trials_of_kept(trials, unions)

    def _compare(self, compare: Compare, keys: I64) -> None:
        fresh = np.setdiff1d(keys, self._compared[0], assume_unique=True)
        if not fresh.size:
            return
        rows, at = np.divmod(fresh, len(self._all))
        result = compare(self.policy.field_rules, self.ours, rows, self._all, at)
        columns = (fresh, result.similarity, result.whole, result.union)
        order = np.argsort(np.concatenate((self._compared[0], fresh)), kind="stable")
        joined = zip(self._compared, columns, strict=True)
        a, b, c, d = (np.concatenate(pair)[order] for pair in joined)
        self._compared = (a, b, c, d)


def _trues(flags: Flags) -> I64:
    """Return how many flags of each row are True, faster than numpy's sum.

    The bytes of a row are read as words of eight, and the words are added: eight sums side by side.
    The words 1 1 0 0 0 0 0 0 and 1 0 0 0 0 0 0 0 add up to 2 1 0 0 0 0 0 0, and that to 3.
    """
    if flags.shape[1] % WORD or flags.shape[1] > 255:
        return np.asarray(flags.sum(axis=1), np.int64)
    # For rows this short einsum is faster than sum, which also widens each byte to eight.
    lanes = np.einsum("ij->i", flags.view(np.uint64))
    return np.asarray(lanes * LANES >> np.uint64(56), np.int64)


def _places(candidates: Candidates, estimated: F64, hopeful: Flags, most: int) -> I64 | None:
    """Return each *hopeful* pair's rank in its row by its estimate, from 0.

    None if no row has more than *most*. Three hopeful pairs of one row with the estimates .6, .9
    and .8 have the ranks 2, 0 and 1.
    """
    asked = np.flatnonzero(hopeful)
    if np.bincount(candidates.rows[asked]).max(initial=0) <= most:
        return None
    order = _best_first(candidates, estimated, asked)
    places = np.zeros(len(candidates), np.int64)
    places[order] = ranks(candidates.rows[order])
    return places


def _best_first(
    candidates: Candidates, estimated: F64, places: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the rising *places* of pairs ordered by row, then by the best estimate.

    One integer is the sort key: row, then 1 - estimate, then the bands that are not shared.
    """
    # Ties go to the pair that shares more bands, then to the oldest: the sort is stable.
    unlike = np.rint((1.0 - estimated[places]) * _FINEST).astype(np.int64)
    fewer = _MOST_BANDS - candidates.bands[places]
    keys = (candidates.rows[places] << _FINEST_BITS | unlike) << _BANDS_BITS | fewer
    return places[np.argsort(keys, kind="stable")]
