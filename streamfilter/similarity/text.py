"""Normalisation: which differences between two texts do not count.

Unicode form, case fold, invisible characters, digits, white space, in that order; each step is
a switch. The result is UTF-8, the same bytes on every platform, and on every Python version
for characters assigned in Unicode 14 (Unicode's stability policy promises it). ASCII text
takes a fast path that gives the same bytes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from streamfilter.similarity.hashing import I64, U8, WORD
from streamfilter.similarity.scheme import Normalisation

U32 = NDArray[np.uint32]
Units = TypeVar("Units", U8, U32)

UNICODE_VERSION = unicodedata.unidata_version

INVISIBLE_MARKS = "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
"""Soft hyphen, grapheme joiner, zero-width and direction marks, byte-order mark."""

BLANK, DIGIT, INVISIBLE = 1, 2, 3
"""Kinds of code points that normalisation treats apart; no code point is two of them."""

FULL_WIDTH = re.compile("[\uff01-\uff5e\u3000]")

PRIVATE_USE = range(0xF0000, 0x10FFFE)

ASCII_SPACES = b"\t\n\v\f\r\x1c\x1d\x1e\x1f"
"""What `str.split` takes for white space in ASCII, but for the space itself."""

FORMS: dict[str, Callable[[str], str] | None] = {
    "NFKC": partial(unicodedata.normalize, "NFKC"),
    "NFC": partial(unicodedata.normalize, "NFC"),
    "none": None,
}

SPARE = bytes(WORD)
SPACE = ord(" ")

GROWTH_MAX = 18
"""NFKC makes one code point out of U+FDFA into 18: the most that normalisation grows a text."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Normalised texts in one byte buffer, a separator before, between and after them."""

    buffer: bytes
    """UTF-8, with 8 spare bytes at the end, so that any span can be read in 8-byte views."""
    bounds: I64
    """(n + 1,) text i is buffer[bounds[i] : bounds[i + 1] - 1]."""
    points: U32 | None = None
    """The code points of the buffer without the spare bytes; None if all is ASCII."""

    def texts(self) -> Iterator[memoryview]:
        """Yield the texts' bytes."""
        view, bounds = memoryview(self.buffer), self.bounds.tolist()
        for begin, end in pairwise(bounds):
            yield view[begin : end - 1]


