"""Stop words: the function words of a language, frequent in prose and rare in adverts.

The lists are our own (`stopwords.txt` describes how they were made) and hold only function words.
Other lists of stop words are longer and contain "buy", "best" and "new", the words of adverts.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

LISTS = Path(__file__).with_name("stopwords.txt")

LANGUAGES = ("da", "de", "en", "es", "fr", "it", "nl", "no", "pt", "ru", "sv", "tr")
"""Languages by ISO 639-1 code. Scripts without spaces have no list: their function words are not
separate, and a text in them gets runs of words (pairs of characters) instead. Korean has no list
either: its function words are endings."""


@cache
def lists() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    words: set[str] = set()
    for line in LISTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            words = found.setdefault(line.strip("[]"), set())
        elif not line.startswith("#"):
            words.update(line.split())
    return {language: frozenset(words) for language, words in found.items()}


def stop_words(languages: Iterable[str]) -> tuple[str, ...]:
    """Return the stop words of *languages*, sorted, each once; or raise `ValueError`."""
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
