"""Normalisation: removes the differences between two texts that do not count.

The steps are invisible characters, Unicode form, case folding, digits and white space, in that
order. Each can be switched off. Invisible characters go first, so that none stands between a letter
and its mark. A run of white space becomes one space. Between two characters of scripts without
spaces it is removed: there it is only a line break. The result is UTF-8, the same bytes on every
platform. For characters assigned in Unicode 14 it is also the same on every Python version
(Unicode's stability policy). ASCII text takes a fast path that gives the same bytes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.similarity.columns import I64, U8, U32, distinct, slices
from streamfilter.similarity.hashing import WORD
from streamfilter.similarity.kernel.calls import UNKNOWN_PAGE, Kernel, Normalised
from streamfilter.similarity.kernel.choice import kernel
from streamfilter.similarity.scheme import Normalisation
from streamfilter.similarity.text.code_points import (
    MARK,
    UNSPACED,
    UNSPACED_FROM,
    classes,
    classes_in_context,
)
from streamfilter.similarity.text.folding import (
    LONG_MAX,
    NOTHING,
    SPACE,
    SPECIAL,
    Edits,
    folding,
    needs_context,
)

Units = TypeVar("Units", U8, U32)

UNICODE_VERSION = unicodedata.unidata_version

PRIVATE_USE = range(0xF0000, 0x10FFFE)

ASCII_SPACES = (b"\t", b"\n", b"\v", b"\f", b"\r", b"\x1c", b"\x1d", b"\x1e", b"\x1f")
"""White space of `str.split` in ASCII, without the space itself."""

UPPER_A, LETTERS, CASE, DIGIT_ZERO, DIGITS = np.array([ord("A"), 26, 32, ord("0"), 10], np.uint8)

SPARE = bytes(WORD)
FEW = 200  # if more than so many units are kept for each dropped one, whole stretches are copied
RARE = 16
"""If fewer than one in so many points can be of such scripts, these points are checked first."""
GROWTH_MAX = LONG_MAX  # the most code points that one becomes: so far may a text grow
GROWING = (*range(0xA0, 0x3400), *range(0xD800, 0x20000))  # no other code point becomes several


class Spans(Struct, frozen=True):
    """Byte spans in a buffer, and which of them belong to which text."""

    starts: I64
    lengths: I64
    text_starts: I64  # (n + 1,) text i has spans text_starts[i] to text_starts[i + 1]


class Chunk(Struct, frozen=True):
    """Normalised texts in one byte buffer, a separator before, between and after them."""

    buffer: bytes  # UTF-8, with 8 spare bytes at the end, so that spans read as words
    bounds: I64  # (n + 1,) text i is buffer[bounds[i] : bounds[i + 1] - 1]
    points: U32 | None = None
    """The code points of the buffer without the spare bytes; None if no step needed them yet."""
    places: I64 | None = None  # where each of them begins in the buffer, and where the last ends

    words: Spans | None = None  # the words of the texts, if the kernel has found them already

    @classmethod
    def of(cls, made: Normalised) -> Chunk:
        buffer, bounds, *words = made
        return cls(buffer, bounds, words=Spans(*words))

    @property
    def is_ascii(self) -> bool:
        return self.buffer.isascii()

    def decoded(self) -> tuple[U32, I64]:
        """Return `points` and `places`."""
        if self.points is not None and self.places is not None:
            return self.points, self.places
        points = points_of(self.buffer[: -len(SPARE)].decode("utf-8", "surrogatepass"))
        return points, first_bytes(self.buffer)[: len(points) + 1]

    def texts(self) -> list[bytes]:
        buffer, bounds = self.buffer, self.bounds.tolist()
        return [buffer[begin : end - 1] for begin, end in pairwise(bounds)]


class Normaliser:
    """Turns texts into normalised UTF-8 under one `Normalisation`."""

    def __init__(self, normalisation: Normalisation) -> None:
        self._how = normalisation
        self.clean = normalisation.cleaner()
        self._folding = folding(normalisation)
        self._cleaning = folding(replace(normalisation, unicode="none", casefold=False))

    def __call__(self, text: str) -> bytes:
        """Return *text* normalised, as UTF-8 (lone surrogates pass as three bytes)."""
        return self.chunk([text], ascii_only=text.isascii()).texts()[0]

    def stages(self, text: str) -> list[tuple[str, str]]:
        """Return (step, text after it) for each step that changes *text*; the last is the result.

        The Unicode steps are one stage, ``normalised``: a table does them at once.
        """
        found = self.clean.stages(text)
        before = found[-1][1] if found else text
        after = self(text).decode(errors="surrogatepass")
        return found if after == before else [*found, ("normalised", after)]

    def chunk(self, texts: Sequence[str], *, ascii_only: bool) -> Chunk:
        """Return *texts* normalised in one buffer; with *ascii_only* all must be ASCII."""
        if self.clean.steps:
            texts = list(map(self.clean, texts))
            ascii_only = all(map(str.isascii, texts))
        return self._ascii(texts) if ascii_only else self._unicode(texts)

    def _ascii(self, texts: Sequence[str]) -> Chunk:
        """Normalise ASCII as one buffer, in passes over all of its bytes."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        bounds = np.concatenate(([1], 1 + np.cumsum(lengths + 1)))
        data = f"\0{chr(0).join(texts)}\0".encode("ascii")
        if (native := kernel()) is not None:
            made = native.ascii(
                data, bounds, self._translation, classes(), collapse=self._how.whitespace
            )
            if made is not None:
                return Chunk.of(made)
        octets = self._translated(data)
        if self._how.whitespace:
            octets, bounds = _collapsed(octets, bounds)
        return Chunk(octets.tobytes() + SPARE, bounds)

    def _translated(self, data: bytes) -> U8:
        """Return what each byte of ASCII *data* becomes, whatever stands beside it."""
        if "apostrophes" in self._how.fold:  # the only fold of a character of ASCII
            data = data.replace(b"`", b"'")
        if self._how.whitespace:
            for space in ASCII_SPACES:
                data = data.replace(space, b" ")
        octets: U8 = np.frombuffer(data, np.uint8)
        if self._how.casefold:
            # Arithmetic on bytes wraps, and takes a third of the time of a table.
            octets = octets | ((octets - UPPER_A) < LETTERS).view(np.uint8) * CASE
        if self._how.digits:
            octets = np.where((octets - DIGIT_ZERO) < DIGITS, DIGIT_ZERO, octets)
        return octets

    @cached_property
    def _translation(self) -> bytes:
        """Return the same for each byte, for the kernel: all 256 of them."""
        return self._translated(bytes(range(256))).tobytes()

    def _unicode(self, texts: Sequence[str]) -> Chunk:
        """Normalise any text; a separator that no text contains tells them apart again."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        bounds = np.concatenate(([1], 1 + np.cumsum(lengths + 1)))
        separator, points = "\0", points_of("\0" + "\0".join(texts) + "\0")
        if np.count_nonzero(points == 0) > len(bounds):
            separator = _unused(texts)
            points = points_of(separator + separator.join(texts) + separator)
        if (native := kernel()) is not None:
            chunk = self._natively(native, points, bounds, separator)
            if chunk is not None:
                return chunk
        values = self._folding.values(points)
        highest = values.max()
        if highest >= SPECIAL:
            points, bounds = self._folded(points, values, bounds, ord(separator))
        else:
            points = values
        if self._how.whitespace:
            points, bounds = _collapsed(points, bounds)
            if highest >= UNSPACED_FROM:
                points, bounds = _unwrapped(points, bounds)
        if separator != "\0":
            points = points.copy()
            points[bounds - 1] = 0
        buffer = _utf8_of(points) + SPARE
        places = first_bytes(buffer)[: len(points) + 1]
        return Chunk(buffer, places[bounds - 1] + 1, points, places)

    def _natively(self, native: Kernel, points: U32, bounds: I64, separator: str) -> Chunk | None:
        """Return the chunk of *points* as the kernel makes it; None if it does not."""
        table = self._folding.table
        folded = native.fold(points, bounds, table)
        if folded == UNKNOWN_PAGE:
            self._folding.values(points)  # fills the pages
            folded = native.fold(points, bounds, table)
        if isinstance(folded, int):
            return None
        values, points, bounds, context = folded
        if context.size:
            edits = self._between_spaces(points, bounds, context, ord(separator))
            values, bounds = edits.of(values, bounds)
        several, lengths = self._folding.several
        made = native.encode(
            values, bounds, several, lengths, classes(), collapse=self._how.whitespace
        )
        return None if made is None else Chunk.of(made)

    def _folded(self, points: U32, values: U32, bounds: I64, separator: int) -> tuple[U32, I64]:
        """Do what *values* say of *points*, by Python's own tables where it must be."""
        special = np.flatnonzero(values >= SPECIAL)
        invisible = special[values[special] == NOTHING]
        if invisible.size:
            points, _ = _without(points, invisible, bounds)
            values, bounds = _without(values, invisible, bounds)
            special = np.flatnonzero(values >= SPECIAL)
        context = needs_context(values, special)
        if context.size:
            edits = self._between_spaces(points, bounds, context, separator)
            values, bounds = edits.of(values, bounds)
        return self._folding.unfolding(values).of(values, bounds)

    def _between_spaces(self, points: U32, bounds: I64, places: I64, separator: int) -> Edits:
        """Return what the stretches around *places* become by Python's own tables."""
        parting = points == separator
        if parting.sum() > len(bounds):  # one text that holds them all: it is one stretch
            stops = bounds - 1
        else:
            stops = np.flatnonzero(parting | (points == SPACE))
        ends = distinct(np.searchsorted(stops, places))
        starts = stops[ends - 1] + 1
        sizes = stops[ends] - starts
        raw = points[slices(starts, sizes + 1)]
        raw[np.cumsum(sizes + 1) - 1] = separator
        whole = self._whole(raw.tobytes().decode("utf-32-le", "surrogatepass"))
        parted = np.flatnonzero(whole == separator) if len(starts) > 1 else [len(whole) - 1]
        lengths = np.diff(parted, prepend=-1) - 1
        return Edits(starts, sizes, lengths, np.delete(whole, parted))

    def _whole(self, text: str) -> U32:
        """Return *text* normalised with Python's own tables, but for white space."""
        values = self._cleaning.values(points_of(self._folding.text(text)))
        return values[values != NOTHING] if self._how.fold else values


