"""What a `Deduplicator` answers: the documents that are alike, or that it is closed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamfilter.collection.collection import Likeness


class DeduplicatorClosed(RuntimeError):
    """It was used after `Deduplicator.close`; what it knew is on disk, if it had a path."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A remembered document that is like the one in question."""

    id: str
    similarity: float
    """Jaccard similarity of the sets of shingles; 1.0 for equal texts."""
    same_text: bool
    """True if the two texts are equal after normalisation."""


def duplicates(found: Iterable[Likeness]) -> list[Duplicate]:
    """Return what was *found* for a document, as it is answered."""
    return [Duplicate(each.other_id, each.similarity, each.same_text) for each in found]
