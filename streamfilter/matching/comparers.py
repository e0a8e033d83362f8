"""How a pair is compared: what is particular to each method of verification, and nothing else is.

The signatures' estimate comes first and costs little. A comparer says how far an estimate may lie
below what is wanted and still be looked into, looks further than the signatures if it can, and
says in words what it saw. A method is a line of `COMPARERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from streamfilter.entities.scoring import compare_records
from streamfilter.similarity.columns import F64, I64, Contents
from streamfilter.similarity.doubt import EQUAL_BY_CHANCE
from streamfilter.similarity.exact import Compared, jaccard
from streamfilter.similarity.minhash import estimate

if TYPE_CHECKING:
    from streamfilter.matching.policy import MatchPolicy


Compare = Callable[["MatchPolicy", Contents, I64, Contents, I64], Compared]
"""Compares each pair of a row of the one contents and a row of the other."""


def _sets(_: MatchPolicy, ours: Contents, rows: I64, theirs: Contents, at: I64) -> Compared:
    return jaccard(ours.samples, rows, theirs.samples, at)


def _records(policy: MatchPolicy, ours: Contents, rows: I64, theirs: Contents, at: I64) -> Compared:
    left = [ours.payloads[row] for row in rows.tolist()]
    return compare_records(left, [theirs.payloads[row] for row in at.tolist()], policy.fields)


def _all_slots(_: MatchPolicy, slots: int) -> int:
    return slots


def _first_slots(policy: MatchPolicy, slots: int) -> int:
    return min(policy.of, slots)


def _threshold(policy: MatchPolicy, ours: I64, theirs: I64) -> F64 | float:
    return policy.threshold_of(ours, theirs)


def agreeing_share(agree: int, of: int) -> float:
    """Return the estimate at which exactly *agree* of *of* 8-bit slots are equal."""
    return float(estimate(np.array([agree], np.int64), of)[0])


def _agreeing(policy: MatchPolicy, ours: I64, theirs: I64) -> float:
    return agreeing_share(policy.agree, policy.of)


def _in_words(policy: MatchPolicy, similarity: float, wanted: float) -> tuple[str, str]:
    value, limit = distinct(similarity, wanted)
    short = "" if wanted == policy.threshold else " of so short a text (verify.short_threshold)"
    measure = "score" if policy.comparer.records else "similarity"
    return f"{measure} {value}", f"the threshold {limit}{short}"


def _slots_in_words(policy: MatchPolicy, similarity: float, wanted: float) -> tuple[str, str]:
    # Chance equalities were taken off the estimate, and are put back.
    share = similarity + (1.0 - similarity) * EQUAL_BY_CHANCE
    agreed = f"{round(share * policy.of)} of {policy.of} slots agree: that"
    return agreed, f"the {policy.agree} that are wanted"


def distinct(value: float, limit: float) -> tuple[str, str]:
    """Return both as text, to so many digits that the text says which of them is larger."""
    for digits in (4, 6, 9):
        written = f"{value:.{digits}f}", f"{limit:.{max(digits, 6)}g}"
        if (float(written[0]) >= float(written[1])) == (value >= limit):
            return written
    return repr(value), repr(limit)


PASSED_OVER = 1e-4
"""Of the pairs exactly at what is wanted, by what their signatures say, so many are not compared;
of more similar ones far fewer."""


@dataclass(frozen=True, slots=True)
class Comparer:
    """One way to compare a pair."""

    compare: Compare | None = None
    """Looks further than the signatures; None: their estimate is all there is."""
    deviations: float = 0.0
    """How many standard errors an estimate may lie below what is wanted and still be compared, if
    errors were normal (`doubt.least_likely`); infinite: the signatures say nothing of what is
    compared."""
    on_sets: bool = False
    """Compares sets of shingles: the evidence says whether whole ones, and how much is common."""
    sized: bool = True
    """The sizes of the two sets may have a say: containment, and thresholds of short texts."""
    records: bool = False
    """Compares records by their fields; all others compare texts."""
    slots: Callable[[MatchPolicy, int], int] = _all_slots
    """How many of so many slots are compared."""
    wanted: Callable[[MatchPolicy, I64, I64], F64 | float] = _threshold
    """The similarity from which each pair counts, given the sizes of its sets."""
    in_words: Callable[[MatchPolicy, float, float], tuple[str, str]] = _in_words
    """A similarity and the one that is wanted: what stands before "reaches", and behind it."""


COMPARERS = {
    "exact": Comparer(_sets, deviations=-NormalDist().inv_cdf(PASSED_OVER), on_sets=True),
    "signature": Comparer(),
    "sketch": Comparer(slots=_first_slots, wanted=_agreeing, in_words=_slots_in_words, sized=False),
    "fields": Comparer(_records, deviations=inf, records=True, sized=False),
}
"""By ``verify.method``; `fields` is how records are compared, whatever the method of texts."""
