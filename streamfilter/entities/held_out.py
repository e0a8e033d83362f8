"""Validation by a held-out field: estimates the share of true matches.

The held-out field is a number that is closer for records of one entity than for random pairs, such
as the date of creation. It has no part in the scores. Its mean difference is

- x among the matched pairs,
- x_true among records known to be the same (all fields equal),
- x_random among random pairs.

The matched pairs are a mixture of true and random ones. So the share of true ones is
(x_random - x) / (x_random - x_true).

A random pair is an arrival and a document from anywhere in the index. Records of one batch arrived
at the same time; in a stream that is sorted by the field they are closer than random.

One error cannot be detected. If records with all fields equal are one submission sent twice, they
are closer than two records of one customer. The share then comes out too low.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

import numpy as np
from msgspec import Struct, field

from streamfilter.entities.joined import SEPARATOR
from streamfilter.index.protocol import Documents, Index
from streamfilter.model import DUPLICATES, Decision, Verdict
from streamfilter.similarity.columns import F64, I64, distinct
from streamfilter.similarity.estimators import Estimate

Z = 1.959964  # standard errors on each side of a 95 % interval
PAIRS_MIN = 2  # fewest pairs of a pool from which its spread can be estimated
RANDOM_MAX = 64  # most random pairs of a batch; each costs a read from the index
GOLDEN = (sqrt(5) - 1) / 2


class Pool(Struct, frozen=True):
    """Differences of the held-out field, kept as sums so that pools can be added."""

    pairs: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, differences: Iterable[float]) -> Pool:
        """Return the pool of these differences, without unknown ones (NaN)."""
        values = np.abs(np.array(list(differences), np.float64))
        values = values[~np.isnan(values)]
        return cls(len(values), float(values.sum()), float((values**2).sum()))

    def __add__(self, other: Pool) -> Pool:
        return Pool(
            self.pairs + other.pairs, self.total + other.total, self.squares + other.squares
        )

    @property
    def mean(self) -> float:
        """Return the mean difference; needs a pair."""
        return self.total / self.pairs

    @property
    def error(self) -> float:
        """Return the squared standard error of the mean; needs two pairs."""
        spread = max(self.squares / self.pairs - self.mean**2, 0.0)
        return spread / (self.pairs - 1)


class HeldOut(Struct, frozen=True):
    """The three pools of one batch, or of a whole run."""

    matched: Pool = field(default_factory=Pool)  # near-duplicates and their best matches
    identical: Pool = field(default_factory=Pool)  # records with all fields equal
    random: Pool = field(default_factory=Pool)
    """Random pairs: arrivals and documents of the index, or a shuffled sample in `evaluate`."""

    @property
    def pools(self) -> dict[str, Pool]:
        return {"matched": self.matched, "identical": self.identical, "random": self.random}

    def __add__(self, other: HeldOut) -> HeldOut:
        pairs = zip(self.pools.values(), other.pools.values(), strict=True)
        return HeldOut(*(one + another for one, another in pairs))


NO_POOLS = HeldOut()  # the pools of texts, which have no held-out field


def valid_share(held_out: HeldOut) -> Estimate | None:
    """Return the share of true matches with its 95 % interval; None if it is not known."""
    found = validation(held_out)
    return None if isinstance(found, str) else found


def validation(held_out: HeldOut) -> Estimate | str:
    """Return the share of true matches with its 95 % interval, or the reason why it is unknown.

    A share a little outside [0, 1] is returned as it is: it shows how far the estimate can err. If
    the whole interval lies outside, the share is unknown, because a pool is not what it should be.
    """
    few = [name for name, pool in held_out.pools.items() if pool.pairs < PAIRS_MIN]
    if few:
        return f"fewer than {PAIRS_MIN} pairs are known of: {', '.join(few)}"
    pools = held_out.pools.values()
    x, true, random = (pool.mean for pool in pools)
    reach = random - true
    if reach <= 0:
        return (
            f"random pairs ({random:.3g} on average) are no farther apart than records with all "
            f"fields equal ({true:.3g}): the field tells nothing of who is who"
        )
    share = (random - x) / reach
    # Error propagation: derivatives by x, x_true and x_random; the pools are independent.
    parts = (1 / reach, share / reach, (1 - share) / reach)
    weighed = zip(parts, pools, strict=True)
    error = sqrt(sum(part**2 * pool.error for part, pool in weighed))
    found = Estimate(share, share - Z * error, share + Z * error)
    if found.upper < 0:
        return (
            f"the matched ({x:.3g} on average) are farther apart than random pairs ({random:.3g}): "
            "random pairs are no random sample here, or the field is another thing in each source"
        )
    if found.lower > 1:
        return (
            f"the matched ({x:.3g} on average) are closer than records with all fields equal "
            f"({true:.3g}): these are not one entity, or the field follows from the others"
        )
    return found


def held_out_values(payloads: Sequence[bytes]) -> F64:
    """Return the held-out number of each payload, NaN where there is none."""
    values = [payload.decode().rpartition(SEPARATOR)[2] for payload in payloads]
    return np.array([float(value) if value else np.nan for value in values], np.float64)


def random_pool(values: F64) -> Pool:
    """Return a pool of random pairs, made by a fixed shuffle so that the order has no effect."""
    half, shuffled = len(values) // 2, np.random.default_rng(0).permutation(values)
    return Pool.of(shuffled[:half] - shuffled[half : 2 * half])


def partners(first_ordinal: int, count: int) -> I64:
    """Return documents from all over the index, one for each of a batch's first records.

    Fractions of multiples of the golden ratio spread them evenly. No random numbers are drawn, so
    the same batch always has the same pairs.
    """
    ordinals = first_ordinal + np.arange(min(count, RANDOM_MAX), dtype=np.int64)
    return (ordinals * GOLDEN % 1.0 * first_ordinal).astype(np.int64)


def pools_of(
    decisions: Sequence[Decision],
    payloads: Sequence[bytes],
    stored: Documents,
    first_ordinal: int,
    others: Documents | None,
) -> HeldOut:
    """Return the pools of a judged batch of records, with a decision and a payload each.

    Texts have no payloads, and no pools. *stored* are the index's documents among the matches,
    *others* the other halves of random pairs; None: the batch is read again, and is in none.
    """
    if not payloads:
        return NO_POOLS
    own, theirs = held_out_values(payloads), held_out_values(stored.contents.payloads)
    found: dict[Verdict, list[float]] = {each: [] for each in DUPLICATES}
    for row, decision in enumerate(decisions):
        if decision.match is not None:
            at = decision.match.ordinal - first_ordinal
            place = np.searchsorted(stored.ordinals, decision.match.ordinal)
            value = own[at] if at >= 0 else theirs[place]
            found[decision.verdict].append(float(own[row] - value))
    return HeldOut(
        matched=Pool.of(found[Verdict.NEAR_DUPLICATE]),
        identical=Pool.of(found[Verdict.EXACT_DUPLICATE]),
        random=_random(own, others, first_ordinal) if others is not None else Pool(),
    )


def partners_in(index: Index, first_ordinal: int, records: int) -> Documents:
    """Return the index's halves of the random pairs that a batch of so many *records* is in."""
    return index.fetch(distinct(partners(first_ordinal, records)))


def _random(own: F64, others: Documents, first_ordinal: int) -> Pool:
    """Return the pool of a batch's first records and their partners that still exist."""
    asked = partners(first_ordinal, len(own))
    at = np.searchsorted(others.ordinals, asked)
    known = np.isin(asked, others.ordinals)
    values = held_out_values(others.contents.payloads)
    return Pool.of(own[: len(asked)][known] - values[at[known]])
