"""What the engine does with each class of error, on scripted ports."""

import re
from unittest.mock import Mock

import pytest

from streamfilter.engine.messages.changelog import BatchRecord as ChangelogBatch
from streamfilter.engine.messages.changelog import encode_batch
from streamfilter.engine.messages.changelog_header import (
    BEGIN,
    END,
    HEADER,
    Header,
    encode_header,
    kind_of,
)
from streamfilter.engine.ports import (
    Abortable,
    Denied,
    Entry,
    Moves,
    OutcomeUnknown,
    ProducerFenced,
    Retriable,
)
from streamfilter.engine.start_checks import Names
from streamfilter.engine.transactor import IDLE_COMMIT_SECONDS
from streamfilter.engine.trimming import Trimming
from streamfilter.engine.writer_check import MARKER, NotRead, WriterCheck
from streamfilter.index.errors import IndexDamaged
from streamfilter.index.protocol import Usage
from streamfilter.model import BatchMark, InputTopic, Span
from streamfilter.process.health import State
from streamfilter.stops import Fenced, Stop
from streamfilter.tasks.service import REPLACEMENTS_MAX
from streamfilter.tasks.task import HELD_SECONDS
from tests.engine.scripted import FakeClock, ListReader, ScriptedLog
from tests.engine.world import (
    GAINED,
    TRANSACTION,
    VALUES,
    FullIndex,
    World,
    assert_as_undisturbed,
)
from tests.support.cases import cases
from tests.support.values import replace


@pytest.mark.parametrize(
    ("call", "under_way"),
    [("produce", True), ("flush", True), ("send_offsets", False), ("commit", False)],
)
def test_an_abortable_error_aborts_polls_the_group_and_tries_the_same_batch_again(call, under_way):
    """With a new producer if records may be under way: they would swallow the next ones."""
    world = World()
    world.until(10)
    world.log.errors[call].append(Abortable("rebalanced"))
    world.log.calls.clear()
    world.turn()
    assert world.log.calls[-1] == "abort"
    assert world.log.offsets == {0: 10}
    world.until(20)
    assert ("open" in world.log.calls) is under_way
    assert_as_undisturbed(world)


class LateLog(ScriptedLog):
    """What is aborted keeps its offsets, and each of them costs a reader its time."""

    def abort(self) -> None:
        if self._open is not None:
            self.changelog += [b""] * (len(self._open[1]) + MARKER)
        super().abort()

    def read(self, start: int, end: int) -> ListReader:
        return LateReader(super().read(start, end), self._clock)


class LateReader(ListReader):
    """Reads an offset in a second, and gives what was committed."""

    def __init__(self, reader: ListReader, clock: FakeClock) -> None:
        super().__init__(list(reader._entries), reader._end)
        self._clock = clock

    def read(self, count: int, timeout: float) -> list[Entry]:
        self._clock.sleep(1.0)
        return [entry for entry in super().read(1, timeout) if entry.value]


def test_what_cannot_be_read_while_a_transaction_is_open_is_read_by_a_start() -> None:
    """It was tried for ever: each attempt left its own records, and the next had more to read."""
    world = World()
    world.log = LateLog(VALUES, world.clock)
    world.until(10)
    world.log.errors["send_offsets"].append(Abortable("a standby joined"))
    producers = world.log.producers
    world.until(20)
    assert world.log.calls.count("abort") == 2
    assert world.log.producers == producers + 1
    assert_as_undisturbed(world, changelog=False)


def test_a_changelog_with_an_open_transaction_is_not_read_for_ever() -> None:
    clock, changelog = FakeClock(), Mock(spec=ScriptedLog)

    def nothing(count: int, timeout: float) -> list[Entry]:
        clock.sleep(1.0)
        assert clock.now < 1_050, "a transaction has 100 seconds"
        return []

    changelog.read.return_value = Mock(done=False, position=3, read=nothing)
    names = Names("group", "in", "changelog/0", "memory")
    check = WriterCheck(changelog, clock, names, end=0, transaction_seconds=100)
    with pytest.raises(NotRead, match="changelog/0 was read from 0 to 3"):
        check.check(5, count=1)


def test_an_idle_producer_runs_its_callbacks() -> None:
    """Its reports were left in its queue: after an outage it looked cut off until the next one."""
    world = World()
    world.until(40)
    served, calls = world.log.served, list(world.log.calls)
    world.turn(200)
    assert world.log.served > served
    assert world.log.calls == calls, "no transaction: it was idle"


def test_an_idle_process_waits_even_with_a_latency_of_nothing() -> None:
    """It took a whole core: each turn asked for records, and waited for none."""
    world = World(latency=0.0)
    world.until(40)
    begun = world.clock.now
    world.turn(100)
    assert world.clock.now - begun >= 1.0


