"""What counts as similar, pair by pair: thresholds by size, containment, agreeing slots.

Containment is |A and B| over the size of the contained set. With Jaccard J and the sizes a and
b of both sets, |A and B| = J (a + b) / (1 + J), so what finds J finds containment too, from whole
sets exactly and from samples as an estimate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.minhash import estimate

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def raised_thresholds(
    threshold: float, *, short_threshold: float, short_size: int, sizes: I64
) -> F64:
    """Return the threshold of each pair whose smaller set has *sizes* shingles.

    In a short text one changed word moves Jaccard far, and by chance too: it starts from
    *short_threshold* for nothing at all and falls in a line to *threshold* at *short_size*.
    """
    share = np.minimum(sizes, short_size) / short_size
    line = short_threshold + (threshold - short_threshold) * share
    return np.where(sizes >= short_size, threshold, line)


def containment(jaccard: F64, contained: I64, other: I64) -> F64:
    """Return the share of the *contained* set (sizes of both) that is in the other."""
    common = jaccard * (contained + other) / (1.0 + jaccard)
    whole = np.rint(common)
    # Whole sets have a whole intersection; a sample's stays what it is.
    common = np.where(np.abs(common - whole) < 1e-6, whole, common)
    return np.minimum(common / np.maximum(contained, 1), 1.0)


def jaccard_of(share: float, contained: I64, other: I64) -> F64:
    """Return the Jaccard similarity at which *share* of the *contained* set is in the other.

    Above 1 where the other is too small to hold so much.
    """
    common = share * contained
    union = contained + other - common
    return np.where(common > other, 2.0, common / np.maximum(union, 1e-9))


def agreeing_share(agree: int, of: int) -> float:
    """Return the estimate at which exactly *agree* of *of* 8-bit slots are equal."""
    return float(estimate(np.array([agree], np.int64), of)[0])
