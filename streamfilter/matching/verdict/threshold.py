"""The threshold: the similarity from which a pair is a match, by the sizes of its sets or by slots.

In a short text one changed word moves Jaccard far, and so does chance. So the threshold of a short
text may be another one: *short* at size 0, and from there on a line to *least* at *short_size*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamfilter.similarity.columns import F64, I64
from streamfilter.similarity.minhash import estimate


@dataclass(frozen=True, slots=True)
class Threshold:
    """The settings of a policy that say how similar a match must be."""

    least: float
    agree: int
    of: int  # with the method ``sketch``: similar if *agree* of the first *of* slots are equal
    short: float | None = None
    short_size: int = 32
    sample_modulus: int = 1

    def of_sets(self, ours: I64, theirs: I64) -> F64 | float:
        """Return the threshold of each pair, given the sizes of its sets."""
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