def test_after_an_abort_a_revoke_drops_the_batch_and_what_gets_the_task_starts_whole() -> None:
    world = World()
    world.until(10)
    world.log.errors["send_offsets"].append(Abortable("unknown member"))
    world.turn()
    world.membership.moves.append(Moves(gone=frozenset({0}), lost=True))
    world.turn()
    assert world.health.status.state is State.STANDBY
    assert world.log.calls[-1] == "close"
    assert world.metrics.value("rebalances_total", "lost") == 1
    world.log.calls.clear()
    world.membership.moves.append(GAINED)
    world.until(20)
    assert world.log.calls[:2] == ["open", "committed"]
    assert_as_undisturbed(world)


def test_a_retriable_commit_is_called_again_and_the_producer_replaced_after_it() -> None:
    world = World()
    world.until(10)
    world.log.errors["commit"].append(Retriable("timed out"))
    world.log.calls.clear()
    world.until(20)
    assert world.log.calls[-7:] == [*TRANSACTION, "commit"]
    producers = world.log.producers
    world.until(30)
    assert world.log.producers == producers + 1
    assert_as_undisturbed(world)


def test_a_slow_commit_costs_the_producer_too() -> None:
    world = World()
    world.until(10)
    world.log.commit_seconds = 11.0
    world.until(20)
    world.log.commit_seconds = 0.0
    world.until(30)
    assert world.log.producers == 2
    assert_as_undisturbed(world, changelog=False)  # the next batches are smaller


@cases("call", ["begin", "flush", "send_offsets", "commit", "abort"])
def test_an_unknown_outcome_starts_over_with_step_one(call: str) -> None:
    world = World()
    world.until(10)
    if call == "abort":
        world.log.errors["flush"].append(Abortable("lost"))
    world.log.errors[call].append(OutcomeUnknown("fatal"))
    world.log.calls.clear()
    world.until(20)
    assert world.log.calls.count("open") == 1
    assert_as_undisturbed(world)


def test_a_commit_whose_reply_was_lost_is_found_committed_and_not_repeated() -> None:
    world = World()
    world.until(10)
    commit = world.log.commit

    def committed_but_silent() -> None:
        world.log.commit = commit  # type: ignore[method-assign]
        commit()
        raise OutcomeUnknown("the reply was lost")

    world.log.commit = committed_but_silent  # type: ignore[method-assign]
    world.until(20)
    assert_as_undisturbed(world)


def test_errors_without_end_end_the_process() -> None:
    world = World()
    world.until(10)
    world.log.errors["flush"].extend([OutcomeUnknown("fatal")] * 20)
    with pytest.raises(Stop):
        world.turn(200)
    assert world.log.calls.count("open") == 1 + REPLACEMENTS_MAX


def test_a_fence_with_a_lost_place_is_the_end_with_76() -> None:
    world = World()
    world.until(10)
    world.log.errors["send_offsets"].append(ProducerFenced("by a newer instance"))
    world.membership.moves.extend([Moves(), Moves(gone=frozenset({0}), lost=True)])
    with pytest.raises(Fenced, match="taken over by another process"):
        world.turn(3)
    assert world.log.offsets == {0: 10}


def test_a_fence_without_a_lost_place_is_a_transaction_that_was_too_old() -> None:
    world = World()
    world.until(10)
    world.log.errors["commit"].append(ProducerFenced("timed out"))
    world.until(20)
    assert world.log.producers == 2
    assert_as_undisturbed(world)


def test_fenced_again_and_again_ends_with_76() -> None:
    world = World()
    world.until(10)
    world.log.errors["flush"].extend([ProducerFenced("by a newer instance")] * 20)
    said = "another process uses this transactional id again and again"
    with pytest.raises(Fenced, match=said):
        world.turn(200)


def test_a_rewind_over_records_never_judged_says_what_becomes_of_them(caplog):
    world = World()
    earliest = world.log.start_positions
    world.log.start_positions = lambda partitions, start: {0: 20}  # type: ignore[method-assign]  # of a group that began late
    world.until(40)
    world.log.start_positions = earliest  # type: ignore[method-assign]
    before, documents = len(world.result()), len(world.store.index)
    world.log.offsets = {0: 0}
    world.membership.moves.append(GAINED)
    world.turn()
    world.until(40)
    said = [message for message in caplog.messages if "was rewound" in message]
    assert len(said) == 1
    assert "What was judged gets the verdict it had" in said[0]
    assert "what never was (before the group's first start" in said[0]
    again = world.result()[before:]
    assert again[:20] == [("unique", value) for value in VALUES[:20]]
    assert again[20:] == world.result()[:before]
    assert len(world.store.index) == documents


