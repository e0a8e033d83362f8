"""What an evaluation found, as counts and a few examples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from streamfilter.similarity.estimators import Estimate, share_of_families

EXAMPLES_MAX = 5
"""Errors of each kind that a report shows."""


@dataclass(frozen=True, slots=True)
class Example:
    """One error, for a person to look at."""

    kind: str
    id: str
    other: str
    similarity: float | None
    """The true one; None: below the floor of the truth."""
    claimed: float | None = None
    """What the evidence says."""


@dataclass(slots=True)
class Tally:
    """A share of documents, counted by family: those of one family are judged alike."""

    good: Counter[int] = field(default_factory=Counter)
    of: Counter[int] = field(default_factory=Counter)

    def add(self, family: int, *, good: bool) -> None:
        """Count a document."""
        self.of[family] += 1
        self.good[family] += good

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many documents are good, and of how many."""
        return self.good.total(), self.of.total()

    @property
    def share(self) -> Estimate | None:
        """Return the share with its 95 % interval; None if there is nothing to share."""
        good = np.array([self.good[family] for family in self.of], np.int64)
        return share_of_families(good, np.array(list(self.of.values()), np.int64))


@dataclass(slots=True)
class Report:
    """The outcome; shares are None where there is nothing to share."""

    given: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    """Records that came out nowhere, though no policy drops them."""
    extra: int = 0
    """Records that came out more often than they went in."""
    ambiguous: int = 0
    """Readable records whose id another one has too: not judged against the truth."""
    unknown: int = 0
    """Ids of the truth that were not given."""
    recalled: Tally = field(default_factory=Tally)
    """Of the documents whose best earlier kept one is similar enough, who was withheld."""
    precise: Tally = field(default_factory=Tally)
    """Of the withheld documents, whose match is similar enough."""
    self_matches: int = 0
    later_matches: int = 0
    unkept_matches: int = 0
    """Matches with a document that was not forwarded itself."""
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
        """Return the share of the withheld documents that were withheld rightly."""
        share = self.precise.share
        return share.value if share else None

    @property
    def sound(self) -> bool:
        """Return True if every record is in one place and no match is impossible."""
        broken = self.missing + self.extra + self.self_matches + self.later_matches
        return not broken and not self.unkept_matches

    def example(self, example: Example) -> None:
        """Keep *example* unless there are enough of its kind."""
        if sum(known.kind == example.kind for known in self.examples) < EXAMPLES_MAX:
            self.examples.append(example)
