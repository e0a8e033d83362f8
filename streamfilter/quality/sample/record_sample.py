"""Brute force over records: every pair is scored, whether or not it shares a key.

The filter finds only pairs that share a key: an equal field, or parts of two. This measures how
many similar pairs that misses, and validates the matches by the held-out field.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins
from numpy.typing import NDArray

from streamfilter.entities.held_out import HeldOut, Pool, held_out_values, random_pool, validation
from streamfilter.entities.scoring import FieldRules, RecordColumns, points_of
from streamfilter.process.signals import INTERRUPTION
from streamfilter.quality.sample.brute_force import Missed, Pairs, missed_as_text
from streamfilter.quality.sample.measured_curve import met_of
from streamfilter.similarity.estimators import Estimate
from streamfilter.similarity.sketch import Sketcher
from streamfilter.stops import counted

FLOOR = 0.3  # pairs with a lower score are ignored: one equal field of three is .33

NO_ROWS = np.zeros(0, np.int64)


class RecordSample(Struct, frozen=True):
    """The result of brute force over records."""

    records: int
    threshold: float
    similar: int  # pairs at or above the threshold
    found: int  # how many of the similar pairs share a key
    false_candidates: int  # pairs that share a key and have a score below the threshold
    missed: tuple[Missed, ...]
    pairs: Pairs
    held_out: HeldOut
    valid: Estimate | str
    """Estimated share of true matches among the found pairs, or why it is unknown."""

    def as_json(self) -> dict[str, Any]:
        valid = None if isinstance(self.valid, str) else self.valid
        return {
            "documents": self.records,
            "threshold": self.threshold,
            "similar_pairs": self.similar,
            "false_negatives": self.similar - self.found,
            "false_positives": self.false_candidates,
            "missed": [to_builtins(each) for each in self.missed],
            "held_out": {
                "pools": {
                    name: {"pairs": pool.pairs, "mean": pool.mean if pool.pairs else None}
                    for name, pool in self.held_out.pools.items()
                },
                "valid_share": valid.value if valid else None,
                "interval": [valid.lower, valid.upper] if valid else None,
                "not_known": None if valid else self.valid,
            },
        }

    def as_text(self) -> str:
        lost, false = self.similar - self.found, self.false_candidates
        lines = [
            f"fields         {self.found:,} of {counted(self.similar, 'pair')} that score from "
            f"{self.threshold:g} on share a key; {lost:,} do not and are never compared",
            f"               {counted(false, 'pair')} with a common key and a score too low",
            f"held out       {self._validation()}",
        ]
        for name, pool in self.held_out.pools.items():
            if pool.pairs:
                pairs = counted(pool.pairs, "pair")
                lines.append(f"               {name}: mean difference {pool.mean:.2f} of {pairs}")
        return "\n".join([*lines, *missed_as_text(self.missed, "score")])

    def _validation(self) -> str:
        if isinstance(self.valid, str):
            return f"not known: {self.valid} (set input.held_out, or a larger --sample)"
        return (
            f"{self.valid.value:.3f} of the matches are true, by the held-out field "
            f"(95 % interval {self.valid.lower:.3f} to {self.valid.upper:.3f})"
        )


def measure_records(
    ids: Sequence[str],
    texts: Sequence[str],
    sketcher: Sketcher,
    *,
    rules: FieldRules,
    threshold: float,
    scopes: Sequence[str | None] | None = None,
) -> RecordSample:
    """Score all pairs of joined records in one scope."""
    sketches = sketcher.sketch(texts)
    pairs = _scored(sketches.contents.payloads, rules).within(scopes)
    met = met_of(pairs, sketches.keys[:, :-1])
    similar = pairs.similarity >= threshold
    held_out = _pools(pairs, similar & met, sketches.contents.payloads)
    return RecordSample(
        records=len(texts),
        threshold=threshold,
        similar=int(similar.sum()),
        found=int((similar & met).sum()),
        false_candidates=int((met & ~similar).sum()),
        missed=pairs.most_similar(ids, similar & ~met),
        pairs=pairs,
        held_out=held_out,
        valid=validation(held_out),
    )


def _scored(payloads: Sequence[bytes], rules: FieldRules) -> Pairs:
    """Return all pairs with a score of at least `FLOOR`; score one record at a time."""
    columns = RecordColumns.of(payloads, len(rules.kinds)).fields
    later, earlier, scores = [NO_ROWS], [NO_ROWS], [np.zeros(0)]
    for row in range(1, len(payloads)):
        INTERRUPTION.obey()
        fields = zip(columns, rules.kinds, strict=True)
        points = [points_of([column[row]] * row, column[:row], kind) for column, kind in fields]
        similarity = rules.similarity(np.column_stack(points))
        kept = np.flatnonzero(similarity >= FLOOR)
        later.append(np.full(len(kept), row, np.int64))
        earlier.append(kept)
        scores.append(similarity[kept])
    similarity = np.concatenate(scores)
    nothing = np.zeros(len(similarity), np.bool_)
    return Pairs(np.concatenate(later), np.concatenate(earlier), similarity, nothing)


def _pools(pairs: Pairs, matched: NDArray[np.bool_], payloads: Sequence[bytes]) -> HeldOut:
    values = held_out_values(payloads)
    differences = values[pairs.later] - values[pairs.earlier]
    identical = matched & (pairs.similarity >= 1.0)
    return HeldOut(
        matched=Pool.of(differences[matched & ~identical]),
        identical=Pool.of(differences[identical]),
        random=random_pool(values),
    )