class Normaliser:
    """Turns texts into normalised UTF-8 under one `Normalisation`."""

    def __init__(self, normalisation: Normalisation) -> None:
        self._how = normalisation
        self._table = _ascii_table(normalisation)
        self._form = FORMS[normalisation.unicode]

    def __call__(self, text: str) -> bytes:
        """Return *text* normalised, as UTF-8 (lone surrogates pass as three bytes)."""
        return bytes(next(self.chunk([text], ascii_only=text.isascii()).texts()))

    def chunk(self, texts: Sequence[str], *, ascii_only: bool) -> Chunk:
        """Return *texts* normalised in one buffer; with *ascii_only* all must be ASCII."""
        return self._ascii(texts) if ascii_only else self._unicode(texts)

    def _ascii(self, texts: Sequence[str]) -> Chunk:
        """Normalise ASCII as one buffer: case, digits and white space are a byte table away."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        bounds = np.concatenate(([1], 1 + np.cumsum(lengths + 1)))
        data = f"\0{chr(0).join(texts)}\0".encode("ascii").translate(self._table)
        if self._how.whitespace:
            octets, bounds = _collapsed(np.frombuffer(data, np.uint8), bounds)
            data = octets.tobytes()
        return Chunk(data + SPARE, bounds)

    def _unicode(self, texts: Sequence[str]) -> Chunk:
        """Normalise any text; a separator that no text contains tells them apart again."""
        separator = _separator(texts)
        joined = separator + separator.join(texts) + separator
        if self._how.unicode == "NFKC":
            joined = _narrowed(joined)
        if self._form is not None:
            joined = self._form(joined)
        if self._how.casefold:
            joined = joined.casefold()
        points: U32 = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), "<u4")
        ends = np.array([0, len(points) - 1])
        if len(texts) != 1:
            ends = np.flatnonzero(points == ord(separator))
        points, bounds = self._cleaned(points, ends + 1)
        if separator != "\0":
            points = points.copy()
            points[bounds - 1] = 0
        text = points.tobytes().decode("utf-32-le", "surrogatepass")
        buffer = text.encode("utf-8", "surrogatepass")
        return Chunk(buffer + SPARE, first_bytes(buffer)[bounds - 1] + 1, points)

    def _cleaned(self, points: U32, bounds: I64) -> tuple[U32, I64]:
        """Drop what is invisible, level digits and collapse white space."""
        how, kinds = self._how, _kinds().take(points)
        if how.digits:
            points = np.where(kinds == DIGIT, np.uint32(ord("0")), points)
        if how.whitespace:
            points = np.where(kinds == BLANK, np.uint32(SPACE), points)
        if how.invisible:
            points, bounds = _without(points, np.flatnonzero(kinds == INVISIBLE), bounds)
        return _collapsed(points, bounds) if how.whitespace else (points, bounds)


def _narrowed(text: str) -> str:
    """Return *text* with full-width forms of ASCII as ASCII, as NFKC would have it.

    One of them in a text sends all of it down NFKC's slow path: 60 us a KB of Chinese.
    """
    if FULL_WIDTH.search(text) is None:
        return text
    points: U32 = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").copy()
    wide = points - np.uint32(0xFF01) < 0x5E
    points[wide] -= np.uint32(0xFEE0)
    points[points == 0x3000] = SPACE
    return points.tobytes().decode("utf-32-le", "surrogatepass")


def first_bytes(buffer: bytes) -> I64:
    """Return the place of the first byte of each code point of UTF-8 *buffer*."""
    return np.flatnonzero((np.frombuffer(buffer, np.uint8) & 0xC0) != 0x80)


def _separator(texts: Sequence[str]) -> str:
    """Return a character that stands in none of *texts* and that normalisation leaves alone.

    NUL, unless a text has it; then a private-use character. There are more of these than
    characters in a chunk of several texts; a single text needs no telling apart.
    """
    if len(texts) == 1:
        return "\0"
    used = frozenset().union(*texts) if any("\0" in text for text in texts) else frozenset()
    return next(c for c in chain("\0", map(chr, PRIVATE_USE)) if c not in used)


@cache
def _kinds() -> U8:
    """Return for each code point whether it is BLANK, a DIGIT, INVISIBLE or none of these."""
    table = np.zeros(0x110000, np.uint8)
    everything = "".join(map(chr, range(0x40000)))
    for kind, pattern in ((BLANK, r"\s"), (DIGIT, r"\d"), (INVISIBLE, INVISIBLE_MARKS)):
        table[[found.start() for found in re.finditer(pattern, everything)]] = kind
    return table


def _collapsed(units: Units, bounds: I64) -> tuple[Units, I64]:
    """Return *units* with runs of spaces made one, and none at either end of a text."""
    space = units == SPACE
    blank = space.copy()
    blank[bounds - 1] = True  # the separators: spaces after one are leading
    units, bounds = _without(units, np.flatnonzero(space[1:] & blank[:-1]) + 1, bounds)
    ends = bounds[1:] - 2
    trailing = ends[(units[ends] == SPACE) & (ends >= bounds[:-1])]
    return _without(units, trailing, bounds)


def _without(units: Units, drop: I64, bounds: I64) -> tuple[Units, I64]:
    """Return *units* but those at the rising positions *drop*, and the moved bounds."""
    if not drop.size:
        return units, bounds
    kept = np.ones(len(units), bool)
    kept[drop] = False
    return units[kept], bounds - np.searchsorted(drop, bounds)


def _ascii_table(how: Normalisation) -> bytes:
    """Return the byte table that does for ASCII what the Unicode steps do for all."""
    table = bytearray(range(256))
    if how.casefold:
        for upper in range(ord("A"), ord("Z") + 1):
            table[upper] = upper + 32
    if how.whitespace:
        for space in ASCII_SPACES:
            table[space] = ord(" ")
    if how.digits:
        for digit in b"0123456789":
            table[digit] = ord("0")
    return bytes(table)
