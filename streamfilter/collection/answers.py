"""Results of a `Deduplicator`: duplicates, and the error that it raises after `close`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamfilter.collection.collection import Likeness


class DeduplicatorClosed(RuntimeError):
    """A `Deduplicator` was used after `close`. Its documents are on disk if it had a path."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A remembered document that is similar to the given one."""

    id: str
    similarity: float
    """Jaccard similarity of the sets of shingles; 1.0 for equal texts."""
    same_text: bool
    """True if the two texts are equal after normalisation."""


def duplicates(found: Iterable[Likeness]) -> list[Duplicate]:
    """Return the similar documents *found* for one document, as public results."""
    return [Duplicate(each.other_id, each.similarity, each.same_text) for each in found]
