"""The size and the language of the house do not get worse: a limit may be lowered, never raised."""

import pytest

from tests.house import House, measured, ours, sentences
from tests.support.cases import cases

PACKAGE, TESTS = ("streamfilter", "config", "deploy"), ("tests",)
"""What is counted: Python files and READMEs of these folders."""
LIMITS = {
    # what: (today in the package, today in the tests, wanted)
    "sentences above 25 words": (0, 0, 0),
    "words of the old dialect": (0, 0, 0),
    "methods of a class": (20, 25, 20),
    "files of a folder, verbs apart": (14, 17, 14),
    "lines of a function": (67, 77, 60),
}


@pytest.fixture(scope="module")
def counted() -> list[dict[str, int]]:
    return [counts(measured(ours(*tops))) for tops in (PACKAGE, TESTS)]


def counts(house: House) -> dict[str, int]:
    folders = {name: n for name, n in house.folders.items() if not name.endswith("commands")}
    return {
        "sentences above 25 words": len(house.long_sentences),
        "words of the old dialect": house.retired().total(),
        "methods of a class": max(house.methods.values()),
        "files of a folder, verbs apart": max(folders.values()),
        "lines of a function": max(size for size, _ in house.functions),
    }


@pytest.mark.slow
@cases("what", LIMITS)
def test_the_house_gets_no_worse(counted, what):
    package, tests, _ = LIMITS[what]
    ours_now, tests_now = (each[what] for each in counted)
    assert ours_now <= package, "python -m tests.house shows where"
    assert tests_now <= tests, "python -m tests.house shows where"


def test_a_sentence_is_counted_without_tables_and_examples():
    prose = (
        "One two three four. Five six seven!\n\n    an indented example of code\n\n| a | b c d |"
    )
    assert [words for words, _ in sentences(prose)] == [4, 3]
