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
from functools import partial
from itertools import pairwise

import numpy as np

from streamfilter.similarity.hashing import I64, U8, WORD
from streamfilter.similarity.scheme import Normalisation

UNICODE_VERSION = unicodedata.unidata_version

INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
"""Soft hyphen, grapheme joiner, zero-width and direction marks, byte-order mark."""

DIGITS = re.compile(r"\d")
ASCII_SPACES = b"\t\n\v\f\r\x1c\x1d\x1e\x1f"
"""What `str.split` takes for white space in ASCII, but for the space itself."""

FORMS: dict[str, Callable[[str], str] | None] = {
    "NFKC": partial(unicodedata.normalize, "NFKC"),
    "NFC": partial(unicodedata.normalize, "NFC"),
    "none": None,
}

SEPARATOR = b"\x00"
"""Between the texts of a chunk: in no word."""

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
    ascii_only: bool

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
        if ascii_only:
            return self._ascii(texts)
        return _joined([self._unicode(text) for text in texts], ascii_only=False)

    def _ascii(self, texts: Sequence[str]) -> Chunk:
        """Normalise ASCII as one buffer: case, digits and white space are a byte table away."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        bounds = np.concatenate(([1], 1 + np.cumsum(lengths + 1)))
        data = f"\0{chr(0).join(texts)}\0".encode("ascii").translate(self._table)
        if self._how.whitespace:
            data, bounds = _collapsed(data, bounds)
        return Chunk(data + SPARE, bounds, ascii_only=True)

    def _unicode(self, text: str) -> bytes:
        how = self._how
        if self._form is not None:
            text = self._form(text)
        if how.casefold:
            text = text.casefold()
        if how.invisible and INVISIBLE.search(text):
            text = INVISIBLE.sub("", text)
        if how.digits:
            text = DIGITS.sub("0", text)
        if how.whitespace:
            text = " ".join(text.split())
        return text.encode("utf-8", "surrogatepass")


def _joined(texts: Sequence[bytes], *, ascii_only: bool) -> Chunk:
    """Return *texts*, already normalised, as a chunk."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    bounds = np.concatenate(([1], 1 + np.cumsum(lengths + 1)))
    buffer = SEPARATOR + SEPARATOR.join(texts) + SEPARATOR + SPARE
    return Chunk(buffer, bounds, ascii_only)


def _collapsed(data: bytes, bounds: I64) -> tuple[bytes, I64]:
    """Return *data* with runs of spaces made one, and none at either end of a text."""
    octets = np.frombuffer(data, np.uint8)
    space = octets == SPACE
    blank = space.copy()
    blank[bounds - 1] = True  # the separators: spaces after one are leading
    drop = np.flatnonzero(space[1:] & blank[:-1]) + 1
    if drop.size:
        data, bounds = _without(octets, drop, bounds)
        octets = np.frombuffer(data, np.uint8)
    ends = bounds[1:] - 2
    trailing = ends[(octets[ends] == SPACE) & (ends >= bounds[:-1])]
    return _without(octets, trailing, bounds) if trailing.size else (data, bounds)


def _without(octets: U8, drop: I64, bounds: I64) -> tuple[bytes, I64]:
    """Return the bytes but those at the rising positions *drop*, and the moved bounds."""
    kept = np.ones(len(octets), bool)
    kept[drop] = False
    return octets[kept].tobytes(), bounds - np.searchsorted(drop, bounds)


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
