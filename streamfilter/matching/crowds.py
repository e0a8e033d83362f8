"""Crowds: which of a document's candidates are looked at, and compared, where it meets too many.

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

from streamfilter.matching.candidates import Candidates, joined, merge
from streamfilter.similarity.columns import F64, I64, Flags

_WEIGHT_BITS = 16
_HEAVIEST = (1 << _WEIGHT_BITS) - 1
_FINEST_BITS = 21
_FINEST = 1 << _FINEST_BITS - 1
"""No two estimates of a signature's slots are nearer to each other than this many to one."""


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

    def where(self, chosen: Flags) -> Crowd:
        """Return it with the chosen candidates alone, as many as there were before them."""
        return replace(self, candidates=self.candidates.where(chosen), places=self.places[chosen])

    def with_own(self, asked: Flags, own: Candidates) -> Candidates:
        """Return who of the candidates of *asked* rows, and of the batch's *own*, are looked at.

        The batch's own are younger than all of them.
        """
        chosen = asked[self.candidates.rows]
        known, places = self.candidates.where(chosen), self.places[chosen]
        met = self.met + np.bincount(own.rows, minlength=len(self.met))
        if met[own.rows].max(initial=0) > self.most:
            own_places, own_keys = _ranked(own)
            places = places + _before(own_keys, known, "left")
            own_places = own_places + _before(self._keys, own, "right")
            known = known.where((places < self.most) | known.same_text)
            own = own.where((own_places < self.most) | own.same_text)
        return merge(known, own)


def foremost(candidates: Candidates, met: I64, most: int) -> Candidates:
    """Return the *most* pairs that share most, of each document; they have *met* so many."""
    kept = (met <= most)[candidates.rows]
    crowded = np.flatnonzero(~kept)
    if not crowded.size:
        return candidates
    # Weights are small: to count how often each occurs is quicker than to sort them.
    rows, weights = candidates.rows[crowded], candidates.weights[crowded]
    number = np.cumsum(met > most)[rows] - 1
    kinds = int(weights.max()) + 2
    counts = np.bincount(number * kinds + weights, minlength=kinds * (int(number[-1]) + 1))
    heavier = counts.reshape(-1, kinds)[:, ::-1].cumsum(axis=1)[:, ::-1]
    limits = (heavier >= most).sum(axis=1) - 1  # the least weight with which some are looked at
    room = most - heavier[np.arange(len(limits)), limits + 1]
    looked = weights > limits[number]
    last = np.flatnonzero(weights == limits[number])
    looked[last] = ranks(rows[last]) < room[number[last]]
    kept[crowded] = looked | candidates.same_text[crowded]
    return candidates.where(kept)


def most_similar(candidates: Candidates, estimated: F64, hopeful: Flags, most: int) -> Flags:
    """Return the *hopeful* pairs, but of each row at most as many, those of the best estimates.

    Shared bands say less than the whole signature: eight variants of a text may well share more
    bands with a copy of it than the text itself does, and would be compared in its place.
    """
    asked = np.flatnonzero(hopeful)
    rows = candidates.rows[asked]
    if ranks(rows).max(initial=0) < most:
        return hopeful
    # Of equal estimates those that share more bands, then the oldest: the sort is stable.
    unlike = np.rint((1.0 - estimated[asked]) * _FINEST).astype(np.int64)
    fewer = _HEAVIEST - candidates.bands[asked]
    order = np.argsort((rows << _FINEST_BITS | unlike) << _WEIGHT_BITS | fewer, kind="stable")
    chosen = np.zeros(len(candidates), np.bool_)
    chosen[asked[order[ranks(rows[order]) < most]]] = True
    return chosen


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


def ranks(rows: I64) -> I64:
    """Return for each element of the rising *rows* its place among the equal ones, from 0."""
    if not len(rows):
        return rows
    first = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    return np.arange(len(rows)) - np.repeat(first, np.diff(np.append(first, len(rows))))
