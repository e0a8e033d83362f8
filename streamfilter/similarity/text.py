"""Normalisation: which differences between two texts do not count.

Unicode form, case fold, invisible characters, digits, white space, in that order; each step is
a switch. The result is UTF-8, the same bytes on every platform, and on every Python version
for characters assigned in Unicode 14 (Unicode's stability policy promises it). ASCII text
takes a fast path that gives the same bytes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import partial

from streamfilter.similarity.scheme import Normalisation

UNICODE_VERSION = unicodedata.unidata_version

INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
"""Soft hyphen, grapheme joiner, zero-width and direction marks, byte-order mark."""

SPACES = re.compile(r"\s+")
DIGITS = re.compile(r"\d")
ASCII_SPACES = b"\t\n\v\f\r\x1c\x1d\x1e\x1f"
"""What `str.split` takes for white space in ASCII, but for the space itself."""

FORMS: dict[str, Callable[[str], str] | None] = {
    "NFKC": partial(unicodedata.normalize, "NFKC"),
    "NFC": partial(unicodedata.normalize, "NFC"),
    "none": None,
}

GROWTH_MAX = 18
"""NFKC makes one code point out of U+FDFA into 18: the most that normalisation grows a text."""


class Normaliser:
    """Turns texts into normalised UTF-8 bytes under one `Normalisation`."""

    def __init__(self, normalisation: Normalisation) -> None:
        self._how = normalisation
        self._table = _ascii_table(normalisation)
        self._form = FORMS[normalisation.unicode]

    def __call__(self, text: str) -> bytes:
        """Return *text* normalised, as UTF-8 (lone surrogates pass as three bytes)."""
        return self._ascii(text.encode()) if text.isascii() else self._unicode(text)

    def _ascii(self, data: bytes) -> bytes:
        """Normalise ASCII: case, digits and white space are one byte table away."""
        data = data.translate(self._table)
        if not self._how.whitespace:
            return data
        # Halving runs takes log2(longest run) passes of memmem; split and join cost 11 us/KB.
        while b"  " in data:
            data = data.replace(b"  ", b" ")
        return data.strip(b" ")

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
