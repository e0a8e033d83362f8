"""Crowds: which of a document's candidates are looked at, where it meets too many.

Whoever floods buckets makes each later document of the flood meet hundreds of others, and full
buckets bound that at thousands. To fetch and estimate them all is work that an enemy can order, so
only those are looked at that share most with the document: a shared key counts by its length,
for it says that so many slots agree. Among equals the oldest come first.

Index and batch are ranked together, as if the batch's earlier documents had been written
before: who is looked at follows from the documents before this one alone, not from where batches
were cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streamfilter.matching.candidates import Candidates, joined
from streamfilter.similarity.columns import I64, Flags, ranks

_WEIGHT_BITS = 16
_HEAVIEST = (1 << _WEIGHT_BITS) - 1


@dataclass(frozen=True, slots=True)
class Crowd:
    """The candidates that the index has, of each document those that share most with it."""

    most: int
    """How many of a document are looked at."""
    met: I64
    """(n,) how many each document of the batch has met."""
    candidates: Candidates
    """Those that are looked at if the batch has no better ones. Equal texts are always here."""
    places: I64
    """(p,) how many of the document's candidates come before each."""
    _keys: I64
    """Rows and weights of all, as integers that rise, the heaviest of each row first."""

    @classmethod
    def of(cls, parts: Iterable[Candidates], *, documents: int, most: int) -> Crowd:
        """Keep the *most* that share most of each of the batch's *documents*.

        No document's candidates are in two *parts*.
        """
        met, kept = np.zeros(documents, np.int64), list[Candidates]()
        for part in parts:
            met += np.bincount(part.rows, minlength=documents)
            kept.append(foremost(part, met, most))
        candidates = joined(kept)
        places, keys = _ranked(candidates)
        return cls(most, met, candidates, places, keys)

    def at(self, places: NDArray[np.intp]) -> Crowd:
        """Return it with the candidates at *places* alone, as many as there were before each."""
        return replace(self, candidates=self.candidates.at(places), places=self.places[places])

    def stay(self, own: Candidates) -> tuple[Flags, Flags]:
        """Return who of the candidates, and of the batch's *own*, are looked at beside each other.

        The batch's own are younger than all of them.
        """
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
    """Return the *most* pairs that share most, of each document; they have *met* so many."""
    rows = candidates.rows
    if not len(rows) or met[rows[0] : rows[-1] + 1].max() <= most:
        return candidates
    # Weights are small: to count how often each occurs is quicker than to sort them.
    weights, number = candidates.weights, rows - rows[0]
    kinds = int(weights.max()) + 2
    counts = np.bincount(number * kinds + weights, minlength=kinds * (int(number[-1]) + 1))
    heavier = counts.reshape(-1, kinds)[:, ::-1].cumsum(axis=1)[:, ::-1]
    limits = (heavier >= most).sum(axis=1) - 1  # the least weight with which some are looked at
    room = most - heavier[np.arange(len(limits)), limits + 1]
    limit = np.repeat(limits, heavier[:, 0])
    kept = weights > limit
    last = np.flatnonzero(weights == limit)
    kept[last] = ranks(rows[last]) < room[number[last]]
    return candidates.where(kept | candidates.same_text)


def _ranked(candidates: Candidates) -> tuple[I64, I64]:
    """Return each pair's place in its row, and the rising keys of all."""
    keys = candidates.rows << _WEIGHT_BITS | (_HEAVIEST - candidates.weights)
    order = np.argsort(keys, kind="stable")  # of equal weight: the oldest first
    places = np.empty(len(keys), np.int64)
    places[order] = ranks(candidates.rows[order])
    return places, keys[order]


def _before(keys: I64, candidates: Candidates, side: Literal["left", "right"]) -> I64:
    """Return how many of the rising *keys* stand before each pair in its row."""
    wanted = candidates.rows << _WEIGHT_BITS | (_HEAVIEST - candidates.weights)
    firsts = np.searchsorted(keys, np.arange(candidates.rows.max(initial=-1) + 1) << _WEIGHT_BITS)
    return np.searchsorted(keys, wanted, side) - firsts[candidates.rows]