def test_an_open_transaction_of_others_that_holds_the_input_back_is_named_once(caplog):
    caplog.set_level("WARNING", "streamfilter.run")  # an earlier test may have left INFO
    world = World()
    world.until(40)
    world.log.ends = lambda: {0: 45}  # type: ignore[method-assign]
    world.log.start_positions = lambda partitions, start: {0: 40}  # type: ignore[method-assign]
    caplog.clear()
    end = world.clock.now + 3 * HELD_SECONDS
    while world.clock.now < end:
        world.turn()
    (said,) = [each for each in caplog.messages if "in/0 waits at offset 40" in each]
    assert "a transaction of another producer is open there" in said
    assert "kafka-transactions.sh describe-producers --topic in --partition 0" in said
    assert said.endswith(world.health.status.detail)
    assert world.health.status.state is State.RUNNING
    world.log.ends = lambda: {0: 40}  # type: ignore[method-assign]
    end = world.clock.now + 3 * HELD_SECONDS
    while world.clock.now < end:
        world.turn()
    assert caplog.messages[-1] == "no open transaction holds the input back any more"
    assert world.health.status.detail == ""


def test_a_task_is_shown_as_ours_from_its_first_moment_and_no_longer_than_it_is(monkeypatch):
    world = World()
    world.log.errors["committed"] += [Retriable("away")] * 5
    world.turn(2)
    assert world.health.status.tasks == ("group.0",)
    monkeypatch.setattr(FullIndex, "usage", lambda _: Usage(7, 8))
    while "assign" not in world.log.calls:
        world.turn()
    scrape = world.metrics.expose()[1].decode()
    assert "streamfilter_assigned_partitions 1" in scrape
    assert "streamfilter_index_bytes 7" in scrape
    world.until(10)
    world.membership.moves.append(Moves(gone=frozenset({0})))
    world.turn()
    assert world.health.status.tasks == ()


def test_more_partitions_begin_a_task_again_and_a_start_only_if_its_topic_is_gone(caplog):
    caplog.set_level("WARNING", "streamfilter.run")
    world = World()
    one, wider = world.outputs, {**world.outputs, "unique": 2}
    world.until(10)
    world.outputs = wider
    world.until(20)
    assert world.log.producers == 2
    (said,) = [each for each in caplog.messages if "begins again" in each]
    assert "topics have more partitions" in said
    world.membership.moves.append(GAINED)
    world.log.errors["committed"] += [Retriable("away")] * 50
    for outputs, topics in ((wider, ()), (one, ()), (one, (InputTopic("in", "", 1),))):
        world.outputs, world.topics = outputs, topics
        world.turn(2)
    assert len([each for each in caplog.messages if "begins again" in each]) == 1, "it starts"
    world.membership.moves.append(GAINED)
    world.turn(3)
    world.topics = ()
    world.turn(2)
    assert "it reads 0 topics now, and read 1" in caplog.messages[-1]


@pytest.mark.parametrize("warned", [False, True])
def test_a_changelog_without_its_bucket_cap_is_restored_with_a_warning(warned, caplog):
    caplog.set_level("WARNING", "streamfilter.run")
    world = World()
    world.until(10)
    identity = world.store.identity()
    assert identity is not None
    world.store.wipe()
    if warned:  # as a version before wrote it
        world.log.changelog[0] = bytes([1, HEADER]) + identity.encode()
    world.membership.moves.append(GAINED)
    world.until(40)
    assert any("not write down index.bucket_cap" in each for each in caplog.messages) is warned


def test_a_rewrite_that_the_changelog_begins_with_restores_an_index_twice(monkeypatch):
    def damaged(index: FullIndex, changes: object) -> None:
        monkeypatch.undo()
        raise IndexDamaged("a block is broken")

    world = World()
    world.until(20)
    identity = world.store.identity()
    assert identity is not None
    begin, end = (
        encode_header(Header(identity.encode(), "group", 8, anew=part)) for part in (BEGIN, END)
    )
    world.log.changelog[:] = [b"", b"", begin, *world.log.changelog[1:], end]
    world.log.trim(2)
    world.store.wipe()
    world.membership.moves.append(GAINED)
    world.until(30)
    monkeypatch.setattr(FullIndex, "apply", damaged)
    assert_as_undisturbed(world, changelog=False)


def test_a_missing_right_is_the_operators() -> None:
    world = World()
    world.log.errors["open"].append(Denied("transactional id group.0"))
    with pytest.raises(Stop, match=r"group\.0") as stop:
        world.turn(3)
    assert stop.value.exit_code == 78


def test_no_transaction_begins_without_a_place_in_the_group() -> None:
    world = World()
    world.until(10)
    world.membership.generation = -1
    world.log.calls.clear()
    world.turn(5)
    assert world.log.calls == []
    world.membership.generation = 2
    assert_as_undisturbed(world)


