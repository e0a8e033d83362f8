import pytest

from tests.simulator.planted import PLANTED
from tests.simulator.story import assert_caught

SEEDS_MAX = 600
"""A bug that these seeds do not show would live for long in CI. Without one they are all well
(`test_simulator.py` runs them)."""


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught_by_the_check_that_is_there_for_it(bug, monkeypatch):
    bug.plant(monkeypatch)
    assert_caught((bug.seed, *range(SEEDS_MAX)), (bug.check,))
