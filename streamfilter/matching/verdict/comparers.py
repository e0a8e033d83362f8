"""How a pair is compared: all that differs between the methods of verification.

The signatures' estimate comes first and costs little. A comparer has three parts:

- how far below the threshold an estimate may lie so that the pair is still compared;
- a comparison beyond the signatures, if the method has one;
- the result in words.

A method is a line of `COMPARERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from streamfilter.similarity.columns import F64, I64, Contents
from streamfilter.similarity.exact import Compared, jaccard
from streamfilter.similarity.minhash import estimate
from streamfilter.similarity.statistics.doubt import EQUAL_BY_CHANCE

if TYPE_CHECKING:
    from streamfilter.entities.scoring import FieldRules


class Threshold(Struct, frozen=True):
    """The similarity from which a pair is a match, by the sizes of its sets or by slots.

    In a short text one changed word moves Jaccard far, and so does chance. So the threshold of a
    short text may be another one: *short* at size 0, and from there on a line to *least* at
    *short_size*.
    """

    least: float
    agree: int
    of: int  # with the method ``sketch``: similar if *agree* of the first *of* slots are equal
    short: float | None = None
    short_size: int = 32
    sample_modulus: int = 1

    def of_sets(self, ours: I64, theirs: I64) -> F64 | float:
        if self.short is None:
            return self.least
        # Sizes count the kept tokens only; short_size counts all shingles of the text.
        sizes = np.minimum(ours, theirs) * self.sample_modulus
        share = np.minimum(sizes, self.short_size) / self.short_size
        line = self.short + (self.least - self.short) * share
        return np.where(sizes >= self.short_size, self.least, line)

    def of_slots(self, ours: I64, theirs: I64) -> float:
        """Return the estimate at which just enough slots are equal, whatever the sizes."""
        return agreeing_share(self.agree, self.of)


def agreeing_share(agree: int, of: int) -> float:
    """Return the estimate at which exactly *agree* of *of* 8-bit slots are equal."""
    return float(estimate(np.array([agree], np.int64), of)[0])


Compare = Callable[["FieldRules", Contents, I64, Contents, I64], Compared]
"""Compares pairs: a row of the first contents with a row of the second. Records have rules for
their fields."""


def _sets(_: FieldRules, ours: Contents, rows: I64, theirs: Contents, at: I64) -> Compared:
    return jaccard(ours.samples, rows, theirs.samples, at)


def _records(rules: FieldRules, ours: Contents, rows: I64, theirs: Contents, at: I64) -> Compared:
    from streamfilter.entities.scoring import compare_records  # texts need no records

    left = [ours.payloads[row] for row in rows.tolist()]
    return compare_records(left, [theirs.payloads[row] for row in at.tolist()], rules)


def _in_words(threshold: Threshold, similarity: float, wanted: float) -> tuple[str, str]:
    value, limit = distinct(similarity, wanted)
    short = "" if wanted == threshold.least else " of so short a text (verify.short_threshold)"
    return f"similarity {value}", f"the threshold {limit}{short}"


def _score_in_words(_: Threshold, similarity: float, wanted: float) -> tuple[str, str]:
    value, limit = distinct(similarity, wanted)
    return f"score {value}", f"the threshold {limit}"


def _slots_in_words(threshold: Threshold, similarity: float, wanted: float) -> tuple[str, str]:
    # The estimate has no chance equalities; add them back to get the slots that agree.
    share = similarity + (1.0 - similarity) * EQUAL_BY_CHANCE
    agreed = f"{round(share * threshold.of)} of {threshold.of} slots agree: that"
    return agreed, f"the {threshold.agree} that are wanted"


def distinct(value: float, limit: float) -> tuple[str, str]:
    """Return both as text, with enough digits to see which one is larger."""
    for digits in (4, 6, 9):
        written = f"{value:.{digits}f}", f"{limit:.{max(digits, 6)}g}"
        if (float(written[0]) >= float(written[1])) == (value >= limit):
            return written
    return repr(value), repr(limit)


PASSED_OVER = 1e-4
"""Share of the pairs exactly at the threshold that are not compared, because their signatures'
estimate is too low by chance. For more similar pairs the share is far smaller."""


class Comparer(Struct, frozen=True):
    """One way to compare a pair."""

    compare: Compare | None = None
    """The comparison beyond the signatures; None: the estimate is the result."""
    deviations: float = 0.0
    """How many standard errors below the threshold an estimate may lie so that the pair is still
    compared, as if errors were normal (`doubt.least_likely`). Infinite: every pair is compared,
    because the signatures do not predict the result."""
    on_sets: bool = False
    """Whether sets of shingles are compared. The evidence then says whether they are whole."""
    sized: bool = True
    """Whether set sizes are known: containment and thresholds of short texts need them."""
    slots: Callable[[Threshold, int], int] = lambda _, slots: slots
    """Returns how many of a signature's slots are compared."""
    wanted: Callable[[Threshold, I64, I64], F64 | float] = Threshold.of_sets
    """The similarity from which each pair counts, given the sizes of its sets."""
    in_words: Callable[[Threshold, float, float], tuple[str, str]] = _in_words
    """Returns a similarity and its threshold in words: the texts before and after "reaches"."""


COMPARERS = {
    "exact": Comparer(_sets, deviations=-NormalDist().inv_cdf(PASSED_OVER), on_sets=True),
    "signature": Comparer(),
    "sketch": Comparer(slots=lambda threshold, slots: min(threshold.of, slots),
                       wanted=Threshold.of_slots, in_words=_slots_in_words, sized=False),
    "fields": Comparer(_records, deviations=inf, in_words=_score_in_words,
                       sized=False),
}  # fmt: skip
"""By ``verify.method``. Records are compared by `fields`, whatever the method for texts is."""
