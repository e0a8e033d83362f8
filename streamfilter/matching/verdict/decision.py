"""The result of each compared pair, the reason in words, and the verdict.

`verification` finds an outcome, and `decide` makes verdicts of it. Evidence, `explain` and all
others take the method, the numbers and the reason of a verdict from here, so they always agree.
The best match is the most similar one, then the oldest. Every confirmed match is evidence. A
document without a confirmed match is unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from itertools import product, repeat
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.matching.blocking.candidates import Candidates
from streamfilter.matching.verdict import envelope
from streamfilter.matching.verdict.comparers import distinct
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import Decision, Match, Reason, Source, Verdict
from streamfilter.similarity.columns import F64, I64, Flags
from streamfilter.similarity.statistics.doubt import chance_below, chance_below_of_slots

Describe = Callable[[I64], Sequence[tuple[str, Source]]]
"""Ordinals of confirmed candidates → id and source of each."""

SAME_ID = "same_id"  # the method of a duplicate by its id alone
SAME_FIELD = "same_field"  # the method of a duplicate by an equal value (`verify.also_same`) alone
UNIQUE = Decision(Verdict.UNIQUE)
SHORT = {
    "forward": Decision(Verdict.PASSTHROUGH, reason=Reason.SHORT),
    "drop": Decision(Verdict.DROPPED, reason=Reason.SHORT),
}
"""Decision on a short text, by the policy's ``short_text``."""


class Fate(StrEnum):
    """The result for one candidate."""

    SAME_FIELD = "same_field"  # a value that `verify.also_same` names is equal
    SAME_TEXT = "same_text"
    MATCH = "match"  # similar enough
    CONTAINED = "contained"  # not similar enough, but enough of one text is in the other
    BELOW = "below_threshold"
    DIFFERS = "differs"  # not compared: the two do not agree in what `verify.agree_on` names
    TOO_OLD = "too_old"  # not compared: it arrived earlier than `verify.within` lets match
    HOPELESS = "hopeless"
    """Not compared: by the signatures' estimate the sets will not reach the threshold."""
    SKIPPED = "not_compared"
    """Not compared: others looked more similar, and one of these was a match."""
    OUTNUMBERED = "outnumbered"
    """Not even estimated: too many others share more, or longer, keys with the document."""
    UNASKED = "not_asked"  # not compared: an equal text had decided already
    UNMET = "unmet"  # the two share no key, so the filter never compares them
    MISSING = "missing"  # the index no longer has its record


CONFIRMED = frozenset({Fate.SAME_FIELD, Fate.SAME_TEXT, Fate.MATCH, Fate.CONTAINED})


def method_of(policy: MatchPolicy, fate: Fate, *, exact: bool) -> str:
    """Return the method by which a match was found, as the evidence spells it."""
    if fate is Fate.SAME_TEXT:
        return "exact_text"
    if fate is Fate.SAME_FIELD:
        return SAME_FIELD
    if not policy.comparer.on_sets:
        return policy.method
    measure = "containment" if fate is Fate.CONTAINED else "jaccard"
    return f"{'exact' if exact else 'sampled'}_{measure}"


def _fate_of_match(*, same: bool, enough: bool) -> Fate:
    """Return why a pair is a match: the *same* text, *enough* similarity, or else containment."""
    if same:
        return Fate.SAME_TEXT
    return Fate.MATCH if enough else Fate.CONTAINED


