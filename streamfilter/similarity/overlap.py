"""An exact set join: all pairs of samples that share most of their tokens, without signatures.

The audit uses it: every pair that reaches the threshold is returned. It is a prefix filter
(Chaudhuri, Ganti, Kaushik 2006). If a sample of n tokens must share c of them, then at least l of
any n - c + l of its tokens are shared. So only the n - c + l rarest tokens are looked up. Pairs
that share l of these are compared whole. The result equals that of comparing all with all.

Example with l = 1: a sample has the tokens 1, 2, 3, 4, 5 and must share 4 of them. Then one of any
two tokens is shared. The two rarest are looked up, and the pairs found are compared whole.

A pair at the threshold t shares at least t times the tokens of either sample. This also holds for
samples cut to their 1,024 smallest tokens. The tokens that can be compared contain the whole of a
cut sample, and no sample is larger.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.columns import F64, I64, Samples, slices
from streamfilter.similarity.exact import jaccard

CELLS_MAX = 1 << 20  # pairs and common tokens counted at a time: temporaries stay near 8 MiB

WANTED = 8
"""l is a pair's required common tokens divided by this. With l = 1 one common token would do, but
short shingles are so common that far too many pairs would be compared."""

_ROUNDING = 1e-9


SCREEN_BITS = 22  # of a token: 4 MiB, a tenth set by 2,000 samples of 200 tokens


class Screen:
    """A fast filter for samples that cannot be similar to any of *samples*: 1 to 2 ns a token.

    A sample that shares the part t of its tokens with one of *samples* shares at least that part
    with all of them together. Few samples do, and only these are looked up in the postings.
    """

    def __init__(self, samples: Samples) -> None:
        self._held = np.zeros(1 << SCREEN_BITS, bool)
        self._held[samples.tokens >> np.uint32(32 - SCREEN_BITS)] = True

    def covers(self, others: Samples, *, threshold: float) -> NDArray[np.bool_]:
        """Return which of *others* may reach *threshold* with some of the samples."""
        held = self._held[others.tokens >> np.uint32(32 - SCREEN_BITS)]
        before = np.concatenate(([0], np.cumsum(held)))
        shared, sizes = np.diff(before[others.starts]), others.sizes
        return (shared >= threshold * sizes - _ROUNDING) & (sizes > 0)


class Postings:
    """An inverted index: for each token of *samples*, the samples that contain it."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        owners = np.arange(len(samples.set_sizes), dtype=np.uint64)
        # Sorted in place, then halved to 32 bits: new memory costs more here than the sort.
        keyed = samples.tokens.astype(np.uint64)
        keyed <<= np.uint64(32)
        keyed |= np.repeat(owners, samples.sizes)
        keyed.sort()
        self._owners = keyed.astype(np.uint32)
        keyed >>= np.uint64(32)
        first = np.ones(len(keyed), bool)
        np.not_equal(keyed[1:], keyed[:-1], out=first[1:])
        self._starts = np.append(np.flatnonzero(first), len(keyed))
        self._tokens = keyed[first].astype(np.uint32)

    def similar(self, others: Samples, *, threshold: float) -> tuple[I64, I64, F64]:
        """Return (rows of *others*, our rows, similarity) of all pairs from *threshold* on."""
        shared = np.ceil(threshold * others.sizes - _ROUNDING).astype(np.int64)
        rows, ours, _ = self._meeting(others, shared, -(-shared // WANTED))
        similarity = jaccard(others, rows, self._samples, ours).similarity
        kept = similarity >= threshold
        return rows[kept], ours[kept], similarity[kept]

    def overlapping(self, others: Samples, *, share: float) -> tuple[I64, I64, F64]:
        """Return the pairs in which so large a *share* of the smaller set is in the other one.

        Pairs with a set that was cut need one common token only. All tokens are looked up, because
        a small set shares few of a large one's.
        """
        one = np.minimum(others.sizes, 1)
        rows, ours, common = self._meeting(others, one, one)
        theirs, own = others.set_sizes[rows], self._samples.set_sizes[ours]
        cut = (others.sizes[rows] < theirs) | (self._samples.sizes[ours] < own)
        kept = cut | (common >= share * np.minimum(theirs, own) - _ROUNDING)
        rows, ours = rows[kept], ours[kept]
        return rows, ours, jaccard(others, rows, self._samples, ours).similarity

    def _meeting(self, others: Samples, shared: I64, wanted: I64) -> tuple[I64, I64, I64]:
        """Return the pairs with *shared* common tokens, perhaps others, and what they have found.

        Of each row so many tokens are looked up that such a pair has *wanted* of them in common.
        """
        parts = [(np.zeros(0, np.int64),) * 3]
        if len(self._tokens):
            parts += self._candidates(others, shared, wanted)
        rows, ours, common = map(np.concatenate, zip(*parts, strict=True))
        return rows, ours, common

    def _candidates(
        self, others: Samples, shared: I64, wanted: I64
    ) -> Iterator[tuple[I64, I64, I64]]:
        """Yield pairs with enough common tokens, some rows of *others* at a time."""
        sizes = others.sizes
        rows = np.repeat(np.arange(len(sizes)), sizes)
        at = np.searchsorted(self._tokens, others.tokens).clip(max=len(self._tokens) - 1)
        counts = self._starts[at + 1] - self._starts[at]
        counts[self._tokens[at] != others.tokens] = 0
        # Rarest first, within each row. A token that no sample contains is not looked up.
        order = np.lexsort((counts, rows))
        place = np.arange(len(rows)) - others.starts[rows]
        asked = order[(place < (sizes - shared + wanted)[rows]) & (counts[order] > 0)]
        rows, at, counts = rows[asked], at[asked], counts[asked]
        # A row costs its cells and its common tokens. A row above the limit is still taken.
        cost = np.bincount(rows, counts, minlength=len(sizes)) + len(self._samples.set_sizes)
        turns = (np.cumsum(cost) // CELLS_MAX)[rows]
        bounds = [0, *(np.flatnonzero(np.diff(turns)) + 1).tolist(), len(rows)]
        for part in (slice(begin, end) for begin, end in pairwise(bounds) if begin < end):
            yield self._meetings(rows[part], at[part], counts[part], wanted)

    def _meetings(self, rows: I64, at: I64, counts: I64, wanted: I64) -> tuple[I64, I64, I64]:
        gather = slices(self._starts[at], counts)
        width, base = len(self._samples.set_sizes), int(rows[0])
        met = np.bincount(np.repeat((rows - base) * width, counts) + self._owners[gather])
        pairs = np.flatnonzero(met)
        left, right = np.divmod(pairs, width)
        left += base
        kept = met[pairs] >= wanted[left]
        return left[kept], right[kept], met[pairs][kept]
