"""Stop words: the small words of a language, which stand in prose and hardly in adverts.

The lists are Snowball's and NLTK's as `bm25s` ships them: function words only. Longer lists
that pass for stop words hold "buy", "best" and "new", which are what adverts are made of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from bm25s import stopwords as lists

STOP_WORDS: dict[str, tuple[str, ...]] = {
    "da": lists.STOPWORDS_DANISH,
    "de": lists.STOPWORDS_GERMAN,
    "en": lists.STOPWORDS_EN_PLUS,
    "es": lists.STOPWORDS_SPANISH,
    "fr": lists.STOPWORDS_FRENCH,
    "it": lists.STOPWORDS_ITALIAN,
    "nl": lists.STOPWORDS_DUTCH,
    "no": lists.STOPWORDS_NORWEGIAN,
    "pt": lists.STOPWORDS_PORTUGUESE,
    "ru": lists.STOPWORDS_RUSSIAN,
    "sv": lists.STOPWORDS_SWEDISH,
    "tr": lists.STOPWORDS_TURKISH,
}
"""Languages by ISO 639-1 code. Scripts without spaces have none: their small words do not stand
apart, and a text in them gets runs of words (pairs of characters) instead. Nor has Korean, whose
small words are endings."""


def stop_words(languages: Iterable[str]) -> tuple[str, ...]:
    """Return the stop words of *languages*, sorted, each once.

    Raises:
        ValueError: a language has no list here; the message names those that have.
    """
    wanted = sorted(set(languages))
    unknown = [name for name in wanted if name not in STOP_WORDS]
    if unknown or not wanted:
        raise ValueError(
            f"no stop words for {', '.join(unknown) or 'no language'}; there are lists for "
            f"{', '.join(STOP_WORDS)}"
        )
    return tuple(sorted({word.lower() for name in wanted for word in STOP_WORDS[name]}))


def digest(languages: Iterable[str]) -> str:
    """Return 16 hexadecimal digits that change with any word of the lists."""
    words = "\n".join(stop_words(languages)).encode()
    return hashlib.blake2b(words, digest_size=8).hexdigest()
