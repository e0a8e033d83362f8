"""The nouns of an evaluation: what went in, what came out, and what is true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streamfilter.model import Source, Verdict


@dataclass(frozen=True, slots=True)
class Given:
    """One record that a run was given."""

    source: Source
    order: tuple[int, ...]
    """Place in the order of judgement: a rank for files, (batch, partition, offset) for topics."""
    raw: bytes
    """Digest of its bytes."""
    id: str | None
    """None if it cannot be read."""
    text: bytes
    """Digest of its normalised text; empty if it cannot be read."""
    droppable: bool = False
    """True if the configuration lets it come out nowhere."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One record that a run put out."""

    place: str
    """``unique``, ``duplicates`` or ``dead_letter``."""
    verdict: Verdict
    raw: bytes | None = None
    """Digest of the original bytes, None if the output does not hold them."""
    source: Source | None = None
    """Where the evidence says that it came from."""
    match_id: str | None = None
    similarity: float = 0.0
    """To the best match, as the evidence has it."""
    match_sources: tuple[Source, ...] = ()
    """Of all matches, the best first."""


@dataclass(frozen=True, slots=True)
class Run:
    """What went in, and what came out."""

    given: Sequence[Given]
    """In the order of judgement."""
    placed: Sequence[Placed]
    notes: tuple[str, ...] = ()
    """What a reader of the report must know of where these come from."""


class Truth:
    """Exact similarities of pairs of ids; a pair that is not listed is below the list's floor."""

    def __init__(self, pairs: Iterable[tuple[str, str, float]]) -> None:
        self._neighbours: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for left, right, similarity in pairs:
            self._neighbours[left][right] = similarity
            self._neighbours[right][left] = similarity

    def neighbours(self, id_: str) -> dict[str, float]:
        """Return the similar ids and their similarities."""
        return self._neighbours.get(id_, {})

    def ids(self) -> set[str]:
        """Return every id of a pair."""
        return set(self._neighbours)
