"""The shortlist: which of the candidates that are looked at can have a say, and are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamfilter.matching.candidates import Candidates, merge
from streamfilter.matching.crowds import Crowd, ranks
from streamfilter.similarity.columns import F64, I64, Flags


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom the documents of a batch are held against in a round, and whom not."""

    candidates: Candidates
    """Who may be compared, of the rows that were asked for."""
    met: I64
    """(n,) how many each document has met, in the index and in its batch."""
    left_out: I64
    """(n,) how many of these are not looked at, or not compared: whatever it is alike to."""


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

    def with_own(self, asked: Flags, own: Candidates) -> Asked:
        """Return who may be compared in *asked* rows.

        *own* are the candidates that these rows have in their own batch; all of them that are
        looked at are returned, for nobody has estimated them.
        """
        known = self.crowd.candidates
        met = self.crowd.met + np.bincount(own.rows, minlength=len(asked))
        stays, own_stays = self.crowd.stay(own)
        places = np.flatnonzero(stays & asked[known.rows])
        rows = known.rows[places]
        foremost = ranks(rows) < self.most
        beyond = np.bincount(rows[~foremost], minlength=len(asked))
        left_out = np.maximum(met - self.crowd.most, 0) + beyond
        return Asked(merge(known.at(places[foremost]), own.where(own_stays)), met, left_out)
