"""What an evaluation found, as counts and a few examples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

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
    expected: int = 0
    found: int = 0
    withheld: int = 0
    right: int = 0
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
        return self.found / self.expected if self.expected else None

    @property
    def precision(self) -> float | None:
        """Return the share of the withheld documents that were withheld rightly."""
        return self.right / self.withheld if self.withheld else None

    @property
    def sound(self) -> bool:
        """Return True if every record is in one place and no match is impossible."""
        broken = self.missing + self.extra + self.self_matches + self.later_matches
        return not broken and not self.unkept_matches

    def example(self, example: Example) -> None:
        """Keep *example* unless there are enough of its kind."""
        if sum(known.kind == example.kind for known in self.examples) < EXAMPLES_MAX:
            self.examples.append(example)
