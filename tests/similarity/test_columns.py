"""Integers by tables: whichever way is taken, by a table or by sorting, the answer is the same."""

import numpy as np
import pytest

from streamfilter.similarity.columns import distinct, places_of


@pytest.mark.parametrize("reach", [1, 50, 2_000, 10**12])
@pytest.mark.parametrize("first", [0, 10**12])
@pytest.mark.parametrize("number", [0, 1, 700])
def test_distinct_values_and_places_are_those_of_sorting(reach, first, number):
    rng = np.random.default_rng(number)
    values, asked = (first + rng.integers(0, reach, number) for _ in range(2))
    rising = distinct(values)
    assert (rising.dtype, rising.tolist()) == (np.int64, sorted(set(values.tolist())))
    asked = np.concatenate((asked, values, [0, first + 10**10]))
    places = places_of(asked, rising)
    assert (places.dtype, places.tolist()) == (np.int64, np.searchsorted(rising, asked).tolist())
