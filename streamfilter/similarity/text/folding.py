"""Folding: one normalisation as a table of code points, for those independent of their neighbours.

Unicode's forms compose a mark with the character before it, and put marks in order. Almost no text
needs that: most code points have the same result wherever they stand. Their results are in a table,
which is filled in pages of 256 when a text first needs them. A code point that depends on its
neighbours is normalised by Python's own tables, with all characters between the two nearest spaces.
That is exact: a space composes with nothing, and no mark moves across it.
"""

import unicodedata
from functools import cache
from itertools import chain
from threading import Lock

import numpy as np
from msgspec import Struct

from streamfilter.cleaning.folds import folded
from streamfilter.similarity.columns import I64, U32, distinct, slices
from streamfilter.similarity.scheme import Normalisation
from streamfilter.similarity.text.code_points import is_invisible
from streamfilter.similarity.text.ordering import Form, normal_form

SPACE = ord(" ")
SPECIAL = 0x110000  # values from here on are not code points, but instructions
NOTHING, CONTEXT, UNKNOWN = SPECIAL, SPECIAL + 1, SPECIAL + 2
"""Invisible, to drop; to normalise with its neighbours; in a page that is not filled yet."""
MARK = 1 << 21
"""Flags a combining mark: itself, unless its neighbour is one too and they change places."""
SEVERAL = 1 << 22  # flags an index into the list of code points that become several
LONG_MAX = 18  # NFKC makes one code point, U+FDFA, into 18: the longest there is

FORMS: dict[str, tuple[Form, Form]] = {"NFKC": ("NFKC", "NFKD"), "NFC": ("NFC", "NFD")}
"""Each form's composed and decomposed variant."""
PLAIN_PAGES = range(0x34, 0xD7)  # Chinese and Hangul: most of these change nothing


class Edits(Struct, frozen=True):
    """Replacements of stretches of an array."""

    starts: I64  # (n,) rising; no stretch reaches into the next one
    sizes: I64  # (n,) how long they are
    lengths: I64  # (n,) how long they become
    points: U32  # what they become, one after the other

    def of(self, values: U32, bounds: I64) -> tuple[U32, I64]:
        """Return *values* with these edits, and the moved bounds; none lies inside a stretch."""
        if not len(self.starts):
            return values, bounds
        kept = np.ones(len(values), np.bool_)
        kept[slices(self.starts, self.sizes)] = False
        growth = np.concatenate(([0], np.cumsum(self.lengths - self.sizes)))
        edited = np.empty(len(values) + int(growth[-1]), np.uint32)
        old = np.ones(len(edited), np.bool_)
        old[slices(self.starts + growth[:-1], self.lengths)] = False
        edited[old] = values[kept]
        edited[~old] = self.points
        return edited, bounds + growth[np.searchsorted(self.starts, bounds)]


