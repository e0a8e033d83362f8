"""Bugs planted into the runs of the index, found by what a process reads after a crash."""

from dataclasses import replace
from typing import Any

import pytest

from streamfilter.index.rocks import rocks_index
from streamfilter.index.rocks.rocks_index import RocksIndex
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from tests.simulator import world

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


PLANTED_RUNS = ((a_window_comes_back_with_its_merge, "state", 7),)
