"""From verified pairs to a verdict with its evidence: pure, and the only place that names one.

The best match is the most similar one, then the oldest; every confirmed match is evidence. A
document without a confirmed match is unique.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from streamfilter.candidates import ranks
from streamfilter.model import Decision, Match, Source, Verdict
from streamfilter.similarity.exact import chance_below
from streamfilter.verification import MatchPolicy, Outcome

Describe = Callable[[int], tuple[str, Source]]
"""Ordinal of a confirmed candidate → its id and where it came from."""


def decide(
    outcome: Outcome, stands: NDArray[np.bool_], *, policy: MatchPolicy, describe: Describe
) -> Iterator[tuple[int, Decision]]:
    """Yield (row, decision) for each duplicate among the pairs that *stand*."""
    pairs = outcome.candidates
    kept = np.flatnonzero(outcome.confirmed & stands)
    order = kept[np.lexsort((pairs.ordinals[kept], -outcome.similarity[kept], pairs.rows[kept]))]
    truncated = set(pairs.rows[outcome.skipped & stands].tolist())
    begins = np.flatnonzero(ranks(pairs.rows[order]) == 0)
    for group in np.split(order, begins[1:]) if order.size else ():
        row = int(pairs.rows[group[0]])
        yield row, _decision(outcome, group, policy, describe, truncated=row in truncated)


def _decision(
    outcome: Outcome,
    group: NDArray[np.int64],
    policy: MatchPolicy,
    describe: Describe,
    *,
    truncated: bool,
) -> Decision:
    """Return the decision on one document whose confirmed pairs are *group*, best first."""
    best = int(group[0])
    matches = tuple(_match(outcome, int(pair), describe) for pair in group)
    if outcome.equal_text[best]:
        return Decision(Verdict.EXACT_DUPLICATE, matches, "exact_text")
    return Decision(
        Verdict.NEAR_DUPLICATE,
        matches,
        _method(outcome, best, policy),
        truncated,
        _false_positive(outcome, best, policy),
    )


def _match(outcome: Outcome, pair: int, describe: Describe) -> Match:
    ordinal = int(outcome.candidates.ordinals[pair])
    document_id, source = describe(ordinal)
    bands = 0 if outcome.equal_text[pair] else int(outcome.candidates.bands[pair])
    return Match(document_id, float(outcome.similarity[pair]), bands, source, ordinal)


def _method(outcome: Outcome, pair: int, policy: MatchPolicy) -> str:
    if policy.method == "signature":
        return "signature"
    return "exact_jaccard" if outcome.whole[pair] else "sampled_jaccard"


def _false_positive(outcome: Outcome, pair: int, policy: MatchPolicy) -> float:
    """Return the probability that the best match is below the threshold after all."""
    if outcome.whole[pair]:
        return 0.0
    return chance_below(
        policy.threshold, float(outcome.similarity[pair]), int(outcome.sample[pair])
    )
