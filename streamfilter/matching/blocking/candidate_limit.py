"""The limit on the candidates of a document that are fetched and estimated.

In a flood of similar documents each later one has hundreds of candidates; full buckets bound that
at thousands. An attacker could use this to slow the filter down. So only the candidates that share
most with the document are fetched and estimated. A shared key counts by its length, because a
longer key means that more slots agree. Ties go to the oldest.

Example with a bound of 2: three candidates share keys of weight 1, 3 and 1 with a document. The
second is kept for its weight, and the first because it is older than the third.

The candidates of the index and of the batch are ranked together, as if the batch's earlier
documents had been written before. So the choice depends only on the documents before this one,
not on where batches are cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from streamfilter.matching.blocking.candidates import Candidates, joined
from streamfilter.similarity.columns import I64, Flags, ranks

_WEIGHT_BITS = 16
_HEAVIEST = (1 << _WEIGHT_BITS) - 1


class LimitedCandidates(Struct, frozen=True):
    """The index's candidates, for each document those that share most with it."""

    most: int  # how many candidates of a document may be estimated
    met: I64  # (n,) how many candidates each document of the batch has in the index
    candidates: Candidates
    """Those to be estimated if the batch has no better ones. Equal texts are always included."""
    places: I64  # (p,) rank of each among its document's candidates, from 0
    _keys: I64  # row and weight of each as one rising integer: the heaviest first

    @classmethod
    def of(cls, parts: Iterable[Candidates], *, documents: int, most: int) -> LimitedCandidates:
        """Keep the *most* candidates that share most with each document, which is in one part."""
        met, kept = np.zeros(documents, np.int64), list[Candidates]()
        for part in parts:
            met += np.bincount(part.rows, minlength=documents)
            kept.append(foremost(part, met, most))
        candidates = joined(kept)
        places, keys = _ranked(candidates)
        return cls(most, met, candidates, places, keys)

    def at(self, places: NDArray[np.intp]) -> LimitedCandidates:
        """Return only the candidates at *places*; they keep their ranks."""
        return replace(self, candidates=self.candidates.at(places), places=self.places[places])

    def stay(self, own: Candidates) -> tuple[Flags, Flags]:
        """Return which candidates, and which of the batch's younger *own*, are within the bound."""
        known = self.candidates
        stays, own_stays = np.ones(len(known), np.bool_), np.ones(len(own), np.bool_)
        owns = np.bincount(own.rows, minlength=len(self.met))
        if (self.met + owns)[own.rows].max(initial=0) <= self.most:
            return stays, own_stays
        own_places, own_keys = _ranked(own)
        last = np.flatnonzero(self.places + owns[known.rows] >= self.most)
        places = self.places[last] + _before(own_keys, known.at(last), "left")
        stays[last] = (places < self.most) | known.same_text[last]
        own_places += _before(self._keys, own, "right")
        return stays, (own_places < self.most) | own.same_text


def foremost(candidates: Candidates, met: I64, most: int) -> Candidates:
    """Return for each document the *most* pairs with the highest weights; *met* counts its pairs.

    Equal texts are always returned. Three pairs of one row with the weights 1, 3 and 1, and *most*
    2: the first two are returned. The limit is 1: all pairs above it stay, and of those at it as
    many as there is room for, the oldest first.
    """
    rows = candidates.rows
    if not len(rows) or met[rows[0] : rows[-1] + 1].max() <= most:
        return candidates
    # Weights are small numbers: counting how often each occurs is faster than sorting them.
    weights, number = candidates.weights, rows - rows[0]
    kinds = int(weights.max()) + 2
    counts = np.bincount(number * kinds + weights, minlength=kinds * (int(number[-1]) + 1))
    heavier = counts.reshape(-1, kinds)[:, ::-1].cumsum(axis=1)[:, ::-1]
    limits = (heavier >= most).sum(axis=1) - 1  # the lowest weight that is kept
    room = most - heavier[np.arange(len(limits)), limits + 1]
    limit = np.repeat(limits, heavier[:, 0])
    kept = weights > limit
    last = np.flatnonzero(weights == limit)
    kept[last] = ranks(rows[last]) < room[number[last]]
    return candidates.where(kept | candidates.same_text)


def _ranked(candidates: Candidates) -> tuple[I64, I64]:
    """Return each pair's rank in its row, and the rising sort keys of all pairs."""
    keys = candidates.rows << _WEIGHT_BITS | (_HEAVIEST - candidates.weights)
    order = np.argsort(keys, kind="stable")  # ties: the oldest first
    places = np.empty(len(keys), np.int64)
    places[order] = ranks(candidates.rows[order])
    return places, keys[order]


def _before(keys: I64, candidates: Candidates, side: Literal["left", "right"]) -> I64:
    """Return for each pair how many of the rising *keys* of its row come before it."""
    wanted = candidates.rows << _WEIGHT_BITS | (_HEAVIEST - candidates.weights)
    firsts = np.searchsorted(keys, np.arange(candidates.rows.max(initial=-1) + 1) << _WEIGHT_BITS)
    return np.searchsorted(keys, wanted, side) - firsts[candidates.rows]