def normalised_length(text: str) -> int:
    """Return how many characters normalisation makes of *text* at most: marks may still compose."""
    if text.isascii():
        return len(text)
    return int(_lengths().take(points_of(text), mode="clip").sum(dtype=np.int64))


@cache
def _lengths() -> U8:
    """Return how long each code point becomes (built in 60 ms, when a text may be too long)."""
    lengths = np.ones(0x110000, np.uint8)
    for point in GROWING:
        lengths[point] = len(unicodedata.normalize("NFKC", chr(point)).casefold())
    return lengths


def points_of(text: str) -> U32:
    """Return the code points of *text*, lone surrogates included."""
    # As numpy keeps texts, at half the time of an encoding.
    return np.array([text or "\0"]).view(np.uint32)[: len(text)]


def _utf8_of(points: U32) -> bytes:
    text: str = points.view(f"<U{len(points)}")[0]
    # As numpy has it, a text ends before its last zeros.
    return text.encode("utf-8", "surrogatepass") + bytes(len(points) - len(text))


def first_bytes(buffer: bytes) -> I64:
    """Return the place of the first byte of each code point of UTF-8 *buffer*."""
    return np.flatnonzero((np.frombuffer(buffer, np.uint8) & 0xC0) != 0x80)


def _unused(texts: Sequence[str]) -> str:
    """Return a character that stands in none of *texts* and that normalisation leaves alone.

    A private-use character: there are more of these than characters in a chunk of several texts;
    a single text that has them all needs no telling apart.
    """
    used = frozenset().union(*texts)
    return next((c for c in map(chr, PRIVATE_USE) if c not in used), "\0")


