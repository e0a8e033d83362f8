"""Known answers of the estimates."""

import numpy as np
import pytest

from streamfilter.similarity.curve import collision_probability
from streamfilter.similarity.estimators import (
    curve_of,
    expected_pairs,
    wilson,
)
from streamfilter.similarity.scheme import Scheme


@pytest.mark.parametrize(
    ("successes", "trials", "lower", "upper"),
    [  # Newcombe 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_printed_intervals(successes, trials, lower, upper):
    found = wilson(successes, trials)
    assert found.value == successes / trials
    assert (round(found.lower, 4), round(found.upper, 4)) == (lower, upper)


def test_without_trials_there_is_no_estimate():
    assert wilson(0, 0) is None


def test_a_pair_stands_for_as_many_as_the_curve_hides():
    expected = expected_pairs(curve_of(Scheme(9, 13))(np.array([0.8, 1.0])))
    met = collision_probability(0.8, bands=9, rows=13)
    assert expected == pytest.approx(1 / met + 1)


def test_a_pair_that_cannot_have_been_found_is_refused():
    for wrong in (0.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match="chance"):
            expected_pairs(np.array([0.9, wrong]))


def test_the_curve_of_random_keys_is_theirs_and_not_that_of_bands():
    found = curve_of(Scheme(125, 3, layout="random"))(np.array([0.3, 0.8, 1.0]))
    assert found.round(3).tolist() == [0.933, 1.0, 1.0]
