"""The truth about the demo's stories: exact Jaccard of all pairs, with nothing but sets.

Independent of what it judges: no signature, no band, no numpy. Two sets of similarity t or more
share an element among the first |A| - ceil(t |A|) + 1 of each, in any common order (the prefix
filter); with the rarest elements first that leaves few pairs to compare, and loses none.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Set
from math import ceil

SHINGLE_WORDS = 3

_WORDS = re.compile(r"\w+")

Shingle = tuple[str, ...]


def normalised(text: str) -> str:
    """Return *text* as the demo's configuration compares it."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def shingles(text: str) -> frozenset[Shingle]:
    """Return the runs of three words of a normalised text."""
    words = _WORDS.findall(text)
    return frozenset(zip(*(words[i:] for i in range(SHINGLE_WORDS)), strict=False))


def jaccard(left: Set[Hashable], right: Set[Hashable]) -> float:
    """Return the share of common elements; 0 for two empty sets."""
    common = len(left & right)
    return common / max(1, len(left) + len(right) - common)


def similar_pairs(texts: Mapping[str, str], *, floor: float) -> Iterator[tuple[str, str, float]]:
    """Yield (id, earlier id, Jaccard) of every pair of normalised texts from *floor* on."""
    ranked = _ranked({id_: shingles(text) for id_, text in texts.items()})
    sets = {id_: frozenset(ranks) for id_, ranks in ranked.items()}
    holders: defaultdict[int, list[str]] = defaultdict(list)
    for id_, rarest_first in ranked.items():
        size = len(rarest_first)
        prefix = rarest_first[: size - ceil(floor * size) + 1]
        for other in {other for rank in prefix for other in holders[rank]}:
            similarity = jaccard(sets[id_], sets[other])
            if similarity >= floor:
                yield id_, other, similarity
        for rank in prefix:
            holders[rank].append(id_)


def _ranked(sets: Mapping[str, frozenset[Shingle]]) -> dict[str, list[int]]:
    """Return each set as rising numbers, by which the rarest shingle of all has the lowest."""
    frequency = Counter(shingle for each in sets.values() for shingle in each)
    order = sorted(frequency, key=lambda shingle: (frequency[shingle], shingle))
    rank = {shingle: number for number, shingle in enumerate(order)}
    return {id_: sorted(map(rank.__getitem__, each)) for id_, each in sets.items()}
