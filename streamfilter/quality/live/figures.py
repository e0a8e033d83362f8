"""The quality of this process's verdicts: figures, and the confidence of each.

A figure is an interval only if its assumptions hold. Otherwise it is a bound or unknown, with the
reason. Only the latest rounds of the audit (`quality.audit`) are kept that together hold enough
chosen arrivals (`_wanted`). A figure over the whole life of a process would hide a change of the
input for long.

*Recall* is withheld / (withheld + missed), separately for equal and for different texts. The number
withheld is known. The number missed is estimated from a random sample of the rounds' unique
arrivals. `population.bounds` is exact for that, however the duplicates are clustered. The figure
describes the arrivals of those rounds. If verdicts rest on estimates, the share of right ones is
bounded in the same way. Each bound has a level of 97.5 %, together 95 %.

The truth of a chosen arrival is unknown if a cut set is close to the threshold (`MARGIN`). Each
bound of a figure then assumes the worse case. A bound that then says nothing is left out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from streamfilter.quality.live.audit_sample import BINS, DOUBTS, ArrivalKind, bins_of, doubts_of
from streamfilter.quality.live.audit_scan import Round
from streamfilter.quality.live.change import FIGURES, ChangeDetector, errors_of
from streamfilter.quality.live.population import LEVEL, bounds
from streamfilter.similarity.columns import I64, Flags, distinct
from streamfilter.similarity.estimators import share_of_families

SAMPLED_MIN, SAMPLED_MAX = 4_000, 40_000
"""Bounds on the chosen arrivals in the window (`_wanted`), if there were so many."""
WIDTH = 0.05  # wanted width of the interval of recall
FOUND = 12
"""Upper bound on the misses of a sample in which a few were found: it sets the sample's size."""


class Figure(Struct, frozen=True):
    """An estimate with bounds, one bound, or nothing; and the reason for what is missing."""

    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    why: str = ""
    """Why a bound is missing or wide; empty if the truth of all chosen arrivals is known."""

    @property
    def says(self) -> str:
        """Return ``interval``, ``known``, ``upper bound``, ``lower bound`` or ``not known``.

        A ``known`` figure was counted completely, without sampling. To call it an interval of zero
        width would promise the same share for future arrivals.
        """
        ends = self.lower is not None, self.upper is not None
        if all(ends) and self.lower == self.upper:
            return "known"
        words = {(True, True): "interval", (False, True): "upper bound"}
        return (words | {(True, False): "lower bound"}).get(ends, "not known")

    def as_dict(self) -> dict[str, Any]:
        numbers = {"value": self.value, "lower": self.lower, "upper": self.upper}
        shown = {name: None if x is None else round(x, 6) for name, x in numbers.items()}
        return {"says": self.says, **shown, "why": self.why}


class Quality:
    """The quality of one process's verdicts; not safe for several threads."""

    def __init__(self) -> None:
        self.exact = True
        """Whether verdicts rest on whole sets: then every withheld document is rightly withheld."""
        self.blind = ""  # why the audit cannot know the truth; empty if it can
        self._window: deque[Round] = deque()
        self.changes = {figure: ChangeDetector() for figure in FIGURES}
        """Tests that detect a change of a figure sooner than the window shows it."""

    def audited(self, found: Round) -> None:
        """Add a round; drop the oldest rounds that the window does not need."""
        self._window.append(found)
        wanted = _wanted(self._window)
        while len(self._window) > 1:
            if len(Round.pooled([*self._window][1:]).kinds) < wanted:
                break
            self._window.popleft()
        for figure, errors in ({} if self.blind else errors_of(found)).items():
            self.changes[figure].see(errors.tolist())

    def window(self) -> ThinnedRounds:
        """Return the rounds that the audit's figures are computed from."""
        return ThinnedRounds(self.exact, self.blind, Round.pooled(self._window))

    def as_dict(self) -> dict[str, Any]:
        """Return all figures for ``/status``."""
        window = self.window()
        return {
            "audit_recall": window.recall().as_dict(),
            "audit_recall_equal": window.recall_equal().as_dict(),
            "audit_precision": window.precision().as_dict(),
            "audit_changes": {name: self._change(watch) for name, watch in self.changes.items()},
            **window.as_dict(),
        }

    def _change(self, watch: ChangeDetector) -> dict[str, Any]:
        score = None if watch.share is None else round(watch.share, 6)
        why = (self.blind or UNSEEN) if score is None else ""
        return {"score": score, "changes": watch.changes, "why": why}


