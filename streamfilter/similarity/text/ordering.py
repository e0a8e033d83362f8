"""Unicode's normal forms in linear time: the order of combining marks, without a quadratic sort.

A normal form sorts the marks after a letter by their combining classes. Python uses insertion sort.
That suits the few marks of real writing, but takes a quarter of an hour for a hostile text of a
million marks. Long runs are sorted here beforehand. For sorted marks, Python needs one comparison a
mark, and the result is exactly the same.
"""

import unicodedata
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
DECOMPOSED: dict[Form, Form] = {"NFC": "NFD", "NFD": "NFD", "NFKC": "NFKD", "NFKD": "NFKD"}

RUN_MAX = 30
"""Runs of up to so many marks are left to Python: Unicode's bound for stream-safe text (UAX 15)."""

MARKS_END = 0x20000  # no code point from here on becomes a mark


def normal_form(form: Form, text: str) -> str:
    """Return `unicodedata.normalize` of *text*, in time that grows with its length only."""
    return unicodedata.normalize(form, _ordered(form, text) if len(text) > RUN_MAX else text)


def _ordered(form: Form, text: str) -> str:
    """Return *text* with its long runs of marks decomposed and in canonical order."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    marks = _marks(DECOMPOSED[form])
    if not marks.take(points[RUN_MAX :: RUN_MAX + 1], mode="clip").any():
        return text  # a long run covers one of these places
    others = np.flatnonzero(~marks.take(points, mode="clip"))
    ends = np.append(others, len(points))
    begins = np.concatenate(([0], others + 1))
    long = np.flatnonzero(ends - begins > RUN_MAX)
    pieces, done = [], 0
    for begin, end in zip(begins[long].tolist(), ends[long].tolist(), strict=True):
        pieces += [text[done:begin], _sorted(form, text[begin:end])]
        done = end
    return "".join((*pieces, text[done:]))


def _sorted(form: Form, run: str) -> str:
    """Return the marks of *run* decomposed, sorted by class, and by place within one class."""
    parts = {mark: unicodedata.normalize(DECOMPOSED[form], mark) for mark in set(run)}
    return "".join(sorted("".join(map(parts.__getitem__, run)), key=unicodedata.combining))


@cache
def _marks(form: Form) -> NDArray[np.bool_]:
    """Return for each code point whether *form* makes combining marks of it and nothing else."""
    found = np.zeros(MARKS_END + 1, bool)
    for point in range(0x300, MARKS_END):
        character = chr(point)
        if unicodedata.combining(character):
            found[point] = True
        elif unicodedata.decomposition(character):
            became = unicodedata.normalize(form, character)
            found[point] = all(map(unicodedata.combining, became))
    return found
