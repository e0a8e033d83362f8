"""Stop words: the small words of a language, which stand in prose and hardly in adverts.

The lists are our own (`stopwords.txt` tells how they were made): function words only. Longer lists
that pass for stop words hold "buy", "best" and "new", which are what adverts are made of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

LISTS = Path(__file__).with_name("stopwords.txt")

LANGUAGES = ("da", "de", "en", "es", "fr", "it", "nl", "no", "pt", "ru", "sv", "tr")
"""Languages by ISO 639-1 code. Scripts without spaces have none: their small words do not stand
apart, and a text in them gets runs of words (pairs of characters) instead. Nor has Korean, whose
small words are endings."""


@cache
def lists() -> dict[str, frozenset[str]]:
    """Return the stop words of each language."""
    found: dict[str, set[str]] = {}
    words: set[str] = set()
    for line in LISTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            words = found.setdefault(line.strip("[]"), set())
        elif not line.startswith("#"):
            words.update(line.split())
    return {language: frozenset(words) for language, words in found.items()}


def stop_words(languages: Iterable[str]) -> tuple[str, ...]:
    """Return the stop words of *languages*, sorted, each once.

    Raises:
        ValueError: a language has no list here; the message names those that have.
    """
    wanted = sorted(set(languages))
    unknown = [name for name in wanted if name not in LANGUAGES]
    if unknown or not wanted:
        raise ValueError(
            f"no stop words for {', '.join(unknown) or 'no language'}; there are lists for "
            f"{', '.join(LANGUAGES)}"
        )
    return tuple(sorted(set().union(*(lists()[name] for name in wanted))))


def digest(languages: Iterable[str]) -> str:
    """Return 16 hexadecimal digits that change with any word of the lists."""
    words = "\n".join(stop_words(languages)).encode()
    return hashlib.blake2b(words, digest_size=8).hexdigest()
