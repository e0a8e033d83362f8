"""Which samples share most of their tokens: all such pairs, with no signature and no band.

This is what an audit compares by: every pair that reaches the threshold is returned, whatever
its shape. Two sets that share c tokens share at least l of their smallest ones, if of each that
holds n the n - c + l smallest are looked at (the prefix filter of exact set joins: Chaudhuri,
Ganti, Kaushik 2006; any order of tokens will do, and theirs is random already). So a part of
each set is put into lists of who holds a token, pairs with enough meetings there are compared
whole, and the result is that of comparing all with all.

A pair at the threshold t shares at least t times the tokens of either sample. Of samples cut to
their 1,024 smallest tokens, too: the tokens that can be compared contain the whole of a cut
sample, and no sample is larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.exact import Samples, jaccard

I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]
F64 = NDArray[np.float64]

CELLS_MAX = 1 << 20
"""Pairs, and meetings of pairs, that are counted at a time: temporaries stay near 8 MiB."""

WANTED = 4
"""A pair must meet in this part of the tokens it must share. One meeting would do for l = 1, but
common tokens (boilerplate, short shingles) would then bring far too many pairs to compare."""

_ROUNDING = 1e-9


class Postings:
    """For each token among the smallest of *samples*: who holds it."""

    def __init__(self, samples: Samples, *, threshold: float) -> None:
        self._samples, self._threshold = samples, threshold
        owners, tokens, self._wanted = _smallest(samples, threshold)
        keyed = (tokens.astype(np.uint64) << np.uint64(32)) | owners.astype(np.uint64)
        keyed.sort()
        tokens = (keyed >> np.uint64(32)).astype(np.uint32)
        first = np.ones(len(tokens), bool)
        np.not_equal(tokens[1:], tokens[:-1], out=first[1:])
        self._starts = np.append(np.flatnonzero(first), len(tokens))
        self._tokens = tokens[first]
        self._owners = (keyed & np.uint64(0xFFFFFFFF)).astype(np.int64)

    def similar(self, others: Samples) -> tuple[I64, I64, F64]:
        """Return (rows of *others*, our rows, similarity) of all pairs from the threshold on."""
        left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        if len(self._tokens):
            for rows, ours in self._candidates(others):
                left.append(rows)
                right.append(ours)
        rows, ours = np.concatenate(left), np.concatenate(right)
        similarity = jaccard(others, rows, self._samples, ours).similarity
        kept = similarity >= self._threshold
        return rows[kept], ours[kept], similarity[kept]

    def _candidates(self, others: Samples) -> Iterator[tuple[I64, I64]]:
        """Yield pairs that meet often enough, some rows of *others* at a time."""
        rows, tokens, wanted = _smallest(others, self._threshold)
        at = np.searchsorted(self._tokens, tokens).clip(max=len(self._tokens) - 1)
        held = np.flatnonzero(self._tokens[at] == tokens)
        rows, at = rows[held], at[held]
        counts = self._starts[at + 1] - self._starts[at]
        width = len(self._wanted)
        # A row costs its cells and its meetings; one row is taken whatever it costs.
        cost = np.bincount(rows, counts, minlength=len(wanted)) + width
        turns = (np.cumsum(cost) // CELLS_MAX)[rows]
        bounds = [0, *(np.flatnonzero(np.diff(turns)) + 1).tolist(), len(rows)]
        for begin, end in pairwise(bounds):
            if begin < end:
                part = slice(begin, end)
                yield self._meetings(rows[part], at[part], counts[part], wanted)

    def _meetings(self, rows: I64, at: I64, counts: I64, wanted: I64) -> tuple[I64, I64]:
        ends = np.cumsum(counts)
        gather = np.repeat(self._starts[at] - (ends - counts), counts) + np.arange(ends[-1])
        width, base = len(self._wanted), int(rows[0])
        met = np.bincount(np.repeat((rows - base) * width, counts) + self._owners[gather])
        pairs = np.flatnonzero(met)
        left, right = np.divmod(pairs, width)
        left += base
        kept = met[pairs] >= np.minimum(wanted[left], self._wanted[right])
        return left[kept], right[kept]


def _smallest(samples: Samples, threshold: float) -> tuple[I64, U32, I64]:
    """Return (row, token) of the smallest tokens of each sample, and (n,) the meetings wanted."""
    sizes = np.diff(samples.starts)
    shared = np.ceil(threshold * sizes - _ROUNDING).astype(np.int64)
    wanted = -(-shared // WANTED)
    looked = sizes - shared + wanted
    ends = np.cumsum(looked)
    gather = np.repeat(samples.starts[:-1] - (ends - looked), looked)
    gather += np.arange(len(gather))
    rows = np.repeat(np.arange(len(sizes)), looked)
    return rows, samples.tokens[gather], wanted
