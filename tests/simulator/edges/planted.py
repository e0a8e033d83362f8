"""Bugs planted into edges and judge, to see that the oracle sees them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from streamfilter.cluster import edge, edge_start, judge, signing, waiting
from streamfilter.cluster.acceptance import Acceptance, acceptance
from streamfilter.cluster.ranges import VerdictRange, encode_verdicts
from streamfilter.engine.ports import Member, Moves, Outgoing
from tests.simulator.edges.world import VERDICTS, EdgeWorld

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, and the checks (`oracle.py`) that may find it."""

    plant: Plant
    checks: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.plant.__name__


def offsets_before_the_next_count(patch: pytest.MonkeyPatch) -> None:
    """Of a range that overlaps, all records are judged."""
    patch.setattr(judge, "first_row", lambda one, expected: 0)


def a_gap_is_accepted(patch: pytest.MonkeyPatch) -> None:
    """A range that begins too late counts."""
    real = acceptance

    def accept(start: int, end: int, expected: int) -> Acceptance:
        found = real(start, end, expected)
        return Acceptance.COUNTS if found is Acceptance.GAP and start < end else found

    patch.setattr(judge, "acceptance", accept)


def a_repeated_range_is_judged_as_a_reread(patch: pytest.MonkeyPatch) -> None:
    """A range of records that were judged counts."""
    real = acceptance

    def accept(start: int, end: int, expected: int) -> Acceptance:
        found = real(start, end, expected)
        return Acceptance.COUNTS if found is Acceptance.BELOW and start < end else found

    patch.setattr(judge, "acceptance", accept)
    patch.setattr(judge, "first_row", lambda one, expected: 0)


def verdicts_come_with_the_next_transaction(patch: pytest.MonkeyPatch) -> None:
    """The next offset is committed first, and the verdicts after that."""
    real = judge.VerdictWriter.written

    def written(self: Any, *args: Any) -> list[Outgoing]:
        late: list[Outgoing] = getattr(self._log, "late", [])
        self._log.late = real(self, *args)
        return late

    patch.setattr(judge.VerdictWriter, "written", written)


def each_resume_is_obeyed(patch: pytest.MonkeyPatch) -> None:
    """Also one for a range from before the last new beginning."""
    patch.setattr(signing.Signing, "_obeys", lambda self, p, resume: resume.start < self.signed[p])


def no_inquiry(patch: pytest.MonkeyPatch) -> None:
    """If the last range is lost, no one asks."""
    patch.setattr(signing.Signing, "inquire", lambda self: [])


def an_edge_starts_behind_markers(patch: pytest.MonkeyPatch) -> None:
    """It commits how far it has read the input, not how far it has forwarded it."""
    real = waiting.PendingRecords.ready

    def ready(self: Any, count: int) -> Any:
        found = real(self, count)
        found.inputs = dict(self.reached)
        return found

    patch.setattr(waiting.PendingRecords, "ready", ready)


def a_new_edge_signs_before_its_first_commit(patch: pytest.MonkeyPatch) -> None:
    """Its position behind the resume is not committed."""

    real = EdgeWorld.__post_init__

    def crashing(self: Any) -> None:
        real(self)
        self.shape = replace(self.shape, rates=self.shape.rates | {"crash": 0.05})

    patch.setattr(EdgeWorld, "__post_init__", crashing)

    def commit(self: Any, *_: Any) -> Iterator[Any]:
        return iter(())

    patch.setattr(edge_start.EdgeStart, "_commit", commit)


def a_resume_outside_of_the_opening_transaction(patch: pytest.MonkeyPatch) -> None:
    """A judge says where it would begin before it has committed that, and it may not."""
    real = judge.SketchLog.assign

    def assign(self: Any, positions: dict[int, int]) -> None:
        real(self, positions)
        broker = self._sketches._broker
        for p in positions:
            end = broker.topics["input"][p].stable
            resume = VerdictRange(self.mark, end, end, np.zeros(0, np.int64))
            message = encode_verdicts(resume)
            broker.topics[VERDICTS][p].append(Outgoing(VERDICTS, p, None, message))

    patch.setattr(judge.SketchLog, "assign", assign)


def a_verdict_is_applied_twice(patch: pytest.MonkeyPatch) -> None:
    """What was forwarded is committed without the offsets of its verdicts."""
    real = waiting.PendingRecords.ready

    def ready(self: Any, count: int) -> Any:
        found = real(self, count)
        found.verdicts = dict(self.verdicts)
        found.inputs = dict(self.inputs)
        return found

    def forwarded(self: Any, found: Any) -> None:
        for p, count in found.ranges.items():
            for _ in range(count):
                _, verdicts = self._ranges[p].popleft()
                while self._records[p] and self._records[p][0].source.offset < verdicts.end:
                    del self._records[p][0]
                    self.count -= 1

    patch.setattr(waiting.PendingRecords, "ready", ready)
    patch.setattr(waiting.PendingRecords, "forwarded", forwarded)


def a_lost_partition_is_kept(patch: pytest.MonkeyPatch) -> None:
    """An edge goes on with what the group took from it."""
    real = edge.OneEdge.poll

    def poll(self: Any, timeout: float) -> Moves:
        before = self.owned
        moves = real(self, timeout)
        if not before:
            return moves
        self.owned |= before
        return Moves(lost=moves.lost)

    patch.setattr(edge.OneEdge, "poll", poll)


def a_zombie_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """An edge commits offsets without its place in the group."""
    patch.setattr(edge.Edge, "_member", lambda self: Member(-1, "", b"-1:"))
    a_lost_partition_is_kept(patch)


def waiting_records_survive_a_revoke(patch: pytest.MonkeyPatch) -> None:
    """An edge that gets its partitions again goes on with what waited before."""
    real = edge_start.EdgeStart.run
    kept: dict[Any, Any] = {}

    def run(self: Any) -> Iterator[Any]:
        begun = yield from real(self)
        old = kept.get(self._parts.clock)
        if old is not None and old.waiting.inputs.keys() == begun.waiting.inputs.keys():
            begun.waiting, begun.signing = old.waiting, old.signing
        kept[self._parts.clock] = begun
        return begun

    patch.setattr(edge_start.EdgeStart, "run", run)


PLANTED = (
    Planted(offsets_before_the_next_count, ("changelog", "stop", "stuck")),
    Planted(a_gap_is_accepted, ("stuck", "stop", "lost", "changelog")),
    Planted(a_repeated_range_is_judged_as_a_reread, ("stuck", "stop", "doubled")),
    Planted(verdicts_come_with_the_next_transaction, ("stop", "stuck")),
    Planted(each_resume_is_obeyed, ("again",)),
    Planted(no_inquiry, ("stuck",)),
    Planted(an_edge_starts_behind_markers, ("lost", "stuck", "stop")),
    Planted(a_new_edge_signs_before_its_first_commit, ("stop",)),
    Planted(a_resume_outside_of_the_opening_transaction, ("stop", "lost", "stuck")),
    Planted(a_verdict_is_applied_twice, ("doubled", "stuck")),
    Planted(a_lost_partition_is_kept, ("doubled", "stuck")),
    Planted(a_zombie_is_not_fenced, ("doubled",)),
    Planted(waiting_records_survive_a_revoke, ("doubled", "stuck", "lost")),
)
