"""What became of the pairs, why, in words, and the verdict: said once, for whoever tells it.

`verification` finds an outcome, `decide` makes verdicts of it, and evidence, `explain` and the
others take a verdict's method, its numbers and its reason from here, so that none can differ. The
best match is the most similar one, then the oldest; every confirmed match is evidence. A document
without a confirmed match is unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, product, repeat

import msgspec
import numpy as np

from streamfilter.matching.candidates import Candidates
from streamfilter.matching.comparers import distinct
from streamfilter.matching.policy import MatchPolicy
from streamfilter.model import Decision, Match, Reason, Source, Verdict
from streamfilter.similarity.columns import F64, I64, Flags
from streamfilter.similarity.doubt import chance_below, chance_below_of_slots

Describe = Callable[[I64], Sequence[tuple[str, Source]]]
"""Ordinals of confirmed candidates → the id of each, and where it came from."""

UNIQUE = Decision(Verdict.UNIQUE)
SHORT = {
    "forward": Decision(Verdict.PASSTHROUGH, reason=Reason.SHORT),
    "drop": Decision(Verdict.DROPPED, reason=Reason.SHORT),
}
"""By the policy's ``short_text``: of a text that has nothing to be judged by."""


class Fate(StrEnum):
    """What became of a candidate."""

    SAME_TEXT = "same_text"
    MATCH = "match"
    """Similar enough."""
    CONTAINED = "contained"
    """Not similar enough, but so much of one text is in the other."""
    BELOW = "below_threshold"
    HOPELESS = "hopeless"
    """Not compared: the signatures say that the sets cannot reach it."""
    SKIPPED = "not_compared"
    """Not compared: others looked more similar, and ``max_candidates`` were compared."""
    OUTNUMBERED = "outnumbered"
    """Not even estimated: so many others share more, or longer, keys with the document."""
    UNASKED = "not_asked"
    """Not compared: an equal text had decided already."""
    UNMET = "unmet"
    """They share no key: no filter ever compares them."""
    MISSING = "missing"
    """The index no longer has its record."""


MATCHES_BYTES_MAX = 3_072
"""Of a duplicate's matches as JSON. Ids may have 1 KB each, and a duplicate 80 bytes: eight such
matches made an output record 114 times as large as the input record. The best one always stays."""
MATCH_BYTES = 125
"""What a match takes beside its id and its topic, at most."""

CONFIRMED = frozenset({Fate.SAME_TEXT, Fate.MATCH, Fate.CONTAINED})


def method_of(policy: MatchPolicy, fate: Fate, *, exact: bool) -> str:
    """Return how a match was found, as the evidence spells it."""
    if fate is Fate.SAME_TEXT:
        return "exact_text"
    if not policy.comparer.on_sets:
        return policy.method
    measure = "containment" if fate is Fate.CONTAINED else "jaccard"
    return f"{'exact' if exact else 'sampled'}_{measure}"


def _fate_of_match(*, same: bool, enough: bool) -> Fate:
    """Return why a pair is a match: the *same* text, *enough* similarity, else what it contains."""
    if same:
        return Fate.SAME_TEXT
    return Fate.MATCH if enough else Fate.CONTAINED


