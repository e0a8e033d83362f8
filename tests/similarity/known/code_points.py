"""The generator of `code_points.txt` in `similarity/text/`, from the data of the package `regex`.

`python -m tests.similarity.known.code_points` writes the file again, for a newer Unicode. What it
says of a character assigned in Unicode 14 may not change without another `ALGORITHM`: indexes hold
tokens made by it (`test_code_points.py`).
"""

from collections.abc import Iterable

import regex

from streamfilter.similarity.text.code_points import FILE

ALL = "".join(map(chr, range(0x110000)))
HEAD = """\
# Which code points are invisible, and which take part in words: ranges, in hexadecimal.
# Generated: python -m tests.similarity.known.code_points (it says what each class is).
"""
COLUMNS = 99


def having(properties: str) -> set[int]:
    """Return the code points in a set of properties, as `regex` writes it."""
    return {match.start() for match in regex.finditer(f"[{properties}]", ALL)}


def classes() -> dict[str, set[int]]:
    """Return the code points of each class of the file.

    invisible: the property Default_Ignorable_Code_Point.
    mark: what UAX #29 leaves with the character before it (rule WB4).
    unspaced: where UAX #29 finds no words by rules: ideographs, kana, and what has the line
        breaks of South East Asia; kana and Han with all that only they use.
    letter: all else that is a letter, a number or an underscore, or a part of words by UAX #29.
    """
    extending = having(r"\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}\p{M}")
    of_words = having(r"\p{WB=ALetter}\p{WB=Hebrew_Letter}\p{WB=Numeric}\p{WB=ExtendNumLet}")
    of_words |= having(r"\p{L}\p{N}\p{WB=Katakana}") | having(r"\p{Line_Break=SA}")
    of_words -= extending | having(r"\p{White_Space}")
    unspaced = having(r"\p{Line_Break=SA}\p{Ideographic}\p{scx=Han}\p{scx=Hiragana}")
    unspaced |= having(r"\p{scx=Katakana}\p{scx=Tangut}\p{scx=Nushu}\p{scx=Khitan_Small_Script}")
    unspaced &= of_words
    return {
        "invisible": having(r"\p{Default_Ignorable_Code_Point}"),
        "letter": of_words - unspaced,
        "mark": extending,
        "unspaced": unspaced,
    }


def lines(points: Iterable[int]) -> list[str]:
    """Return *points* as lines of ranges, such as ``30-39 5F``."""
    ranges: list[list[int]] = []
    for point in sorted(points):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    filled = [""]
    for first, last in ranges:
        word = f"{first:X}-{last:X}" if first < last else f"{first:X}"
        if len(filled[-1]) + len(word) + 1 > COLUMNS:
            filled.append("")
        filled[-1] += f" {word}" if filled[-1] else word
    return filled


def text() -> str:
    """Return the whole file."""
    parts = [f"[{name}]\n" + "\n".join(lines(points)) for name, points in classes().items()]
    return HEAD + "\n".join(parts) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="ascii")
