"""Bugs planted into edges and judge that no ordinary story meets, or that a check is there for."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from streamfilter.cluster import edge_start, judge, signing
from tests.simulator.edges.story import EdgeStory
from tests.simulator.edges.world import EdgeWorld
from tests.simulator.story import Planted
from tests.simulator.world import FAULTS, OUTPUTS


def _worlds(
    patch: pytest.MonkeyPatch, *, refusing: bool = False, loss: float | None = None, **rates: float
) -> None:
    """Let faults happen at these *rates* in every world; if it is *refusing*, no others do."""
    real = EdgeWorld.__post_init__

    def changed(self: Any) -> None:
        real(self)
        self.shape = replace(self.shape, rates=self.shape.rates | rates)
        if refusing:
            rare = dict.fromkeys(FAULTS, 0.0) | rates
            self.shape = replace(self.shape, strict=OUTPUTS, odd=0.3, rates=rare)
        self.loss = self.loss if loss is None else loss

    patch.setattr(EdgeWorld, "__post_init__", changed)


def each_resume_is_obeyed(patch: pytest.MonkeyPatch) -> None:
    """Also one for a range from before the last new beginning."""
    patch.setattr(signing.Signing, "_obeys", lambda self, p, resume: resume.start < self.signed[p])


def a_new_edge_signs_before_its_first_commit(patch: pytest.MonkeyPatch) -> None:
    """Its position behind the resume is not committed."""
    _worlds(patch, crash=0.05)

    def commit(self: Any, *_: Any) -> Iterator[Any]:
        return iter(())

    patch.setattr(edge_start.EdgeStart, "_commit", commit)


def a_retraction_is_lost(patch: pytest.MonkeyPatch) -> None:
    """The dead letter is committed before the retraction was delivered."""
    _worlds(patch, refusing=True, loss=0.3)
    real = signing.Signing.retract

    def retract(self: Any, places: Any) -> bool:
        real(self, places)
        return True

    patch.setattr(signing.Signing, "retract", retract)


def a_retraction_is_read_and_not_carried_out(patch: pytest.MonkeyPatch) -> None:
    """The judge commits its offset with a batch that does not forget the document."""
    _worlds(patch, refusing=True, evict=0.1, rebalance=0.1)
    real = judge.SketchLog.beside

    def beside(self: Any, positions: dict[int, int]) -> dict[int, int]:
        kept, self.retracted = self.retracted, deque()
        try:
            return real(self, positions)
        finally:
            self.retracted = kept

    patch.setattr(judge.SketchLog, "beside", beside)


PLANTED = tuple(
    Planted(plant, checks, seed, EdgeStory)
    for plant, checks, seed in (
        (each_resume_is_obeyed, ("again",), 0),
        (a_new_edge_signs_before_its_first_commit, ("stop",), 9),
        (a_retraction_is_lost, ("kept",), 9),
        (a_retraction_is_read_and_not_carried_out, ("kept",), 1),
    )
)