def _wanted(rounds: Iterable[Round]) -> int:
    """Return how many chosen arrivals the window needs for an interval of `WIDTH`.

    The fewer duplicates there are, the more unique arrivals must be audited: a missed one weighs
    more. With 1 % of near-duplicates it is 24,000, with 10 % 2,400, which is raised to 4,000.
    """
    counts = Counter[ArrivalKind]()
    for each in rounds:
        counts.update(each.population)
    near = counts[ArrivalKind.NEAR]
    share = near / max(near + counts[ArrivalKind.UNIQUE], 1)
    return round(min(max(SAMPLED_MIN, FOUND / (WIDTH * max(share, 1e-9))), SAMPLED_MAX))


SAMPLED = (
    "similarity.shingle.sample_modulus keeps a part of the shingles: nothing here knows whole sets"
)
UNSEEN = "no duplicate was audited yet; with audit.arrivals 0 none ever will be"
CUT = (
    "some sets have more than 1,024 shingles and were cut: within .05 of the threshold the audit, "
    "which reads the samples that the verdict read, cannot tell which verdicts are wrong"
)
WITHIN = 0.05
"""Tolerance: a stated error probability is calibrated if the true share of errors is this close."""
FORGOTTEN = (
    "tombstones or updates removed documents before they were looked at, or records were too large "
    "to be looked at: misses of those are not seen"
)


def calibrated(claimed: float, wrong: Flags, originals: I64) -> tuple[str, str]:
    """Return whether verdicts are *wrong* as often as *claimed*, and why if that is not known.

    The first value is ``yes``, ``no`` or ``not known``. It is about all such verdicts, not only
    the sampled ones: a few samples prove nothing. Verdicts with the same original count as one
    trial (-1: no original).
    """
    alone = -1 - np.arange(len(originals))
    families = np.where(originals < 0, alone, originals)
    places = np.searchsorted(distinct(families), families)
    of, found = np.bincount(places), np.bincount(places, weights=wrong).astype(np.int64)
    estimate = share_of_families(found, of)
    if estimate is None:
        return "not known", "no verdict was looked at"
    if claimed - WITHIN <= estimate.lower and estimate.upper <= claimed + WITHIN:
        return "yes", ""
    if estimate.upper < claimed - WITHIN or claimed + WITHIN < estimate.lower:
        return "no", ""
    seen = f"{wrong.sum()} of {len(wrong)} verdicts on {len(of)} different originals were wrong"
    ends = f"{estimate.lower:.0%} to {estimate.upper:.0%}"
    return "not known", f"{seen}, which says no more of such verdicts than {ends}"


