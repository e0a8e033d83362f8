"""Known answers of the estimates."""

import pytest

from streamfilter.similarity.estimators import wilson


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
