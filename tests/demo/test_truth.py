import random
from itertools import combinations, islice

import pytest

from streamfilter.demo import truth as demo_truth
from streamfilter.stories import stories

SEED = 11


@pytest.mark.parametrize("floor", [0.5, 0.8, 1.0])
def test_the_prefix_filter_finds_what_comparing_all_pairs_finds(floor):
    texts = {s.id: demo_truth.normalised(s.text) for s in islice(stories(SEED), 250)}
    sets = {id_: demo_truth.shingles(text) for id_, text in texts.items()}
    expected = {
        (later, earlier): demo_truth.jaccard(sets[earlier], sets[later])
        for earlier, later in combinations(sets, 2)
        if demo_truth.jaccard(sets[earlier], sets[later]) >= floor
    }
    found = {
        (later, earlier): s for later, earlier, s in demo_truth.similar_pairs(texts, floor=floor)
    }
    assert found == expected
    assert expected


def test_the_prefix_filter_finds_it_on_tiny_sets_too():
    rng = random.Random(SEED)
    texts = {
        f"{number}": " ".join(rng.choices("abcd", k=rng.randint(3, 7))) for number in range(120)
    }
    sets = {id_: demo_truth.shingles(text) for id_, text in texts.items()}
    expected = {
        (later, earlier)
        for earlier, later in combinations(sets, 2)
        if demo_truth.jaccard(sets[earlier], sets[later]) >= 0.6
    }
    assert {(a, b) for a, b, _ in demo_truth.similar_pairs(texts, floor=0.6)} == expected


def test_a_known_answer():
    left, right = (
        demo_truth.shingles(demo_truth.normalised(text))
        for text in ("A rose is a rose is a rose", "a  ROSE is a flower")
    )
    assert len(left) == 3
    assert demo_truth.jaccard(left, right) == 2 / 4
