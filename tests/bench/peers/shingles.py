"""Shingles as a Python user makes them for the rivals: the same ones as ours, no faster trick left.

Words are runs of ``\\w``; in scripts without spaces every pair of neighbouring characters
stands for a word, as with us, so that all sign the same sets.
"""

import re
from collections.abc import Callable
from itertools import pairwise

_WORDS = re.compile(r"\w+")
_UNSPACED = re.compile("[\u4e00-\u9fff]")


def words(text: str) -> list[str]:
    """Return the words of *text*."""
    found = _WORDS.findall(text.casefold())
    if text.isascii() or not _UNSPACED.search(text):
        return found
    return [unit for word in found for unit in _units(word)]


def _units(word: str) -> list[str]:
    """Return a word, or the neighbouring pairs of a run without spaces."""
    if len(word) < 2 or not _UNSPACED.match(word):
        return [word]
    return list(map("".join, pairwise(word)))


def word_shingles(text: str) -> list[str]:
    """Return the runs of three words, repeats kept."""
    found = words(text)
    return list(map(" ".join, zip(found, found[1:], found[2:], strict=False)))


def char_shingles(text: str) -> list[str]:
    """Return the runs of five characters, repeats kept."""
    folded = " ".join(text.casefold().split())
    return [folded[i : i + 5] for i in range(len(folded) - 4)]


SHINGLERS: dict[str, Callable[[str], list[str]]] = {
    "word-3": word_shingles,
    "char-5": char_shingles,
}