class ThinnedRounds(Struct, frozen=True):
    """Several rounds, thinned to one common sampling probability."""

    exact: bool
    blind: str
    pool: Round  # of all rounds

    @property
    def cut(self) -> bool:
        """Return whether the truth of some audited arrivals is unknown because sets were cut."""
        return self.pool.results["not_known"] > 0

    def _count(
        self, kind: ArrivalKind, chosen: NDArray[np.bool_], *, level: float
    ) -> tuple[float, int, int]:
        """Return how many arrivals of *kind* are like the *chosen*: estimate, least, most.

        An arrival whose truth is unknown counts as 0 for the least and as 1 for the most.
        """
        of_kind, sample = self.pool.kinds == kind, int((self.pool.kinds == kind).sum())
        population, known = self.pool.population[kind], of_kind & self.pool.whole
        found, others = int((known & chosen).sum()), int((known & ~chosen).sum())
        least, _ = bounds(found, sample=sample, population=population, level=level)
        _, most = bounds(sample - others, sample=sample, population=population, level=level)
        seen = found + others
        return (population * found / seen if seen else 0.0), least, most

    @property
    def _level(self) -> float:
        """Return the level of each of recall's two numbers: lower if the first one is exact."""
        return LEVEL if self.exact else (1 + LEVEL) / 2

    def _right(self) -> tuple[float, int, int]:
        """Return how many of the near-duplicates are right."""
        if self.exact:
            withheld = self.pool.population[ArrivalKind.NEAR]
            return float(withheld), withheld - self.pool.uncertain, withheld
        return self._count(ArrivalKind.NEAR, self.pool.similarity > 0, level=self._level)

    def recall(self) -> Figure:
        """Return the recall of arrivals that had an original with another text."""
        if self.blind:
            return Figure(why=self.blind)
        figure = self._recall(self._right(), (self.pool.similarity > 0) & ~self.pool.equal)
        return self._of_cut(figure) if self.cut else figure

    def recall_equal(self) -> Figure:
        """Return the recall of arrivals whose exact text was in the index."""
        known = self.pool.population[ArrivalKind.EXACT]
        # Fingerprints are of whole texts.
        pool = replace(self.pool, whole=np.ones_like(self.pool.whole))
        return replace(self, pool=pool)._recall((float(known), known, known), self.pool.equal)

    def _recall(
        self,
        right: tuple[float, int, int],
        missed: NDArray[np.bool_],
        *,
        level: float | None = None,
    ) -> Figure:
        """Return right / (right + missed); *missed* marks the sampled rows that were missed."""
        found, fewest, most = right
        if not np.count_nonzero(self.pool.kinds == ArrivalKind.UNIQUE):
            return Figure(why=self.blind or "no unique document was audited yet")
        lost, least_lost, most_lost = self._count(
            ArrivalKind.UNIQUE, missed, level=level or self._level
        )
        if found + lost == 0 and not self.cut:
            return Figure(why="no duplicate was seen yet")
        lower = fewest / (fewest + most_lost) if fewest else 0.0
        upper = most / (most + least_lost) if most else 0.0
        if self.pool.forgotten:
            return Figure(upper=upper, why=FORGOTTEN)
        return Figure(found / max(found + lost, 1.0), lower, upper)

    def precision(self) -> Figure:
        """Return the share of near-duplicate verdicts that the audit confirms."""
        if self.blind:
            return Figure(why=self.blind)
        population = self.pool.population[ArrivalKind.NEAR]
        if not np.count_nonzero(self.pool.kinds == ArrivalKind.NEAR):
            return Figure(why="no near-duplicate was audited yet")
        right, fewest, most = self._count(ArrivalKind.NEAR, self.pool.similarity > 0, level=LEVEL)
        figure = Figure(right / population, fewest / population, most / population)
        return self._of_cut(figure) if self.cut else figure

    def _of_cut(self, figure: Figure) -> Figure:
        """Return *figure* without trivial bounds; its estimate ignores what is not known."""
        lower = figure.lower or None
        upper = figure.upper if figure.upper != 1.0 else None
        value = None if lower is None or upper is None else figure.value
        return Figure(value, lower, upper, f"{figure.why}; {CUT}" if figure.why else CUT)

    def by_similarity(self) -> list[dict[str, Any]]:
        """Return recall by ranges of the similarity to the best original; empty ranges left out.

        Both numbers of a range go by the similarity that the audit found. The evidence names the
        best of the compared matches only, which may be in another range.
        """
        if self.blind:
            return []
        similar, rows = (self.pool.similarity > 0) & ~self.pool.equal, []
        ranges, level = bins_of(self.pool.similarity), (1 + LEVEL) / 2
        for place in range(BINS):
            here = similar & (ranges == place)
            right = (self.pool.similarity > 0) & (ranges == place)
            if right.any():
                withheld = self._count(ArrivalKind.NEAR, right, level=level)
                figure = self._recall(withheld, here, level=level)
                missed = here & self.pool.missed
                rows.append({
                    "from": place / BINS,
                    "withheld": round(withheld[0]),
                    "recall": (self._of_cut(figure) if self.cut else figure).as_dict(),
                    "missed_sampled": int(missed.sum()),
                })  # fmt: skip
        return rows

    def reliability(self) -> list[dict[str, Any]]:
        """Return the share of wrong verdicts by ranges of their stated error probability."""
        near = self.pool.kinds == ArrivalKind.NEAR
        known = self.pool.doubting
        ranges, rows = doubts_of(self.pool.doubts), []
        for place, edge in enumerate(() if self.blind else DOUBTS):
            here = known & (ranges == place)
            # Chosen verdicts of unknown truth are left out. How many more were not chosen is
            # unknown: a population that is too large makes the interval wider, never false.
            unknown = int((near & ~self.pool.whole & (ranges == place)).sum())
            sample, population = int(here.sum()), int(self.pool.doubted[place]) - unknown
            if sample:
                wrong = int((self.pool.named[here] == 0).sum())
                fewest, most = bounds(wrong, sample=sample, population=population)
                why = f"only of sets that were not cut: {CUT}" if unknown else ""
                figure = Figure(wrong / sample, fewest / population, most / population, why)
                probability = round(float(self.pool.doubts[here].mean()), 6)
                kept, open_ = calibrated(
                    probability, self.pool.named[here] == 0, self.pool.originals[here]
                )
                row = {"up_to": edge, "told": probability, "verdicts": sample,
                       "calibrated": kept, "calibrated_why": open_}  # fmt: skip
                rows.append(row | figure.as_dict())
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and tables beside the figures on ``/status``."""
        unique = self.pool.kinds == ArrivalKind.UNIQUE
        missed, population = self.pool.missed, self.pool.population
        share = population[ArrivalKind.UNIQUE] / max(int(unique.sum()), 1)
        return {
            "audit_population": {kind.name.lower(): population[kind] for kind in ArrivalKind},
            "audit_decided": len(self.pool.kinds),
            "audit_not_known": self.pool.results["not_known"],
            "audit_missed_sampled": int(missed.sum()),
            "audit_missed_originals": len(distinct(self.pool.originals[missed])),
            "audit_lost": {n: round(count * share, 1) for n, count in self.pool.by_cause.items()},
            "audit_by_similarity": self.by_similarity(),
            "reliability": self.reliability(),
        }
