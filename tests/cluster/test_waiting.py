from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from streamfilter.cluster.edge import Edge
from streamfilter.cluster.judge import SketchLog
from streamfilter.cluster.ranges import SketchRange, VerdictRange, encode_sketches
from streamfilter.cluster.waiting import PendingLimits, PendingRecords
from streamfilter.engine.clock_and_worker import SystemClock
from streamfilter.engine.observer import Observer
from streamfilter.engine.ports import Retriable
from streamfilter.engine.start_checks import Names
from streamfilter.matching.verdict.decision import UNIQUE
from streamfilter.model import Malformed, Reason, Record, Source, Unjudged, Verdict
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.health import Health
from streamfilter.similarity.scheme import Scheme
from streamfilter.stops import Stop
from tests.support.cases import cases

MARK = bytes(16)
NONE = np.zeros(0, np.int64)


def record(offset: int) -> Record:
    return Record(Source("in", 0, offset), None, b"x" * offset)


def verdicts(start: int, end: int, *offsets: int) -> VerdictRange:
    outcomes = [UNIQUE if n % 2 else Malformed("internal", f"{n}") for n in offsets]
    return VerdictRange(MARK, start, end, np.array(offsets, np.int64), outcomes)


def test_records_get_their_verdicts_by_offset_where_one_is_gone():
    waiting = PendingRecords({0: 0}, {0: 0})
    waiting.take([record(n) for n in (1, 3, 4)], {0: 6})
    waiting.hear(0, 0, verdicts(0, 5, 1, 2, 3, 4))  # 2 was compacted away since
    waiting.hear(0, 2, verdicts(5, 9, 7))
    ready = waiting.ready(100)
    assert [each.source.offset for each in ready.records] == [1, 3, 4]
    assert [each is UNIQUE for each in ready.outcomes] == [True, True, False]
    assert (ready.gone, ready.verdicts, ready.inputs) == (1, {0: 1}, {0: 5})
    waiting.forwarded(ready)
    assert (waiting.count, waiting.needs) == (0, True)  # 7 is to be read, although nothing waits


def test_a_record_that_no_verdict_covers_stops_the_edge():
    waiting = PendingRecords({0: 0}, {0: 0})
    waiting.take([record(1), record(2)], {0: 3})
    waiting.hear(0, 0, verdicts(0, 3, 1))
    with pytest.raises(Stop, match="did not list all of them"):
        waiting.ready(100)
    waiting = PendingRecords({0: 0}, {0: 0}, accept=True)
    waiting.take([record(1), record(2)], {0: 3})
    waiting.hear(0, 0, verdicts(0, 3, 1))
    letter = waiting.ready(100).outcomes[1]
    assert letter == Malformed("internal", "no verdict covers this record", "forward")


def test_verdicts_that_overlap_stop_the_edge_and_a_hole_is_told():
    waiting = PendingRecords({0: 0}, {0: 4})
    assert waiting.hear(0, 0, verdicts(6, 8)) == 2
    with pytest.raises(Stop, match="ended at 8"):
        waiting.hear(0, 1, verdicts(7, 9))


class Topic:
    """A source of messages that were sent before; its end is known if a broker answers."""

    def __init__(self, *messages: bytes, end: int = 9) -> None:
        self.end, self.asked, self.away = end, 0, False
        self._waiting = [
            Record(Source("sketches", 0, n), None, each) for n, each in enumerate(messages)
        ]

    def committed(self, partitions):
        return {}

    def start_positions(self, partitions, start):
        self.asked += start == "latest"
        if self.away:
            raise Retriable("no answer")
        return dict.fromkeys(partitions, self.end if start == "latest" else 0)

    def assign(self, positions):
        """Begin."""

    def consume(self, count, timeout):
        found, self._waiting = self._waiting[:count], self._waiting[count:]
        return found


def test_a_retraction_keeps_its_sketch_offset_until_it_is_committed():
    at = encode_sketches(SketchRange(MARK, 0, 0, 0, NONE, NONE, retracted=(4,)))
    after = encode_sketches(SketchRange(MARK, 0, 5, 9, NONE, NONE))
    log = SketchLog(Topic(), Topic(at, after), topic="in", scheme=Scheme(20, 5))
    log.mark = MARK
    log.committed([0])
    log.assign({0: 5})
    assert log.consume(10, 0.0) == []
    assert log.reached() == {0: 9}
    assert log.beside({0: 9}) == {0: 0}, "a crash here must read the retraction again"
    log.retracted.popleft()
    assert log.beside({0: 9}) == {0: 2}


