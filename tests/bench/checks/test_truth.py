"""The truth of the benchmarks: exact by another road, and a judge that sees each kind of error."""

import random
from itertools import islice

import pytest

from streamfilter.bench import texts, truth
from streamfilter.stories.stream import stories

SEED = 20261122


def brute_force(sets: list[set[str]], floor: float = truth.FLOOR) -> list[dict[int, float]]:
    return [
        {
            other: truth.jaccard(sets[row], sets[other])
            for other in range(row)
            if truth.jaccard(sets[row], sets[other]) >= floor
        }
        for row in range(len(sets))
    ]


@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_the_join_finds_exactly_the_pairs_that_brute_force_finds(language):
    documents = texts.mixed(texts.documents(language, 600, 120, seed=SEED), share=0.6, seed=SEED)
    sets = [truth.shingles(text, kind="char", size=4) for text in documents]
    expected = brute_force(sets)
    assert sum(map(len, expected)) > 50
    assert truth.neighbours(sets) == expected


def test_the_join_finds_them_among_tiny_sets_too():
    rng = random.Random(SEED)
    runs = [" ".join(rng.choices("abcd", k=rng.randint(3, 7))) for _ in range(120)]
    sets = [truth.shingles(text) for text in runs]
    assert truth.neighbours(sets, floor=0.6) == brute_force(sets, floor=0.6)


@pytest.mark.parametrize("floor", [0.5, 0.8, 1.0])
def test_the_join_finds_the_similar_stories_of_the_demo(floor):
    sets = [truth.shingles(story.text) for story in islice(stories(11), 250)]
    assert truth.neighbours(sets, floor=floor) == brute_force(sets, floor=floor)
    assert any(brute_force(sets, floor=floor))


def test_a_known_answer():
    left, right = map(truth.shingles, ("A rose is a rose is a rose", "a  ROSE is a flower"))
    assert len(left) == 3
    assert truth.jaccard(left, right) == 2 / 4


def test_empty_sets_are_near_nothing():
    assert truth.neighbours([set(), set(), {"a"}, {"a"}]) == [{}, {}, {}, {2: 1.0}]


NEAR = [{}, {0: 0.9}, {0: 0.81, 1: 0.95}, {}]


def test_withholding_all_similar_and_nothing_else_is_right():
    judged = truth.judged([True, False, False, True], NEAR)
    # Row 2 is .81 from the only kept one: rightly withheld, but no one demanded it.
    assert (judged.expected, judged.found, judged.withheld, judged.right) == (1, 1, 2, 2)


def test_keeping_a_similar_one_costs_recall():
    assert truth.judged([True, True, True, True], NEAR).recall == 0.0


def test_withholding_a_stranger_costs_precision():
    assert truth.judged([True, False, False, False], NEAR).precision == pytest.approx(2 / 3)


def test_withholding_both_of_a_pair_is_wrong_even_though_they_are_similar():
    """A match counts only with a document that was kept."""
    assert truth.judged([False, False, False, True], NEAR).precision == 0.0


@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_texts_have_the_size_and_the_letters_they_claim(language):
    rng = random.Random(SEED)
    size = rng.randrange(300, 3_000)
    documents = texts.documents(language, size, 20, seed=SEED)
    assert documents == texts.documents(language, size, 20, seed=SEED)
    assert len(set(documents)) == 20
    for text in documents:
        assert size - 3 <= len(text.encode()) <= size
        assert text.isascii() is (language == "english")
        assert sum(c.isalpha() or c == " " for c in text) > 0.85 * len(text)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_mix_has_about_the_share_of_duplicates_that_was_asked_for(share):
    documents = texts.mixed(texts.documents("arabic", 800, 400, seed=SEED), share=share, seed=SEED)
    near = truth.neighbours([truth.shingles(text) for text in documents])
    similar = sum(bool(others) for others in near) / len(documents)
    assert share - 0.15 <= similar <= share + 0.1
