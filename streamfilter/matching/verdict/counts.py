"""Counts of the candidates and comparisons of a batch, for the metrics: once for each document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from streamfilter.entities.held_out import NO_POOLS, HeldOut
from streamfilter.matching.verdict.decision import Outcome
from streamfilter.matching.verdict.verification import Shortlist
from streamfilter.model import Decision, Verdict
from streamfilter.similarity.columns import I64, Flags


class Counts(Struct, frozen=True):
    """Counts of one judged batch."""

    candidates: I64  # (n,) distinct candidates of each document
    confirmed: NDArray[np.float64]  # similarities of the verified pairs that reached the threshold
    rejected: NDArray[np.float64]  # of those that did not: false positives of the LSH step
    skipped: int = 0  # candidates beyond ``max_candidates``, and outnumbered ones
    missing: int = 0  # candidates whose record the index no longer has
    differing: int = 0  # candidates that do not agree in what `verify.agree_on` names
    too_old: int = 0  # candidates that arrived earlier than `verify.within` lets match
    held_out: HeldOut = NO_POOLS  # for records with fields: differences of the held-out field
    left: Mapping[str, int] = field(default_factory=dict)
    """Documents by what a table of boilerplate leaves of them (`LEFT`); empty without a table."""

    @classmethod
    def of(
        cls,
        decisions: Sequence[Decision],
        outcomes: Sequence[tuple[Outcome, Flags]],
        shortlist: Shortlist,
        held_out: HeldOut,
        *,
        met: I64,
        left_out: I64,
        too_old: I64,
        left: Mapping[str, int],
    ) -> Counts:
        """Count a batch.

        *decisions* has one for each document, *outcomes* those of each round, with the pairs that
        stand. *met* are the candidates of each document, *left_out* those that no round has
        compared, and *too_old* the others that are too old to match.
        """
        similar = [o.similarity[s & o.confirmed] for o, s in outcomes]
        rejected = [o.similarity[s & o.rejected] for o, s in outcomes]
        asked = np.array([each.verdict is not Verdict.EXACT_DUPLICATE for each in decisions])
        if len(shortlist.rejected):
            rejected.append(shortlist.rejected[asked[shortlist.rejected_rows]])
        skipped = sum(int((s & o.skipped).sum()) for o, s in outcomes)
        differing = sum(int((s & o.differing).sum()) for o, s in outcomes)
        return cls(
            candidates=met,
            confirmed=np.concatenate([*similar, np.zeros(0)]),
            rejected=np.concatenate([*rejected, np.zeros(0)]),
            skipped=skipped + int(left_out.sum(where=asked)),
            missing=len(shortlist.missing_rows),
            differing=differing + int(asked[shortlist.differing_rows].sum()),
            too_old=int(too_old.sum(where=asked)),
            held_out=held_out,
            left=left,
        )