class Folding:
    """The result of each code point under one `Normalisation`."""

    def __init__(self, how: Normalisation) -> None:
        self._how = how
        self.table = np.full(SPECIAL, UNKNOWN, np.uint32)
        self._filling = Lock()  # it is shared, and so is the list of what becomes several
        self._several = np.zeros((0, LONG_MAX), np.uint32)
        self._lengths = np.zeros(0, np.int64)

    @property
    def several(self) -> tuple[U32, I64]:
        """Return the list of what becomes several code points: a row each, and its length."""
        return self._several, self._lengths

    def text(self, text: str) -> str:
        """Return *text* in the Unicode form and case wanted, by Python's tables."""
        if self._how.unicode in FORMS:
            text = normal_form(FORMS[self._how.unicode][0], text)
        return text.casefold() if self._how.casefold else text

    def values(self, points: U32) -> U32:
        values = self.table.take(points, mode="clip")  # no point is above: half the time
        unknown = points[values == UNKNOWN] if values.max(initial=0) >= UNKNOWN else points[:0]
        for page in distinct(unknown >> 8).tolist():
            with self._filling:
                self._fill(page)
        return self.table.take(points) if unknown.size else values

    def unfolding(self, values: U32) -> Edits:
        """Return what is left to do to *values*, whose marks become code points at once.

        They hold nothing invisible, and nothing that needs its neighbours.
        """
        places = np.flatnonzero(values >= SPECIAL)
        found = values[places]
        marks = (found & np.uint32(MARK)) != 0
        values[places[marks]] = found[marks] & np.uint32(MARK - 1)
        places, found = places[~marks], found[~marks]
        which = found & ~np.uint32(SEVERAL)
        lengths = self._lengths[which]
        longest = int(lengths.max(initial=0))
        rows = self._several[which, :longest]
        points = rows[np.arange(longest) < lengths[:, None]]
        return Edits(places, np.ones(len(places), np.int64), lengths, points)

    def _fill(self, page: int) -> None:
        """Work out one page of the table."""
        first = page << 8
        characters = "".join(map(chr, range(first, first + 256)))
        plain = page in PLAIN_PAGES and characters.isalpha()
        if plain and self.text(characters) == characters:  # nothing ever happens to these letters
            self.table[first : first + 256] = np.arange(first, first + 256)
        else:
            self.table[first : first + 256] = [self._value(c) for c in characters]

    def _value(self, character: str) -> int:
        if self._how.invisible and is_invisible(character):
            return NOTHING
        formed, flag = character, 0
        if self._how.unicode in FORMS:
            composed, decomposed = FORMS[self._how.unicode]
            first = unicodedata.normalize(decomposed, character)[0]
            formed = unicodedata.normalize(composed, character)
            mark = unicodedata.combining(first) != 0
            if first in _composing() or (len(formed) > 1 and _has_mark(formed)):
                return CONTEXT
            flag = MARK if mark else 0
        cased = formed.casefold() if self._how.casefold else formed
        if flag and (len(cased) > 1 or not _has_mark(cased)):
            return CONTEXT
        cleaned = [each for each in map(self._cleaned, cased) if each != NOTHING]
        if len(cleaned) > 1:
            return SEVERAL | self._listed(cleaned)
        return flag | cleaned[0] if cleaned else NOTHING

    def _cleaned(self, character: str) -> int:
        """Return the code point that stands for one that Unicode's steps are done with."""
        how = self._how
        if how.fold:
            character = folded(character, how.fold)
            if not character:
                return NOTHING
        if how.digits and character.isdecimal():
            return ord("0")
        return SPACE if how.whitespace and character.isspace() else ord(character)

    def _listed(self, points: list[int]) -> int:
        """Add *points* to the list of what becomes several, and return their place."""
        row = np.zeros((1, LONG_MAX), np.uint32)
        row[0, : len(points)] = points
        self._several = np.concatenate((self._several, row))
        self._lengths = np.append(self._lengths, len(points))
        return len(self._lengths) - 1


@cache
def folding(how: Normalisation) -> Folding:
    """Return the one table of *how*: it has 4 MiB."""
    return Folding(how)


def needs_context(values: U32, special: I64) -> I64:
    """Return the places of *values* that must be normalised with their neighbours, rising.

    All that are no code points are at the places *special*.
    """
    found = values[special]
    hard = found == CONTEXT
    marks = special[(found & np.uint32(MARK)) != 0]
    beside = marks[1:][np.diff(marks) == 1]
    return np.sort(np.concatenate((special[hard], beside)))


def _has_mark(text: str) -> bool:
    return any(map(unicodedata.combining, text))


@cache
def _composing() -> frozenset[str]:
    """Return all characters that may compose with the one before them."""
    found = set(map(chr, chain(range(0x1161, 0x1176), range(0x11A8, 0x11C3))))  # Hangul
    places = chain(range(0xAC00), range(0xF900, 0x20000))  # no others decompose into two
    for decomposed in filter(None, map(unicodedata.decomposition, map(chr, places))):
        parts = decomposed.split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return frozenset(found)
