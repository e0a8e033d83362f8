"""The shortlist: which of the candidates that are looked at can have a say, and are compared.

Shared bands say less than the whole signature: eight variants of a text may well share more
bands with a copy of it than the text itself does, and would be compared in its place. So those of
the best estimates are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfilter.matching.candidates import Candidates, merge
from streamfilter.matching.crowds import Crowd, ranks
from streamfilter.similarity.columns import F64, I64, Flags

_BANDS_BITS = 16
_MOST_BANDS = (1 << _BANDS_BITS) - 1
_FINEST_BITS = 21
_FINEST = 1 << _FINEST_BITS - 1
"""No two estimates of a signature's slots are nearer to each other than this many to one."""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Of the candidates that the index has, those that can have a say, whoever else there is.

    They are looked at once. Behind a flood a document has a hundred of them, of which a round
    asks for a few: so they are kept in the order in which they would be compared.
    """

    crowd: Crowd
    """Its candidates: of each document the most similar first, by their estimates."""
    most: int
    """How many of a document are compared."""
    rejected_rows: I64
    rejected: F64
    """Estimates of the hopeless ones."""
    missing_rows: I64
    """Of candidates that the index no longer has."""

    def with_own(self, asked: Flags, own: Candidates) -> tuple[Candidates, I64]:
        """Return who may be compared in *asked* rows, and how many of each row may not.

        *own* are the candidates that these rows have in their own batch; all of them that are
        looked at are returned, for nobody has estimated them.
        """
        known = self.crowd.candidates
        stays, own_stays = self.crowd.stay(own)
        places = np.flatnonzero(stays & asked[known.rows])
        rows = known.rows[places]
        foremost = ranks(rows) < self.most
        beyond = np.bincount(rows[~foremost], minlength=len(asked))
        return merge(known.at(places[foremost]), own.where(own_stays)), beyond


def most_similar(candidates: Candidates, estimated: F64, hopeful: Flags, most: int) -> Flags:
    """Return the *hopeful* pairs, but of each row at most as many, those of the best estimates."""
    asked = np.flatnonzero(hopeful)
    if ranks(candidates.rows[asked]).max(initial=0) < most:
        return hopeful
    order = best_first(candidates, estimated, asked)
    chosen = np.zeros(len(candidates), np.bool_)
    chosen[order[ranks(candidates.rows[order]) < most]] = True
    return chosen


def best_first(
    candidates: Candidates, estimated: F64, places: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the rising *places* of pairs by row, those of the best estimates first."""
    # Of equal estimates those that share more bands, then the oldest: the sort is stable.
    unlike = np.rint((1.0 - estimated[places]) * _FINEST).astype(np.int64)
    fewer = _MOST_BANDS - candidates.bands[places]
    keys = (candidates.rows[places] << _FINEST_BITS | unlike) << _BANDS_BITS | fewer
    return places[np.argsort(keys, kind="stable")]
