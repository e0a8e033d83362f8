"""The size and the language of the house do not get worse: a limit may be lowered, never raised."""

import pytest

from tests.house import measured, ours, sentences

LIMITS = {
    # what: (today, wanted)
    "sentences above 25 words": (0, 0),
    "words of the old dialect": (0, 0),
    "methods of a class": (26, 20),
    "files of a folder, verbs apart": (14, 14),
    "lines of a function": (67, 60),
}
"""Counted over the package and the READMEs of config/ and deploy/."""


@pytest.fixture(scope="module")
def found() -> dict[str, int]:
    house = measured(ours("streamfilter", "config", "deploy"))
    folders = {name: n for name, n in house.folders.items() if not name.endswith("commands")}
    return {
        "sentences above 25 words": len(house.long_sentences),
        "words of the old dialect": house.retired().total(),
        "methods of a class": max(house.methods.values()),
        "files of a folder, verbs apart": max(folders.values()),
        "lines of a function": max(size for size, _ in house.functions),
    }


@pytest.mark.parametrize("what", LIMITS)
def test_the_house_gets_no_worse(found, what):
    assert found[what] <= LIMITS[what][0], "python -m tests.house shows where"


def test_a_sentence_is_counted_without_tables_and_examples():
    prose = (
        "One two three four. Five six seven!\n\n    an indented example of code\n\n| a | b c d |"
    )
    assert [words for words, _ in sentences(prose)] == [4, 3]
