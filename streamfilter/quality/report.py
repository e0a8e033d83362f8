"""The result of an evaluation: counts and a few examples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from streamfilter.similarity.estimators import Estimate, share_of_families

EXAMPLES_MAX = 5
"""Errors of each kind that a report shows."""


@dataclass(frozen=True, slots=True)
class Example:
    """One error, as an example for the reader."""

    kind: str
    id: str
    other: str
    similarity: float | None
    """True similarity; None: below the floor of the truth."""
    claimed: float | None = None
    """Similarity that the evidence states."""


@dataclass(slots=True)
class Tally:
    """A share of documents, counted by family: verdicts within a family are not independent."""

    good: Counter[int] = field(default_factory=Counter)
    of: Counter[int] = field(default_factory=Counter)

    def add(self, family: int, *, good: bool) -> None:
        """Count a document."""
        self.of[family] += 1
        self.good[family] += good

    @property
    def counts(self) -> tuple[int, int]:
        """Return the number of good documents, and the number of all."""
        return self.good.total(), self.of.total()

    @property
    def share(self) -> Estimate | None:
        """Return the share with its 95 % interval; None without documents."""
        good = np.array([self.good[family] for family in self.of], np.int64)
        return share_of_families(good, np.array(list(self.of.values()), np.int64))


@dataclass(slots=True)
class Report:
    """The counts of an evaluation; a share is None if no document counts for it."""

    given: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    """Records that are in no output, although no policy drops them."""
    extra: int = 0
    """Output records without an input: more came out than went in."""
    ambiguous: int = 0
    """Readable records whose id is not unique; they are not judged against the truth."""
    unknown: int = 0
    """Ids of the truth that were not in the input."""
    recalled: Tally = field(default_factory=Tally)
    """Documents with a similar earlier document that was kept; good: withheld."""
    precise: Tally = field(default_factory=Tally)
    """Withheld documents; good: the match is similar enough."""
    self_matches: int = 0
    later_matches: int = 0
    unkept_matches: int = 0
    """Withheld documents without a match, and matches that are unknown or were not forwarded."""
    buckets: dict[int, list[int]] = field(default_factory=dict)
    """Tenth of similarity to the best earlier kept document → [documents, withheld]."""
    examples: list[Example] = field(default_factory=list)

    @property
    def recall(self) -> float | None:
        """Return the share of the expected documents that were withheld."""
        share = self.recalled.share
        return share.value if share else None

    @property
    def precision(self) -> float | None:
        """Return the share of the withheld documents that were rightly withheld."""
        share = self.precise.share
        return share.value if share else None

    @property
    def sound(self) -> bool:
        """Return True if every record is in exactly one output and no match is impossible."""
        broken = self.missing + self.extra + self.self_matches + self.later_matches
        return not broken and not self.unkept_matches

    def example(self, example: Example) -> None:
        """Keep *example*, unless there are `EXAMPLES_MAX` of its kind."""
        if sum(known.kind == example.kind for known in self.examples) < EXAMPLES_MAX:
            self.examples.append(example)
