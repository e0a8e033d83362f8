from typing import Any

import pytest

from streamfilter.tasks import restore, take_over
from tests.simulator.story import Planted, run
from tests.simulator.successor.story import SuccessorStory
from tests.support.values import replace

QUICK, SLOW = 5, 15


@pytest.mark.parametrize(
    "seeds",
    [range(QUICK), pytest.param(range(QUICK, QUICK + SLOW), marks=pytest.mark.slow)],
    ids=str,
)
def test_each_record_is_judged_by_one_of_two_groups_in_any_story(seeds):
    results = (run(seed, kind=SuccessorStory) for seed in seeds)
    assert not [result.text() for result in results if result.failure]


def overlap(patch: pytest.MonkeyPatch) -> None:
    """The old group does not read that another one has succeeded it."""
    patch.setattr(restore, "decode_successor", lambda value: None)


def gap(patch: pytest.MonkeyPatch) -> None:
    """The new group begins at the end of the input."""
    real = take_over.TakingOver.position

    def position(self: Any) -> Any:
        found = yield from real(self)
        if found is None:
            return None
        ends = self._parts.source.start_positions(sorted(found.positions), "latest")
        progress = replace(found.progress, positions=found.known | ends)
        return replace(found, positions=ends, progress=progress)

    patch.setattr(take_over.TakingOver, "position", position)


PLANTED = (
    Planted(gap, ("lost",), 2, SuccessorStory),
    Planted(overlap, ("doubled",), 2, SuccessorStory),
)


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug, monkeypatch):
    bug.assert_caught(monkeypatch)