def test_what_a_judge_cannot_use_is_counted_and_answered():
    dropped = []
    messages = [
        b"", encode_sketches(SketchRange(b"x" * 16, 0, 5, 9, NONE, NONE)),
        encode_sketches(SketchRange(MARK, 1, 5, 9, NONE, NONE)),
        encode_sketches(SketchRange(MARK, 0, 1, 5, NONE, NONE)),
        encode_sketches(SketchRange(MARK, 0, 6, 9, NONE, NONE)),
    ]  # fmt: skip
    log = judging(Topic(), messages, dropped)
    log.consume(10, 0.0)
    assert dropped == ["undecodable", "other_index", "undecodable", "below", "gap"]
    assert log.owed == {0: 4}, "one resume, for the last of them"
    assert log.reached() == {0: 5}


def judging(inputs: Topic, messages: Sequence[bytes], dropped: list[str]) -> SketchLog:
    log = SketchLog(
        inputs, Topic(*messages), topic="in", scheme=Scheme(20, 5),
        dropped=lambda reason, message: dropped.append(reason),
    )  # fmt: skip
    log.mark = MARK
    log.committed([0])
    log.assign({0: 5})
    log.owed.clear()
    return log


def test_a_range_beyond_the_input_is_dropped_and_the_end_is_asked_for_once():
    """It was believed: all records that came after it were lost, and each edge ended with 78."""
    rows = {n: Unjudged(Verdict.PASSTHROUGH, Reason.EMPTY) for n in range(2)}
    places, dropped = np.array([7, 8]), list[str]()
    messages = [
        encode_sketches(SketchRange(MARK, 0, 5, 1 << 61, NONE, NONE)),
        encode_sketches(SketchRange(MARK, 0, 1 << 61, 1 << 61, NONE, NONE)),
        encode_sketches(SketchRange(MARK, 0, 7, 10, NONE, NONE)),
        encode_sketches(SketchRange(MARK, 0, 5, 7, NONE, NONE)),
        encode_sketches(SketchRange(MARK, 0, 6, 9, places, places, others=rows)),
    ]
    inputs = Topic()
    log, inputs.asked, inputs.away = judging(inputs, messages, dropped), 0, True
    assert log.consume(10, 0.0) == []
    assert (log.beside({0: 5}), dropped) == ({0: 0}, []), "a crash now reads all of them again"
    inputs.away = False
    assert [each.source.offset for each in log.consume(10, 0.0)] == [7, 8]
    assert dropped == ["beyond"] * 3
    assert (log.owed, log.reached(), log.ends()) == ({0: 2}, {0: 9}, {0: 9})
    assert log.consume(10, 0.0) == []
    assert inputs.asked == 4, "in vain, and for each that ends behind the last answer"


@cases(
    ("kept", "needs", "share"),
    [
        (0, False, 1.0),
        (7, False, 0.75),  # three of four records have room
        (9, False, 0.25),
        (10, False, 0.0),
        (13, False, 0.0),
        (13, True, 1.0),  # these verdicts wait for records: without them nothing gets free
    ],
)
def test_a_batch_is_cut_to_the_room_that_is_left(kept, needs, share):
    waiting = PendingRecords({0: 0}, {0: 0})
    waiting.take([record(n) for n in range(kept)], {0: kept})
    if needs:
        waiting.hear(0, 0, verdicts(0, 20, *range(20)))
    assert waiting.share(PendingLimits(10), documents=4, size=1 << 20) == share


def test_what_waits_is_not_looked_at_again_to_sign_or_to_forward():
    """Twenty thousand records were copied, and looked through, at each step of the loop."""
    waiting = PendingRecords({0: 0}, {0: 0})
    waiting.take([record(n) for n in range(1_000)], {0: 1_000})
    looks = Counted(waiting._records[0])
    waiting._records[0] = looks  # type: ignore[assignment]
    waiting.hear(0, 0, verdicts(0, 5, *range(5)))
    assert [each.source.offset for each in waiting.to_sign({0: 990}, 3, 1 << 20)] == [990, 991, 992]
    waiting.forwarded(waiting.ready(100))
    assert waiting.count == 995
    assert looks.count < 100


class Counted(list[Record]):
    """A list that counts how many records are read from it."""

    count = 0

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        self.count += 1
        return super().__getitem__(place)

    def __iter__(self):  # type: ignore[no-untyped-def]
        self.count += len(self)
        return super().__iter__()


def test_an_edge_that_lost_partitions_shows_their_lag_no_more() -> None:
    """It begins again with those that it has; the lag of the others stayed, and aged for ever."""
    health = Health()
    process = Observer(Metrics(health), health, SystemClock())
    parts, begun = MagicMock(), MagicMock()
    parts.observer.process, parts.bounds.stuck_seconds = process, 1.0
    parts.clock.monotonic.return_value = 0.0
    parts.source.ends.return_value = {0: 9, 1: 5}
    begun.waiting.inputs, begun.waiting.ends = {0: 5, 1: 5}, {}
    plan: Any = SimpleNamespace(names=Names("group", "in", "changelog/0", "state"))
    edge = Edge(plan, parts, MagicMock(topic="verdicts"))
    edge._show(begun)
    assert health.status.lag == {"in/0": 4, "in/1": 0}
    edge.close()
    assert health.status.lag == health.status.positions == {}
