"""The truth about a mix: exact similarities of all pairs, in plain Python.

Words, sets and Jaccard use Python's own `re` and `set`, and nothing of the code under test. The
prefix filter (Chaudhuri, Ganti, Kaushik 2006) finds all pairs above a floor. The tokens of each set
are ordered by rarity. Two sets with Jaccard >= f share a token among the first (1 - f) n + 1 of
each. So an inverted index of those tokens is enough. The result is exact.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from streamfilter.bench.result import Check

FLOOR = 0.75  # pairs below it are of no interest to a benchmark

RECALL_MIN, PRECISION_MIN = 0.995, 0.999
"""At similarities from .82, and for what is withheld at .8 or more."""

_WORDS = re.compile(r"\w+")

Neighbours = list[dict[int, float]]
"""For each text: earlier texts that are similar, and how similar they are."""


def normalised(text: str) -> str:
    """Return *text* as the default configuration compares it."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def shingles(text: str, *, kind: str = "word", size: int = 3) -> set[str]:
    """Return the set of runs of *size* words, or characters, of *text*."""
    folded = normalised(text)
    if kind == "char":
        return {folded[i : i + size] for i in range(len(folded) - size + 1)}
    words = _WORDS.findall(folded)
    return {" ".join(words[i : i + size]) for i in range(len(words) - size + 1)}


def jaccard(one: set[str], other: set[str]) -> float:
    """Return the share of common elements; 0 for two empty sets."""
    common = len(one & other)
    return common / max(len(one) + len(other) - common, 1)


def neighbours(sets: Sequence[set[str]], *, floor: float = FLOOR) -> Neighbours:
    """Return the earlier sets of each set that are at least *floor* similar."""
    frequency = Counter(token for tokens in sets for token in tokens)
    posted: defaultdict[str, list[int]] = defaultdict(list)
    found: Neighbours = []
    for row, tokens in enumerate(sets):
        rare_first = sorted(tokens, key=lambda token: (frequency[token], token))
        prefix = rare_first[: len(tokens) - ceil(floor * len(tokens)) + 1]
        others = {other for token in prefix for other in posted[token]}
        similar = ((other, jaccard(tokens, sets[other])) for other in others)
        found.append({other: value for other, value in similar if value >= floor})
        for token in prefix:
            posted[token].append(row)
    return found


@dataclass(frozen=True, slots=True)
class Judged:
    """Counts of right and wrong decisions to keep or withhold texts."""

    expected: int  # texts with an earlier kept one of at least ``recall_from`` similarity
    found: int  # how many of those were withheld
    withheld: int
    right: int  # how many of the withheld have an earlier kept one of at least the threshold

    def checks(self, label: str) -> list[Check]:
        return [
            Check.at_least(f"{label}: recall at J >= .82", self.recall, RECALL_MIN),
            Check.at_least(f"{label}: precision at J >= .8", self.precision, PRECISION_MIN),
        ]

    @property
    def recall(self) -> float:
        """Return found / expected; 1 if nothing was expected."""
        return self.found / self.expected if self.expected else 1.0

    @property
    def precision(self) -> float:
        """Return right / withheld; 1 if nothing was withheld."""
        return self.right / self.withheld if self.withheld else 1.0


def judged(
    kept: Sequence[bool], near: Neighbours, *, threshold: float = 0.8, recall_from: float = 0.82
) -> Judged:
    """Check which texts were *kept*, by any program."""
    expected = found = right = 0
    for row, others in enumerate(near):
        best = max((value for other, value in others.items() if kept[other]), default=0.0)
        if best >= recall_from:
            expected += 1
            found += not kept[row]
        if not kept[row] and best >= threshold:
            right += 1
    return Judged(expected, found, len(kept) - sum(kept), right)
