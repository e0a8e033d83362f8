"""Code points: which are invisible, and which take part in words.

The tables are in our own file `code_points.txt`, generated from Unicode's data, so that every
version of Python finds the same words. `tests/similarity/known/code_points.py` generates and
explains it.
"""

import re
from functools import cache
from pathlib import Path

import numpy as np

from streamfilter.similarity.columns import U8, U32

FILE = Path(__file__).with_name("code_points.txt")

LETTER, UNSPACED, MARK = 1, 2, 3  # the lowest bit: it continues a word
"""Classes of code points: part of a word; a character of a script without spaces between words; a
mark, which belongs to the character before it. The class is 0 for everything else."""

UNSPACED_FROM = 0x0E01  # all scripts without spaces are at or above this code point


@cache
def ranges() -> dict[str, list[tuple[int, int]]]:
    """Return the first and the last code point of each range of each class."""
    found: dict[str, list[tuple[int, int]]] = {}
    section: list[tuple[int, int]] = []
    for line in FILE.read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            pairs = (word.partition("-") for word in line.split())
            section += [(int(first, 16), int(last or first, 16)) for first, _, last in pairs]
    return found


@cache
def classes() -> U8:
    """Return the class of every code point (built once, 1 ms)."""
    table = np.zeros(0x110000, np.uint8)
    for name, value in (("letter", LETTER), ("unspaced", UNSPACED), ("mark", MARK)):
        for first, last in ranges()[name]:
            table[first : last + 1] = value
    return table


def classes_in_context(points: U32) -> U8:
    """Return the class of each of *points*; a mark has the class of the character before it.

    The first of *points* is not a mark. Example: ``a``, a mark, ``!``, a mark have the classes
    LETTER, LETTER, 0, 0.
    """
    found = classes().take(points, mode="clip")  # no point is above; takes half the time
    if found.max() < MARK:
        return found
    is_mark = found == MARK
    if not (is_mark[1:] & (found[:-1] & LETTER == 0)).any():  # all of them are marks of letters
        found ^= is_mark.view(np.uint8) * np.uint8(LETTER ^ MARK)  # a mask takes 100 times as long
        return found
    marks = np.flatnonzero(is_mark)
    heads = np.diff(marks, prepend=-1) > 1
    found[marks] = found[marks[heads] - 1][np.cumsum(heads) - 1]
    return found


def pattern(*names: str) -> str:
    """Return all code points of these classes, as the inside of a regular expression's set."""
    found = (each for name in names for each in ranges()[name])
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in found)


@cache
def _invisible() -> re.Pattern[str]:
    return re.compile(f"[{pattern('invisible')}]+")


@cache
def _word() -> re.Pattern[str]:
    starts = pattern("letter", "unspaced")
    return re.compile(f"[{starts}][{starts}{pattern('mark')}]*")


def is_invisible(character: str) -> bool:
    """Return True for Unicode's Default_Ignorable_Code_Point, which is not displayed."""
    return _invisible().match(character) is not None


def visible(text: str) -> str:
    """Return *text* without its invisible characters."""
    return text if text.isascii() else _invisible().sub("", text)


def words(text: str) -> list[str]:
    """Return the runs of letters and numbers of *text*, each with its marks."""
    return _word().findall(text)
