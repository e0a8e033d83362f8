"""Bounds of a finite population's count, against enumeration and against draws."""

from math import comb

import numpy as np
import pytest

from streamfilter.quality.live.population import bounds
from tests.support.cases import cases


def chance_at_most(found, sample, number, population):
    ways = sum(
        comb(number, x) * comb(population - number, sample - x)
        for x in range(found + 1)
        if sample - x <= population - number
    )
    return ways / comb(population, sample)


@pytest.mark.parametrize("population", [1, 2, 7, 30])
def test_the_bounds_are_those_of_enumeration(population):
    for sample in range(population + 1):
        for found in range(sample + 1):
            possible = [
                number
                for number in range(found, population - sample + found + 1)
                if chance_at_most(found, sample, number, population) >= 0.015
                and 1 - chance_at_most(found - 1, sample, number, population) >= 0.015
            ]
            wanted = (min(possible), max(possible))
            assert bounds(found, sample=sample, population=population) == wanted


@cases(("number", "population", "sample"), [
    (0, 1_000, 100), (3, 1_000, 100), (40, 5_000, 250), (4_990, 5_000, 250), (500, 100_000, 2_000),
])  # fmt: skip
def test_the_truth_is_inside_in_95_of_100_draws(number, population, sample):
    found = np.random.default_rng(7).hypergeometric(number, population - number, sample, 1_000)
    told = {x: bounds(x, sample=sample, population=population) for x in set(found.tolist())}
    inside = [told[x][0] <= number <= told[x][1] for x in found.tolist()]
    assert np.mean(inside) >= 0.95


def test_who_looked_at_all_knows_and_who_looked_at_none_does_not():
    assert bounds(7, sample=60, population=60) == (7, 7)
    assert bounds(0, sample=0, population=60) == (0, 60)
    assert bounds(0, sample=2_000, population=10_000_000)[1] == pytest.approx(20_974, rel=0.01)
    with pytest.raises(ValueError, match="cannot be"):
        bounds(3, sample=2, population=9)
