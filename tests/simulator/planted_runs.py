"""Bugs planted into the runs of the index, found by what a process reads after a crash."""

from typing import Any

import pytest

from streamfilter.index.bands import page_writes
from streamfilter.index.bands.sorted_run import SortedRun
from streamfilter.index.rocks import rocks_index, window_runs
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.index.rocks.window_runs import WindowRuns
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from tests.simulator import world
from tests.support.values import replace

CALM = dict.fromkeys(world.FAULTS, 0.0)
"""Rates of a world in which nothing goes wrong by itself."""
MORTAL = {**world.MERGING, "rates": {**CALM, "crash": 0.01}, "retentions": (UNLIMITED,)}


def only_in_worlds(patch: pytest.MonkeyPatch, **shape: Any) -> None:
    """Let all worlds be shaped so: a bug that one seed of hundreds meets is lost by any change."""
    real = world.draw_shape
    if shape.keys().isdisjoint({"corrections", "backups", "dated"}):
        patch.setattr(world, "LIVELY", 0.0)
        patch.setattr(world, "DATED", 0.0)
    patch.setattr(world, "draw_shape", lambda rng, seed: replace(real(rng, seed), **shape))


def the_position_is_ahead_of_the_run(patch: pytest.MonkeyPatch) -> None:
    """The buckets of a batch are stored with the next batch; the position says they are there."""
    only_in_worlds(patch, **MORTAL)
    real = WindowRuns.stage
    late: dict[int, Any] = {}

    def stage(self: Any, entries: Any, changed: Any) -> None:
        real(self, entries, changed)
        keys, values = entries.keys.get(self._family, []), entries.values.get(self._family, [])
        mine = [at for at, key in enumerate(keys) if key.startswith(window_runs.RECENT)]
        now = [(keys.pop(at), values.pop(at)) for at in reversed(mine)]
        for key, value in late.get(id(self), ()):
            entries.put(self._family, [key], [value])
        late[id(self)] = now

    patch.setattr(WindowRuns, "stage", stage)


def a_run_is_lost_behind_the_position(patch: pytest.MonkeyPatch) -> None:
    """The rows of the batches go, and the list does not name the run that has them."""
    only_in_worlds(patch, **MORTAL)
    real = window_runs.encode_directory
    patch.setattr(
        window_runs, "encode_directory", lambda each: real(replace(each, runs=each.runs[1:]))
    )


def a_removal_is_missing_in_a_run(patch: pytest.MonkeyPatch) -> None:
    """A bucket that a removal has emptied is left out, and an older run has it still."""
    only_in_worlds(patch, **{**MORTAL, "forgets": 0.4})
    real = page_writes.run_of

    def without_empty(*columns: Any) -> SortedRun:
        return real(*columns).kept()

    patch.setattr(page_writes, "run_of", without_empty)


def a_window_comes_back_with_its_merge(patch: pytest.MonkeyPatch) -> None:
    """A window that is forgotten while its runs are merged is listed again with the merged run."""
    kept = (Retention(documents=4, least=2),)
    only_in_worlds(patch, **{**MORTAL, "retentions": kept, "forgets": 0.0})
    real, after = RocksIndex.apply, rocks_index.after

    def apply(self: RocksIndex, changes: Any) -> Any:
        busy = {each.window for each in self._tables if each.runs._merges}

        def listed(windows: Any, *rest: Any) -> Any:
            alive = after(windows, *rest)
            return (*(w for w in windows if w in busy and w not in alive), *alive)

        with pytest.MonkeyPatch.context() as now:
            now.setattr(rocks_index, "after", listed)
            return real(self, changes)

    patch.setattr(RocksIndex, "apply", apply)


PLANTED_RUNS = (
    (the_position_is_ahead_of_the_run, "state", 1),
    (a_run_is_lost_behind_the_position, "state", 1),
    (a_removal_is_missing_in_a_run, "state", 2),
    (a_window_comes_back_with_its_merge, "state", 7),
)