def test_a_full_disk_owes_the_very_same_write_and_nothing_is_judged_meanwhile() -> None:
    world = World()
    world.until(10)
    world.store.index.full = 3
    world.store.index.tried.clear()
    world.until(20)
    calls = len(world.log.calls)
    world.turn(2)
    assert world.health.status.state is State.PAUSED_DISK
    assert not world.health.ready
    assert len(world.log.calls) == calls
    world.turn()
    tried = world.store.index.tried
    assert len(tried) == 4
    assert all(each is tried[0] for each in tried)
    assert_as_undisturbed(world)


@pytest.mark.parametrize("known", [False, True], ids=["a new index", "an index"])
def test_a_start_on_a_full_disk_waits_for_room_and_keeps_its_place_in_the_group(known) -> None:
    """It ended with 78, which no supervisor answers with a restart, and stayed down."""
    world = World()
    if known:
        world.until(20)
        world.membership.moves += [Moves(gone=frozenset({0})), GAINED]
    world.store.full = 5
    world.turn(4)
    before = len(world.membership.polled)
    assert (world.health.status.state, world.health.ready) == (State.PAUSED_DISK, False)
    assert "free some space" in world.health.status.detail
    assert world.health.status.tasks == ("group.0",)
    world.turn()
    assert len(world.membership.polled) > before
    assert_as_undisturbed(world)


def test_a_broker_that_is_away_at_the_start_is_waited_for() -> None:
    world = World()
    world.log.errors["open"].extend([Retriable("down")] * 5)
    world.log.errors["committed"].extend([Retriable("no coordinator")] * 2)
    assert_as_undisturbed(world)


def test_an_idle_task_commits_its_offsets_once_an_hour() -> None:
    world = World()
    world.until(40)
    world.turn(3)
    before = world.log.calls.count("commit")
    world.log.offsets.clear()  # expired
    world.clock.sleep(IDLE_COMMIT_SECONDS)
    world.turn(3)
    assert world.log.offsets == {0: 40}
    assert world.log.calls.count("commit") == before + 1
    assert_as_undisturbed(world)


def test_a_busy_task_and_an_idle_one_cut_their_changelog_and_an_idle_one_audits() -> None:
    trimming = Mock(spec=Trimming)
    world = World(trimming=trimming)
    world.until(40)
    world.turn()
    assert trimming.look.call_count > len(VALUES) // 10
    before = audited(world)
    world.turn(200)
    assert trimming.look.call_count > 200
    assert audited(world) > before


def audited(world: World) -> int:
    scrape = world.metrics.expose()[1]
    (count,) = re.findall(rb"^streamfilter_audit_arrivals_total (\d+)", scrape, re.MULTILINE)
    return int(count)


def test_the_same_task_assigned_again_starts_whole() -> None:
    world = World()
    world.until(20)
    world.membership.moves.append(GAINED)
    world.until(30)
    assert world.log.producers == 2
    assert_as_undisturbed(world)


def test_consumed_is_the_sum_of_the_verdicts_after_all_that() -> None:
    world = World(batch=7)
    for call in ("flush", "send_offsets", "commit"):
        world.log.errors[call].append(Abortable("lost"))
    world.until(40)
    world.turn()
    assert world.metrics.value("records_consumed_total") == 40
    assert sum(world.metrics.verdicts().values()) == 40
    assert world.metrics.value("transactions_total", "aborted") == 3


def test_rewound_records_get_their_verdicts_again_and_add_nothing() -> None:
    world = World()
    world.until(40)
    world.turn(2)
    first = world.result()
    world.log.offsets = {0: 15}
    changelog, documents = list(world.log.changelog), len(world.store.index)
    world.membership.moves.append(GAINED)
    world.turn(2)
    assert world.log.offsets == {0: 15}
    world.until(40)
    again = [replace(out) for out in world.log.outputs[len(first) :]]
    assert [(out.topic, out.value) for out in again] == first[15:]
    assert [out.headers for out in again] == [out.headers for out in world.log.outputs[15:40]]
    assert world.log.changelog == changelog
    assert len(world.store.index) == documents


def test_an_old_task_goes_on_beyond_the_32nd_bit_of_its_batches_number_and_restores_it() -> None:
    """50 batches a second reach it after 2.7 years; every start ended with exit 70 from then on."""
    world = World()
    world.turn(2)
    header = next(v for v in world.log.changelog if kind_of(v) == HEADER)
    world = World()
    opened = BatchMark(2**32 - 3, 0, 0, (Span(0, 0, 0),))
    world.log.changelog = [header, encode_batch(ChangelogBatch(opened, -1))]
    world.log.offsets = {0: 0}
    assert_as_undisturbed(world, changelog=False)
    world.turn()
    index = world.store.index
    assert index.progress.next_batch == 2**32 + 2
    world.store.wipe()
    world.membership.moves.append(GAINED)
    world.turn(5)
    assert world.store.index is not index
    assert list(world.store.index.dump()) == list(index.dump())
