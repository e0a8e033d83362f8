from typing import Any

import pytest

from streamfilter.cluster import judge
from streamfilter.engine import start_checks
from tests.simulator.edges import process
from tests.simulator.edges.migration import MigrationStory
from tests.simulator.process import Process
from tests.simulator.story import Planted, run

QUICK, SLOW = 2, 6


class SeedStory(MigrationStory):
    """A seed is read between judges and one process, and no edge forwards meanwhile."""

    def _work(self, processes: list[Process], steps: int, *, edges: Any = None) -> None:
        if processes == [self.alone]:
            self._change(self.judges, self.edges)
            for some in (self.edges, []):
                self._change(self._working, some)
                for _ in range(12):
                    self.step()
            edges = []
        super()._work(processes, steps, edges=edges)


@pytest.mark.parametrize(
    "seeds",
    [range(QUICK), pytest.param(range(QUICK, QUICK + SLOW), marks=pytest.mark.slow)],
    ids=str,
)
def test_each_record_is_judged_once_by_groups_that_change_their_roles(seeds):
    results = (run(seed, kind=MigrationStory) for seed in seeds)
    assert not [result.text() for result in results if result.failure]


def what_edges_owe_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """One process, or a successor, begins although edges have not forwarded all verdicts."""
    patch.setattr(start_checks, "owed_by_edges", lambda *offsets: {})


def a_resume_behind_one_process_comes_last(patch: pytest.MonkeyPatch) -> None:
    """Edges see a hole before they hear why: it happened where ranges were signed before."""
    real = judge.VerdictWriter.written

    def written(self: Any, decided: Any, before: Any, after: Any) -> Any:
        leaving = real(self, decided, before, after)
        last = [self._resume(p, after[p], judge.ALONE) for p in sorted(self._alone)]
        return [*leaving[len(last) :], *last]

    patch.setattr(judge.VerdictWriter, "written", written)


def a_gap_takes_the_place_of_that_resume(patch: pytest.MonkeyPatch) -> None:
    """A range that is dropped before a judge's first transaction is all that it answers."""
    real = judge.SketchLog._drop

    def drop(self: Any, p: int, *args: Any) -> None:
        real(self, p, *args)
        self.alone.discard(p)

    patch.setattr(judge.SketchLog, "_drop", drop)


def a_seed_forgets_what_judges_noted(patch: pytest.MonkeyPatch) -> None:
    """It commits the input's offsets, and not those of the sketches beside them."""

    def nothing(world: Any, roles: Any, positions: Any) -> dict[Any, Any]:
        return dict.fromkeys(map(roles.note, positions))

    patch.setattr(process, "kept_by_seed", nothing)


PLANTED = (
    Planted(a_seed_forgets_what_judges_noted, ("lost", "order"), 64, SeedStory),
    Planted(a_gap_takes_the_place_of_that_resume, ("stop", "stuck"), 29, MigrationStory),
    Planted(what_edges_owe_is_forgotten, ("lost", "order"), 31, MigrationStory),
    Planted(a_resume_behind_one_process_comes_last, ("stop", "stuck"), 29, MigrationStory),
)


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug, monkeypatch):
    bug.assert_caught(monkeypatch)
