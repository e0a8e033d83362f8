"""Folds: letters that are written in more than one way become one letter.

| fold        | what is folded                                                                  |
|-------------|---------------------------------------------------------------------------------|
| marks       | accents and strokes of Latin letters, accents of Greek ones, stress and ё in    |
|             | Cyrillic; vowel points of Arabic, Hebrew and Syriac                             |
| arabic      | forms of alef, yeh, kaf and teh marbuta; tatweel; vowel points                  |
| apostrophes | what looks like an apostrophe                                                   |
| digits      | decimal digits of all scripts                                                   |
| turkish     | İ and ı                                                                         |

Each table is made from Unicode's data. A fold applies after Unicode normalisation, to single
code points.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

_APOSTROPHES = frozenset("`´ʹʻʼʽˈ‘’‛′＇ꞌ՚׳")
_ARABIC_LETTERS = {
    **dict.fromkeys("آأإٱٲٳٵ", "ا"),
    **dict.fromkeys("ىیےېۍ", "ي"),
    **dict.fromkeys("کڪ", "ك"),
    **dict.fromkeys("ةۃە", "ه"),
    **dict.fromkeys("ؤٶ", "و"),
    "ئ": "ي",
    "ـ": "",
}
_POINTED = ("ARABIC", "HEBREW", "SYRIAC")
"""Scripts whose vowel points a writer may leave out. In Indic scripts they are letters."""
_COMBINING = range(0x300, 0x370)
_LATIN = re.compile("LATIN (SMALL|CAPITAL) LETTER ([A-Z]) WITH ")
"""Letters with a stroke or a hook, which Unicode does not take apart: ø, ł, đ."""


def _name(character: str) -> str:
    return unicodedata.name(character, "")


def _without_marks(character: str) -> str:
    point = unicodedata.category(character) == "Mn" and _name(character).startswith(_POINTED)
    if ord(character) in _COMBINING or point:
        return ""
    if character in "ёЁ":
        return "е" if character == "ё" else "Е"
    if latin := _LATIN.match(_name(character)):
        return latin[2].lower() if latin[1] == "SMALL" else latin[2]
    parts = unicodedata.normalize("NFD", character)
    if _name(parts[0]).startswith("GREEK"):
        return "".join(c for c in parts if ord(c) not in _COMBINING)
    return character


def _arabic(character: str) -> str:
    if _name(character).startswith("ARABIC") and unicodedata.category(character) == "Mn":
        return ""
    return _ARABIC_LETTERS.get(character, character)


FOLDS: dict[str, Callable[[str], str]] = {
    "marks": _without_marks,
    "arabic": _arabic,
    "apostrophes": lambda character: "'" if character in _APOSTROPHES else character,
    "digits": lambda c: str(unicodedata.decimal(c)) if c.isdecimal() else c,
    "turkish": lambda character: {"İ": "i", "ı": "i", "\u0307": ""}.get(character, character),
}


@cache
def folded(character: str, folds: Sequence[str]) -> str:
    """Return the character that *character* becomes, or the empty string."""
    for name in folds:
        character = FOLDS[name](character) if character else ""
    return character
