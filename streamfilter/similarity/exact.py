"""Verification on sets: the Jaccard similarity of many pairs of token samples at once.

A sample is the 1,024 smallest distinct 32-bit tokens of a text. If both samples are whole sets, the
result is exact. If one is cut, both are read up to the largest token of the cut one. Below that
limit each sample has every token of its set, and the share of common tokens estimates the
similarity. (This is a bottom-k sketch: the tokens below the limit are a uniform sample of the
union.)
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamfilter.similarity.columns import I64, U32, U64, Samples, slices
from streamfilter.similarity.scheme import SAMPLE_TOKENS

TOKENS_MAX = 1 << 14
"""Tokens compared at a time, so that temporaries stay in the processor's cache. With four times as
many, each costs twice as much."""
_PAIR = np.uint64(32)  # shift of a pair's number: it occupies the bits above those of a token


class Compared(Struct, frozen=True):
    """The similarity of p pairs."""

    similarity: NDArray[np.float64]
    whole: NDArray[np.bool_]  # true where both samples were whole sets: the similarity is exact
    union: I64  # tokens of the union that were compared: the sample size of an estimate


def jaccard(left: Samples, left_rows: I64, right: Samples, right_rows: I64) -> Compared:
    """Return the similarity of each pair (left[left_rows[p]], right[right_rows[p]]).

    Two empty sets have similarity 0: nothing in common is no evidence.
    """
    pairs = len(left_rows)
    common, union = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
    limits = np.minimum(_limits(left)[left_rows], _limits(right)[right_rows])
    ours, theirs = _Read.of(left, left_rows), _Read.of(right, right_rows)
    ends, begin = np.cumsum(ours.sizes + theirs.sizes), 0
    while begin < pairs:
        done = ends[begin - 1] if begin else 0
        stop = max(int(np.searchsorted(ends, done + TOKENS_MAX, "right")), begin + 1)
        part = slice(begin, stop)
        common[part], union[part] = _count(ours, theirs, limits[part], part)
        begin = stop
    whole = (left.set_sizes[left_rows] <= SAMPLE_TOKENS) & (
        right.set_sizes[right_rows] <= SAMPLE_TOKENS
    )
    similarity = common / np.maximum(union, 1)
    return Compared(similarity, whole, union)


class _Read(Struct, frozen=True):
    """One side of all pairs: the position of each pair's tokens in the samples."""

    tokens: U32
    starts: I64
    sizes: I64

    @classmethod
    def of(cls, samples: Samples, rows: I64) -> _Read:
        return cls(samples.tokens, samples.starts[rows], samples.sizes[rows])

    def keyed(self, part: slice, limits: U64) -> U64:
        """Return the tokens of a *part* up to their limits, the pair's number in the top bits."""
        starts, sizes = self.starts[part], self.sizes[part]
        keyed = self.tokens.take(slices(starts, sizes)).astype(np.uint64)
        owners = np.repeat(np.arange(len(sizes), dtype=np.uint64) << _PAIR, sizes)
        if (limits < 2**32 - 1).any():
            kept = keyed <= np.repeat(limits, sizes)
            keyed, owners = keyed[kept], owners[kept]
        keyed |= owners
        return keyed


def _count(ours: _Read, theirs: _Read, limits: U64, part: slice) -> tuple[I64, I64]:
    """Return the sizes of intersection and union of each pair of a *part* below its limit.

    Example of one pair (number 0): our tokens 2, 5, 9 and their tokens 5, 7 merge to 2, 5, 5, 7, 9.
    One neighbour is equal: 1 in common, and 5 - 1 = 4 in the union.
    """
    # Both are sorted runs, which the stable sort merges.
    merged = np.concatenate((ours.keyed(part, limits), theirs.keyed(part, limits)))
    merged.sort(kind="stable")
    same = np.flatnonzero(merged[1:] == merged[:-1])
    # Pairs are consecutive: searching where each ends is faster than counting.
    ends = np.searchsorted(merged, np.arange(1, len(limits) + 1, dtype=np.uint64) << _PAIR)
    common = np.diff(np.searchsorted(same, ends), prepend=0)
    return common, np.diff(ends, prepend=0) - common


def _limits(samples: Samples) -> U64:
    """Return the largest token up to which each sample is complete."""
    limits = np.full(len(samples.set_sizes), 2**32 - 1, np.uint64)
    cut = np.flatnonzero(samples.set_sizes > SAMPLE_TOKENS)
    limits[cut] = samples.tokens[samples.starts[cut + 1] - 1]
    return limits
