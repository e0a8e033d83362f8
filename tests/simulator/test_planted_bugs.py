import pytest

from tests.simulator.edges.planted import PLANTED as EDGES
from tests.simulator.planted import PLANTED


@pytest.mark.slow
@pytest.mark.parametrize("bug", [*PLANTED, *EDGES], ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught_by_the_check_that_is_there_for_it(bug, monkeypatch):
    bug.assert_caught(monkeypatch)
