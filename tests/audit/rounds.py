"""Rounds of the audit: all that it gives, and some made by hand."""

import numpy as np

from streamfilter.quality.live.audit import Audit
from streamfilter.quality.live.audit_sample import DOUBTS, ArrivalKind
from streamfilter.quality.live.audit_scan import Round


def rounds(audit: Audit) -> list[Round]:
    """Let *audit* look until nothing waits."""
    found = []
    while audit.waiting:
        found += [ended for ended in [audit.look()] if ended]
    return found


def a_round(*, near: int, unique: int, missed: int, population: int = 0) -> Round:
    """A round that looked at *near* + *unique* of a population, and found *missed*."""
    n = near + unique
    similarity = np.r_[np.full(near, 0.9), np.full(missed, 0.82), np.zeros(unique - missed)]
    causes = np.full(n, -1, np.int8)
    causes[near : near + missed] = 0
    doubted = np.zeros(len(DOUBTS), np.int64)
    doubted[1] = near
    doubts = np.repeat([0.08, 0.0], (near, unique))
    kinds = np.repeat(np.array([ArrivalKind.NEAR, ArrivalKind.UNIQUE], np.int8), (near, unique))
    return Round(
        {ArrivalKind.NEAR: near, ArrivalKind.UNIQUE: population or unique},
        0, doubted, 2**63,
        np.arange(n, dtype=np.uint64), kinds, similarity, np.zeros(n, bool),
        np.arange(n), doubts, np.repeat(np.array([1, -1], np.int8), (near, unique)), causes,
        np.ones(n, bool),
        comparisons=9 * n, forgotten=0,
    )  # fmt: skip
