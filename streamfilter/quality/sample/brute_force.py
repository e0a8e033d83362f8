"""The truth of a sample: the exact Jaccard similarity of every pair, by counting.

Whole sets of 64-bit tokens are compared, without signatures, bands or cut samples. Each token has a
list of the documents that hold it. For each document the lists of its tokens are joined, and each
other document in them is counted. So a pair costs only the tokens that it shares.

Example: document 2 has the tokens a, b and c, document 0 has a and b, document 1 has c. The joined
lists without document 2 are (0, 0, 1). So document 0 shares two tokens, and document 1 shares one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from streamfilter.process.signals import INTERRUPTION
from streamfilter.process.terminal_escapes import inline
from streamfilter.similarity.columns import F64, I64, Flags, distinct
from streamfilter.similarity.sketch import Sketcher

EXAMPLES = 5  # missed pairs that a sample shows


class Missed(Struct, frozen=True):
    """A similar pair that shares no key, or no field."""

    id: str
    other: str
    similarity: float


class Pairs(Struct, frozen=True):
    """Pairs of documents of a sample, with their exact similarity."""

    later: I64  # (p,) row of the document that came later
    earlier: I64  # (p,) row of the document that came earlier
    similarity: F64
    contained: Flags
    """(p,) whether so much of one text is in the other that this alone makes it a duplicate."""

    def __len__(self) -> int:
        return len(self.similarity)

    def chosen(self, kept: NDArray[np.bool_]) -> Pairs:
        return Pairs(
            self.later[kept], self.earlier[kept], self.similarity[kept], self.contained[kept]
        )

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        columns = ("later", "earlier", "similarity", "contained")
        return cls(*(np.concatenate([getattr(each, name) for each in parts]) for name in columns))

    def within(self, scopes: Sequence[str | None] | None) -> Pairs:
        """Return the pairs of one scope each; *scopes* are those of the rows, None: no scopes."""
        if scopes is None:
            return self
        numbers: dict[str | None, int] = {}
        column = np.array([numbers.setdefault(each, len(numbers)) for each in scopes], np.int64)
        return self.chosen(column[self.later] == column[self.earlier])

    def most_similar(self, ids: Sequence[str], chosen: NDArray[np.bool_]) -> tuple[Missed, ...]:
        """Return the `EXAMPLES` most similar of the *chosen* pairs, by the *ids* of the rows."""
        places = np.flatnonzero(chosen)
        worst = places[np.argsort(-self.similarity[places], kind="stable")][:EXAMPLES]
        return tuple(
            Missed(ids[self.later[i]], ids[self.earlier[i]], float(self.similarity[i]))
            for i in worst.tolist()
        )


Contains = Callable[[F64, I64, I64], Flags]
"""Similarities, sizes of the later and of the earlier sets → which pairs are `Pairs.contained`."""


def missed_as_text(missed: Sequence[Missed], measure: str) -> list[str]:
    """Return *missed* as lines for a terminal; *measure* names the similarity."""
    lines = [
        f"  {inline(each.id)}  and  {inline(each.other)}  ({measure} {each.similarity:.3f})"
        for each in missed
    ]
    return ["", "pairs that never became candidates (the most similar)", *lines] if lines else []


def all_pairs(
    texts: Sequence[str], sketcher: Sketcher, *, floor: float, contains: Contains | None = None
) -> Pairs:
    """Return all pairs of *texts* with a similarity of at least *floor* (above 0), or contained."""
    sets = [distinct(sketcher.tokens(text)) for text in texts]
    sizes = np.fromiter(map(len, sets), np.int64, len(sets))
    none = np.zeros(0, np.int64)
    if not sizes.sum():
        return Pairs(none, none, np.zeros(0), np.zeros(0, np.bool_))
    _, tokens = np.unique(np.concatenate(sets), return_inverse=True)
    order = np.argsort(tokens, kind="stable")
    holders = np.repeat(np.arange(len(sets)), sizes)[order]
    begins = np.concatenate(([0], np.cumsum(np.bincount(tokens))))
    ends_of_sets = np.cumsum(sizes)
    found: list[Pairs] = []
    for row, end in enumerate(ends_of_sets.tolist()):
        INTERRUPTION.obey()
        own = tokens[end - sizes[row] : end]
        found.append(_earlier(row, own, holders, begins, sizes, floor, contains))
    return Pairs.joined(found)


def _earlier(
    row: int,
    own: I64,
    holders: I64,
    begins: I64,
    sizes: I64,
    floor: float,
    contains: Contains | None,
) -> Pairs:
    counts = begins[own + 1] - begins[own]
    before = np.cumsum(counts) - counts
    places = np.repeat(begins[own] - before, counts) + np.arange(counts.sum())
    common = np.bincount(holders[places], minlength=row + 1)[:row]
    met = np.flatnonzero(common)
    common, ours = common[met], np.full(len(met), sizes[row])
    similarity = common / (sizes[met] + ours - common)
    contained = np.zeros(len(met), np.bool_)
    if contains is not None:
        contained = contains(similarity, ours, sizes[met])
    pairs = Pairs(np.full(len(met), row, np.int64), met, similarity, contained)
    return pairs.chosen((similarity >= floor) | contained)
