"""The truth of the benchmarks: exact by another road, and a judge that sees each kind of error."""

import random

import pytest

from streamfilter.bench import mixes, texts, truth

SEED = 20261122


def brute_force(sets: list[set[str]]) -> list[dict[int, float]]:
    return [
        {
            other: truth.jaccard(sets[row], sets[other])
            for other in range(row)
            if truth.jaccard(sets[row], sets[other]) >= truth.FLOOR
        }
        for row in range(len(sets))
    ]


@pytest.mark.parametrize("language", texts.LANGUAGES)
def test_the_join_finds_exactly_the_pairs_that_brute_force_finds(language):
    documents = mixes.mixed(texts.documents(language, 600, 120, seed=SEED), share=0.6, seed=SEED)
    sets = [truth.shingles(text, kind="char", size=4) for text in documents]
    expected = brute_force(sets)
    assert sum(map(len, expected)) > 50
    assert truth.neighbours(sets) == expected


def test_empty_sets_are_near_nothing():
    assert truth.neighbours([set(), set(), {"a"}, {"a"}]) == [{}, {}, {}, {2: 1.0}]


NEAR = [{}, {0: 0.9}, {0: 0.81, 1: 0.95}, {}]


def test_withholding_all_similar_and_nothing_else_is_right():
    judged = truth.judged([True, False, False, True], NEAR)
    # Row 2 is .81 from the only kept one: rightly withheld, but nobody demanded it.
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
    documents = mixes.mixed(texts.documents("arabic", 800, 400, seed=SEED), share=share, seed=SEED)
    near = truth.neighbours([truth.shingles(text) for text in documents])
    similar = sum(bool(others) for others in near) / len(documents)
    assert share - 0.15 <= similar <= share + 0.1
