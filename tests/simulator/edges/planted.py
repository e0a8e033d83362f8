"""Bugs planted into edges and judge, to see that the oracle sees them.

`test_planted_bugs.py` finds each of them:

| bug                                                  | function                                 |
|------------------------------------------------------|------------------------------------------|
| acceptance by offset instead of by range             | offsets_before_the_next_count            |
| a gap is accepted                                    | a_gap_is_accepted                        |
| verdict and next offset in two transactions          | verdicts_come_with_the_next_transaction  |
| a resume is obeyed twice, or from before it          | each_resume_is_obeyed                    |
| no inquiry after the last range                      | no_inquiry                               |
| an edge starts at the input's committed offset       | an_edge_starts_behind_markers            |
| a new edge signs before its first commit             | a_new_edge_signs_before_its_first_commit |
| a resume outside of the opening transaction          | a_resume_outside_of_the_opening_…        |
| a verdict is applied twice after a rebalance         | a_verdict_is_applied_twice               |
| records matched to verdicts by count across a hole   | records_are_matched_by_count             |
| a partition is committed after it was lost           | a_lost_partition_is_kept                 |
| a zombie edge is not fenced                          | a_zombie_is_not_fenced                   |
| waiting records are kept over a revoke               | waiting_records_survive_a_revoke         |
| a retraction is lost: at the edge, or at the judge   | a_retraction_is_lost, …_not_carried_out  |
| a repeated range is judged as a re-read              | a_repeated_range_is_judged_as_a_reread   |
| a range that ends behind the input is believed       | what_lies_beyond_is_believed             |
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from streamfilter.cluster import edge, edge_start, judge, signing, waiting
from streamfilter.cluster.acceptance import Acceptance, acceptance
from streamfilter.cluster.ranges import VerdictRange, encode_verdicts
from streamfilter.engine.ports import Member, Moves, Outgoing
from tests.simulator.edges.story import EdgeStory
from tests.simulator.edges.world import VERDICTS, EdgeWorld
from tests.simulator.story import Planted
from tests.simulator.world import FAULTS, OUTPUTS
from tests.support.values import replace


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


def what_lies_beyond_is_believed(patch: pytest.MonkeyPatch) -> None:
    """The judge goes on where a forged range ends: what comes in later counts as judged before."""
    patch.setattr(judge.SketchLog, "_is_beyond", lambda self, one: False)


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
    _worlds(patch, loss=0.3)
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
    _worlds(patch, crash=0.05)

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


def records_are_matched_by_count(patch: pytest.MonkeyPatch) -> None:
    """The next record gets the next outcome, although a record between them is gone."""

    def match(found: Any, verdicts: VerdictRange, records: Any, at: int, *, accept: bool) -> int:
        for row, outcome in enumerate(verdicts.outcomes):
            if at == len(records):
                break
            if row in verdicts.ids:
                found.ids[len(found.records)] = verdicts.ids[row]
            found.records.append(records[at])
            found.outcomes.append(outcome)
            at += 1
        return at

    patch.setattr(waiting, "_match", match)


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
        (offsets_before_the_next_count, ("changelog", "stop", "stuck"), 4),
        (a_gap_is_accepted, ("stuck", "stop", "lost", "changelog"), 11),
        (a_repeated_range_is_judged_as_a_reread, ("stuck", "stop", "doubled"), 4),
        (what_lies_beyond_is_believed, ("stop", "stuck", "lost"), 38),
        (verdicts_come_with_the_next_transaction, ("stop", "stuck"), 0),
        (each_resume_is_obeyed, ("again",), 1),
        (no_inquiry, ("stuck",), 7),
        (an_edge_starts_behind_markers, ("lost", "stuck", "stop"), 1),
        (a_new_edge_signs_before_its_first_commit, ("stop",), 2),
        (a_resume_outside_of_the_opening_transaction, ("stop", "lost", "stuck"), 1),
        (a_verdict_is_applied_twice, ("doubled", "stuck"), 0),
        (a_lost_partition_is_kept, ("doubled", "stuck"), 9),
        (a_zombie_is_not_fenced, ("doubled",), 9),
        (waiting_records_survive_a_revoke, ("doubled", "stuck", "lost"), 2),
        (records_are_matched_by_count, ("misjudged", "lost", "doubled"), 7),
        (a_retraction_is_lost, ("kept",), 4),
        (a_retraction_is_read_and_not_carried_out, ("kept",), 15),
    )
)
