"""The harness's statistics: medians, quartiles, ratios within a turn, and turns that alternate."""

import pytest

from streamfilter.bench.measure import Measured, interleaved, ratios
from streamfilter.bench.result import Target


def test_a_measurement_is_its_median_with_quartiles():
    measured = Measured.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (measured.low, measured.median, measured.high, measured.runs) == (2.0, 3.0, 4.0, 5)
    assert measured.spread == pytest.approx(1 / 3)


def test_one_run_has_no_spread():
    assert Measured.of([7.0]) == Measured(7.0, 7.0, 7.0, 1)
    assert Measured.of([7.0]).spread == 0.0


def test_a_disturbed_turn_cancels_out_of_a_ratio():
    """The machine was three times slower in the second turn, for both."""
    ours, theirs = [1.0, 3.0, 1.0], [2.0, 6.0, 2.0]
    assert ratios(ours, theirs) == Measured(2.0, 2.0, 2.0, 3)


def test_contenders_take_turns_and_every_other_turn_goes_backwards():
    order: list[str] = []
    works = {name: (lambda name=name: order.append(name)) for name in "abc"}
    found = interleaved(works, repeat=3)
    assert "".join(order) == "abc" + "abc" + "cba" + "abc"  # the first is to warm up
    assert {name: len(seconds) for name, seconds in found.items()} == {"a": 3, "b": 3, "c": 3}


def test_a_target_knows_which_direction_is_better():
    assert Target("speed", 9, 8).met
    assert not Target("speed", 7, 8).met
    assert Target("bytes", 7, 8, at_most=True).met
    assert not Target("bytes", 9, 8, at_most=True).met