class Finding(Struct, frozen=True):
    """One pair of a document and a candidate, under a policy."""

    policy: MatchPolicy
    fate: Fate
    similarity: float  # similarity of the sets if they were compared, else the signatures' estimate
    exact: bool  # whether the similarity is exact, not an estimate
    sample: int  # independent trials behind an estimate: compared tokens, or what slots are worth
    wanted: float  # the similarity from which this pair counts
    estimate: float | None  # the signatures' estimate; None if they were not compared
    containment: float | None
    """Share of one set that is in the other; None: the policy does not use it."""
    subject: str = ""  # the field that makes the two the same, or what they do not agree in

    @property
    def confirmed(self) -> bool:
        return self.fate in CONFIRMED

    @property
    def method(self) -> str:
        """Return the method by which a match was found, as the evidence spells it."""
        return method_of(self.policy, self.fate, exact=self.exact)

    @property
    def p_false_positive(self) -> float:
        """Return the probability that the true similarity of a match is below the threshold."""
        if self.exact:
            return 0.0
        if self.fate is Fate.CONTAINED:
            return self._contains_less()
        below = chance_below if self.policy.comparer.on_sets else chance_below_of_slots
        return below(self.wanted, self.similarity, self.sample)

    def _contains_less(self) -> float:
        """Return the probability that the true containment is below the policy's limit.

        The trials are the part of the sample that belongs to the contained set.
        """
        assert self.containment is not None
        assert self.policy.containment is not None
        agreed = self.similarity * self.sample
        trials = max(round(agreed / self.containment), 1) if self.containment else 1
        return chance_below(self.policy.containment, self.containment, trials)

    @property
    def why(self) -> str:
        match self.fate:
            case Fate.SAME_FIELD:
                return f"the values of {self.subject} are equal (verify.also_same)"
            case Fate.SAME_TEXT:
                return "the whole text is equal after normalisation"
            case Fate.MATCH | Fate.BELOW:
                return self._compared()
            case Fate.CONTAINED:
                return f"{self._contained()}; {self._compared()}"
            case Fate.DIFFERS:
                subject = f"the {'values of ' * self.subject.startswith('/')}{self.subject}"
                return (
                    f"{subject} differ (verify.agree_on); by the signatures' estimate the "
                    f"similarity is {self.similarity:.4f}"
                )
            case Fate.TOO_OLD:
                within = timedelta(seconds=(self.policy.within or 0) // 1_000)  # no fraction
                return (
                    f"it arrived more than verify.within ({within}) before; "
                    f"the similarity is {self.similarity:.4f}"
                )
            case Fate.HOPELESS:
                return (
                    f"not compared: the signatures' estimate {self.similarity:.4f} is hopelessly "
                    f"far below {self._in_words()[1]}"
                )
            case Fate.SKIPPED:
                return (
                    "not compared: others look more similar, and one of them is a match "
                    f"(verify.max_candidates is {self.policy.max_candidates})"
                )
            case Fate.OUTNUMBERED:
                return (
                    f"not compared: {self.policy.estimated} others share more keys, or longer "
                    "ones; no signatures of more are looked at"
                )
            case Fate.UNASKED:
                return "not compared: an equal text had decided already"
        return "the index no longer has it"

    def _compared(self) -> str:
        """Return the similarity in words, and the containment if that was too small as well."""
        reached, limit = self._in_words()
        said = f"{reached} {'reaches' if self.similarity >= self.wanted else 'misses'} {limit}"
        if self.fate is Fate.BELOW and self.policy.containment is not None:
            said += f"; {self._contained()}"
        return said

    def _in_words(self) -> tuple[str, str]:
        return self.policy.comparer.in_words(self.policy.limit, self.similarity, self.wanted)

    def _contained(self) -> str:
        assert self.containment is not None
        assert self.policy.containment is not None
        share, wanted = distinct(self.containment, self.policy.containment)
        verb = "reaches" if self.containment >= self.policy.containment else "misses"
        whose = "the shorter" if self.policy.contained == "shorter" else "the arriving"
        return f"{share} of {whose} text is in the other and {verb} verify.containment {wanted}"


def _name(places: I64 | None, pair: int, names: Sequence[str]) -> str:
    return names[places[pair]] if places is not None and places[pair] >= 0 else ""


class Outcome(Struct, frozen=True):
    """Candidates with their result: confirmed, rejected, skipped or missing.

    If a document has an equal text, its other candidates are none of these (`Fate.UNASKED`).
    """

    policy: MatchPolicy
    candidates: Candidates
    similarity: F64
    """(p,) similarity of the sets where they were compared, else the signatures' estimate."""
    whole: Flags  # (p,) True where the similarity is exact, False where it is estimated
    sample: I64
    """(p,) independent trials behind an estimate: compared tokens, or what slots are worth."""
    equal_text: Flags
    confirmed: Flags
    rejected: Flags
    skipped: Flags  # (p,) hopeful, but not compared because a better one matched; or outnumbered
    missing: Flags  # (p,) the index no longer has the candidate's record
    compared: Flags
    """(p,) whether the pair was compared by the method, not only estimated by signatures."""
    estimated: F64  # (p,) the signatures' estimate; 0 where they were not compared
    wanted: F64 | float  # (p,) the similarity from which each pair counts, or one for all
    containment: F64 | None = None
    """(p,) share of one set that is in the other; None: the policy does not use it."""
    outnumbered: Flags | None = None
    """(p,) not even estimated; None: such candidates were left out before."""
    differs: I64 | None = None
    """(p,) place in `MatchPolicy.agree_on` of what the two do not agree in, -1 if they agree in all
    of it; None: the policy names nothing."""
    same_field: I64 | None = None
    """(p,) place in `MatchPolicy.also_same` of the first equal value, or -1; None: as above."""

    def where(self, kept: Flags) -> Outcome:
        pairs: dict[str, Any] = {
            name: column[kept]
            for name in self.__struct_fields__
            if isinstance(column := getattr(self, name), np.ndarray)
        }
        return replace(self, candidates=self.candidates.where(kept), **pairs)

    def finding(self, pair: int) -> Finding:
        fate, containment = self._fate(pair), self.containment
        asked = fate not in (Fate.UNASKED, Fate.MISSING, Fate.OUTNUMBERED)
        estimated = 1.0 if fate is Fate.SAME_TEXT else float(self.estimated[pair])
        return Finding(
            policy=self.policy,
            fate=fate,
            similarity=float(self.similarity[pair]),
            exact=bool(self.whole[pair]),
            sample=int(self.sample[pair]),
            wanted=self._wanted(pair),
            estimate=estimated if asked else None,
            containment=None if containment is None else float(containment[pair]),
            subject=_name(self.same_field, pair, self.policy.also_same)
            or _name(self.differs, pair, self.policy.agree_on),
        )

    @property
    def differing(self) -> Flags:
        """Return (p,) which pairs do not agree in what they must."""
        none = np.zeros(len(self.whole), np.bool_)
        return none if self.differs is None else (self.differs >= 0) & ~self.missing

    @property
    def by_field(self) -> Flags:
        """Return (p,) which pairs are the same by a field alone."""
        none = np.zeros(len(self.whole), np.bool_)
        return none if self.same_field is None else (self.same_field >= 0) & ~self.missing

    def fields_of(self, pairs: I64) -> Iterator[str]:
        """Return for each of *pairs* the field that makes it the same, or an empty string."""
        return (_name(self.same_field, pair, self.policy.also_same) for pair in pairs.tolist())

    def proofs(self, pairs: I64) -> list[tuple[Fate, str, float]]:
        """Return fate, method and probability of being wrong of each of the confirmed *pairs*.

        The values are those of `finding`, but computed from whole columns, which is faster. Pairs
        differ in three flags, so there are eight cases. Only estimated pairs need a calculation.
        """
        wanted = np.broadcast_to(self.wanted, len(self.whole))[pairs]
        same, enough = self.equal_text[pairs], self.similarity[pairs] >= wanted
        whole = self.whole[pairs]
        proofs = self._exact_or_not
        found = [proofs[kind] for kind in (4 * same + 2 * enough + whole).tolist()]
        for place in np.flatnonzero(~whole).tolist():
            doubt = self.finding(int(pairs[place])).p_false_positive
            found[place] = (*found[place][:2], doubt)
        return found

    @property
    def _exact_or_not(self) -> list[tuple[Fate, str, float]]:
        """Return the proof of a match for each case of three flags: same text, enough, exact."""
        return [
            (fate := _fate_of_match(same=same, enough=enough),
             method_of(self.policy, fate, exact=exact), 0.0)
            for same, enough, exact in product((False, True), repeat=3)
        ]  # fmt: skip

    def _wanted(self, pair: int) -> float:
        return float(self.wanted[pair] if isinstance(self.wanted, np.ndarray) else self.wanted)

    def _fate(self, pair: int) -> Fate:
        if self.missing[pair]:
            return Fate.MISSING
        if self.same_field is not None and self.same_field[pair] >= 0:
            return Fate.SAME_FIELD
        if self.equal_text[pair] or self.confirmed[pair]:
            enough = self.similarity[pair] >= self._wanted(pair)
            return _fate_of_match(same=bool(self.equal_text[pair]), enough=bool(enough))
        if self.outnumbered is not None and self.outnumbered[pair]:
            return Fate.OUTNUMBERED
        if self.differs is not None and self.differs[pair] >= 0:
            return Fate.DIFFERS
        if self.skipped[pair]:
            return Fate.SKIPPED
        if not self.rejected[pair]:
            return Fate.UNASKED
        looked = self.compared[pair] or self.policy.comparer.compare is None
        return Fate.BELOW if looked else Fate.HOPELESS


def decide(
    outcome: Outcome, stands: Flags, *, describe: Describe, skipped: Flags
) -> Iterator[tuple[int, Decision]]:
    """Yield (row, decision) for each duplicate among the pairs that *stand*.

    *skipped* (n,) says of which rows candidates were left out before.
    """
    pairs = outcome.candidates
    kept = np.flatnonzero(outcome.confirmed & stands)
    order = kept[np.lexsort((pairs.ordinals[kept], -outcome.similarity[kept], pairs.rows[kept]))]
    matches = _matches(outcome, order, describe)
    begins = np.flatnonzero(np.diff(pairs.rows[order], prepend=-1))
    best = order[begins]
    left_out = skipped.copy()
    left_out[pairs.rows[outcome.skipped & stands]] = True
    rows, ends = pairs.rows[best], [*begins[1:].tolist(), len(order)]
    best_of = zip(rows.tolist(), outcome.proofs(best), left_out[rows].tolist(), strict=True)
    for (row, proof, cut), begin, end in zip(best_of, begins.tolist(), ends, strict=False):
        fate, method, p_false_positive = proof
        found = tuple(envelope.within(matches[begin:end]))
        cut |= len(found) < end - begin
        if fate is Fate.SAME_TEXT:
            yield row, Decision(Verdict.EXACT_DUPLICATE, found, method)
        else:
            yield row, Decision(Verdict.NEAR_DUPLICATE, found, method, cut, p_false_positive)


def _matches(outcome: Outcome, order: I64, describe: Describe) -> list[Match]:
    """Return the matches of the pairs in *order*, made from whole columns for speed."""
    pairs, equal = outcome.candidates, outcome.equal_text[order]
    ordinals = pairs.ordinals[order]
    contained: list[float] | Iterator[None] = repeat(None)
    if outcome.containment is not None:
        contained = outcome.containment[order].tolist()
    described = describe(ordinals)
    return list(
        map(
            Match,
            (document_id for document_id, _ in described),
            outcome.similarity[order].tolist(),
            np.where(equal, 0, pairs.bands[order]).tolist(),
            (source for _, source in described),
            ordinals.tolist(),
            contained,
        )
    )