@dataclass(frozen=True, slots=True)
class Finding:
    """One pair of a document and a candidate, under a policy."""

    policy: MatchPolicy
    fate: Fate
    similarity: float
    """Of the sets if they were compared, else the signatures' estimate."""
    exact: bool
    """True where the similarity is no estimate."""
    sample: int
    """Independent trials behind an estimated similarity: tokens looked at, or slots' worth."""
    wanted: float
    """The similarity from which this pair counts."""
    estimate: float | None
    """What the signatures say; None where they were not asked."""
    containment: float | None
    """Share of one set that is in the other; None: the policy does not ask."""

    @property
    def confirmed(self) -> bool:
        """Return whether the pair is a match."""
        return self.fate in CONFIRMED

    @property
    def method(self) -> str:
        """Return how a match was found, as the evidence spells it."""
        return method_of(self.policy, self.fate, exact=self.exact)

    @property
    def p_false_positive(self) -> float:
        """Return the probability that a match is below what was wanted after all."""
        if self.exact:
            return 0.0
        if self.fate is Fate.CONTAINED:
            return self._contains_less()
        below = chance_below if self.policy.comparer.on_sets else chance_below_of_slots
        return below(self.wanted, self.similarity, self.sample)

    def _contains_less(self) -> float:
        """Return the probability that less is contained than the policy wants.

        What was looked at of the union holds the contained set's share of it: so many trials.
        """
        assert self.containment is not None
        assert self.policy.containment is not None
        agreed = self.similarity * self.sample
        trials = max(round(agreed / self.containment), 1) if self.containment else 1
        return chance_below(self.policy.containment, self.containment, trials)

    @property
    def why(self) -> str:
        """Return in words what decided about the pair."""
        match self.fate:
            case Fate.SAME_TEXT:
                return "the whole text is equal after normalisation"
            case Fate.MATCH | Fate.BELOW:
                return self._compared()
            case Fate.CONTAINED:
                return f"{self._contained()}; {self._compared()}"
            case Fate.HOPELESS:
                return (
                    f"not compared: the signatures' estimate {self.similarity:.4f} is hopelessly "
                    f"far below {self._in_words()[1]}"
                )
            case Fate.SKIPPED:
                return f"not compared: verify.max_candidates is {self.policy.max_candidates}"
            case Fate.OUTNUMBERED:
                return (
                    f"not compared: {self.policy.estimated} others share more keys, or longer "
                    "ones; no signatures of more are looked at"
                )
            case Fate.UNASKED:
                return "not compared: an equal text had decided already"
        return "the index no longer has it"

    def _compared(self) -> str:
        """Return what the similarity says, and the containment where it was too small as well."""
        reached, limit = self._in_words()
        said = f"{reached} {'reaches' if self.similarity >= self.wanted else 'misses'} {limit}"
        if self.fate is Fate.BELOW and self.policy.containment is not None:
            said += f"; {self._contained()}"
        return said

    def _in_words(self) -> tuple[str, str]:
        return self.policy.comparer.in_words(self.policy, self.similarity, self.wanted)

    def _contained(self) -> str:
        assert self.containment is not None
        assert self.policy.containment is not None
        share, wanted = distinct(self.containment, self.policy.containment)
        verb = "reaches" if self.containment >= self.policy.containment else "misses"
        whose = "the shorter" if self.policy.contained == "shorter" else "the arriving"
        return f"{share} of {whose} text is in the other and {verb} verify.containment {wanted}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Candidates with their fate: confirmed, rejected, skipped or missing.

    The other candidates of a document that has an equal text have none: nobody asked.
    """

    policy: MatchPolicy
    candidates: Candidates
    similarity: F64
    """(p,) of the sets where they were compared, else the signature's estimate."""
    whole: Flags
    """(p,) True where the similarity is exact, False where it is estimated."""
    sample: I64
    """(p,) independent trials behind an estimated similarity: tokens looked at, or slots' worth."""
    equal_text: Flags
    confirmed: Flags
    rejected: Flags
    skipped: Flags
    """(p,) hopeful, but beyond ``max_candidates``; or outnumbered."""
    missing: Flags
    """(p,) the index no longer has the candidate's record."""
    compared: Flags
    """(p,) whose similarity is more than the signatures' estimate, if the method looks further."""
    estimated: F64
    """(p,) what the signatures say; 0 where they were not asked."""
    wanted: F64 | float
    """(p,) the similarity from which each pair counts, or one for all."""
    containment: F64 | None = None
    """(p,) share of one set that is in the other; None: the policy does not ask."""
    outnumbered: Flags | None = None
    """(p,) not even estimated; None: who is, was left out before."""

    def finding(self, pair: int) -> Finding:
        """Return what became of one pair, and why."""
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
        )

    def proofs(self, pairs: I64) -> list[tuple[Fate, str, float]]:
        """Return of each of the confirmed *pairs* its fate, method and probability of being wrong.

        As `finding` has them, but from whole columns: pairs differ in three flags, and most are
        exact, so of those there is nothing to calculate.
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
        """Return what is to be told of a match by three flags: same text, enough alike, exact."""
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
        if self.equal_text[pair] or self.confirmed[pair]:
            enough = self.similarity[pair] >= self._wanted(pair)
            return _fate_of_match(same=bool(self.equal_text[pair]), enough=bool(enough))
        if self.outnumbered is not None and self.outnumbered[pair]:
            return Fate.OUTNUMBERED
        if self.skipped[pair]:
            return Fate.SKIPPED
        if not self.rejected[pair]:
            return Fate.UNASKED
        looked = self.compared[pair] or self.policy.comparer.compare is None
        return Fate.BELOW if looked else Fate.HOPELESS


def decide(
    outcome: Outcome,
    stands: Flags,
    *,
    describe: Describe,
    skipped: Flags,
) -> Iterator[tuple[int, Decision]]:
    """Yield (row, decision) for each duplicate among the pairs that *stand*.

    *skipped* (n,) tells of each row whether candidates were left out before.
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
        found = tuple(within(matches[begin:end]))
        cut |= len(found) < end - begin
        if fate is Fate.SAME_TEXT:
            yield row, Decision(Verdict.EXACT_DUPLICATE, found, method)
        else:
            yield row, Decision(Verdict.NEAR_DUPLICATE, found, method, cut, p_false_positive)


def within(matches: Sequence[Match]) -> Sequence[Match]:
    """Return the first of *matches*, and of the others as many as fit in `MATCHES_BYTES_MAX`."""
    if len(matches) == 1:
        return matches
    sizes = (
        len(msgspec.json.encode(each.document_id)) + len(each.source.topic) + MATCH_BYTES
        for each in matches
    )
    fits = sum(total <= MATCHES_BYTES_MAX for total in accumulate(sizes))
    return matches[: max(fits, 1)]


def _matches(outcome: Outcome, order: I64, describe: Describe) -> list[Match]:
    """Return the matches of the pairs in *order*, made from whole columns: ten times as fast."""
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