def _collapsed(units: Units, bounds: I64) -> tuple[Units, I64]:
    """Return *units* with runs of spaces made one, and none at either end of a text."""
    space = units == SPACE
    blank = space.copy()
    blank[bounds - 1] = True  # the separators: spaces after one are leading
    units, bounds = _without(units, np.flatnonzero(space[1:] & blank[:-1]) + 1, bounds)
    ends = bounds[1:] - 2
    trailing = ends[(units[ends] == SPACE) & (ends >= bounds[:-1])]
    return _without(units, trailing, bounds)


def _unwrapped(points: U32, bounds: I64) -> tuple[U32, I64]:
    """Return *points* without the spaces between two characters of scripts without spaces."""
    high = points >= UNSPACED_FROM
    rare = RARE * np.count_nonzero(high) < len(points)  # perhaps they are quotation marks
    if rare and not (classes()[points[high]] == UNSPACED).any():
        return points, bounds
    spaces = np.flatnonzero(points == SPACE)
    spaces = spaces[classes()[points[spaces + 1]] == UNSPACED]
    before = classes()[points[spaces - 1]]
    if (before == MARK).any():
        before = classes_in_context(points)[spaces - 1]
    return _without(points, spaces[before == UNSPACED], bounds)


def _without(units: Units, drop: I64, bounds: I64) -> tuple[Units, I64]:
    """Return *units* but those at the rising positions *drop*, and the moved bounds."""
    if not drop.size:
        return units, bounds
    bounds = bounds - np.searchsorted(drop, bounds)
    if FEW * len(drop) < len(units):
        stretches = pairwise([-1, *drop.tolist(), len(units)])
        return np.concatenate([units[last + 1 : end] for last, end in stretches]), bounds
    kept = np.ones(len(units), bool)
    kept[drop] = False
    return units[kept], bounds
