"""Integers by tables: whichever way is taken, by a table or by sorting, the answer is the same."""

import numpy as np

from streamfilter.similarity.columns import Samples, distinct, places_of, starts_of
from tests.support.cases import cases


@cases("reach", [1, 50, 2_000, 10**12])
@cases("first", [0, 10**12])
@cases("number", [0, 1, 700])
def test_distinct_values_and_places_are_those_of_sorting(reach, first, number):
    rng = np.random.default_rng(number)
    values, asked = (first + rng.integers(0, reach, number) for _ in range(2))
    rising = distinct(values)
    assert (rising.dtype, rising.tolist()) == (np.int64, sorted(set(values.tolist())))
    asked = np.concatenate((asked, values, [0, first + 10**10]))
    places = places_of(asked, rising)
    assert (places.dtype, places.tolist()) == (np.int64, np.searchsorted(rising, asked).tolist())


@cases("rows", [[], [3], [2, 3, 4], [0, 2, 4, 5, 7], [1, 5], [6, 2, 2], [4, 3], [*range(8)]])
def test_rows_of_samples_are_those_asked_for_and_none_keeps_the_others_in_memory(rows):
    sizes = np.array([2, 0, 3, 1, 4, 0, 2, 1])
    whole = Samples(np.arange(13, dtype=np.uint32), starts_of(sizes), sizes * 10)
    some = whole.at(np.array(rows, np.int64))
    each = np.split(whole.tokens, whole.starts[1:-1])
    assert some.tokens.tolist() == [token for row in rows for token in each[row].tolist()]
    assert some.sizes.tolist() == [int(sizes[row]) for row in rows]
    assert some.set_sizes.tolist() == [int(sizes[row]) * 10 for row in rows]
    assert not np.shares_memory(some.tokens, whole.tokens)
