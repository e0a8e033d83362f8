"""Rules of a start whose offsets, changelog, index and input disagree, without a broker."""

from types import SimpleNamespace
from typing import Any

import pytest

from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.ports import Layout, Watermarks
from streamfilter.engine.start_checks import (
    Names,
    Refusal,
    is_behind_start,
    reconcile,
    refuse_future,
    refuse_lost_input,
    refuse_other_input,
)
from streamfilter.index.input_table import ONE_TOPIC, InputTable
from streamfilter.index.protocol import Progress
from streamfilter.model import InputTopic
from streamfilter.tasks.task_start import TaskStart
from tests.support.cases import cases
from tests.support.values import replace

NAMES = Names("group", "in", "changelog/0", "state")


def at(offset: int) -> Progress:
    return Progress(changelog_offset=offset)


def test_an_index_that_has_applied_what_the_changelog_does_not_hold_is_refused():
    refuse_future(NAMES, at(9), Watermarks(0, 10), empty=False)
    refuse_future(NAMES, at(-1), Watermarks(0, 0), empty=True)
    for offset, end, empty in [(10, 10, False), (0, 5, True)]:
        with pytest.raises(Refusal, match="truncated or recreated") as said:
            refuse_future(NAMES, at(offset), Watermarks(0, end), empty=empty)
        # Of an empty changelog a removed directory would not be restored, but begun anew.
        assert ("remove the directory" in str(said.value)) is not empty
        assert ("set kafka.group and index.changelog as they were" in str(said.value)) is empty


@cases(("offset", "behind"), [(-1, False), (0, True), (8, True), (9, False), (10, False)])
def test_an_index_is_behind_if_its_next_record_was_cut_off(offset, behind):
    assert is_behind_start(at(offset), Watermarks(10, 20)) is behind


@pytest.mark.parametrize(
    ("remembered", "present", "recreated"),
    [("a", "a", False), ("a", "b", True), ("", "b", False), ("a", "", False)],
)
def test_an_input_with_another_id_is_refused_unless_accepted(remembered, present, recreated):
    said = refuse_other_input(NAMES, remembered, present, accept=True)
    assert bool(said) is recreated
    if not recreated:
        assert refuse_other_input(NAMES, remembered, present, accept=False) == []
        return
    with pytest.raises(
        Refusal, match=r"in was recreated since .* \(its topic id was a, and is b"
    ) as no:
        refuse_other_input(NAMES, remembered, present, accept=False)
    assert "if it was changed, set it back" in str(no.value)


def test_a_recreated_topic_of_several_may_be_left_out():
    names = replace(NAMES, inputs=Inputs("in", several=True))
    names.inputs.take(ONE_TOPIC, Layout(1, {}, topics=(InputTopic("in", "a", 1),)), 0)
    for refuse in (
        lambda names: refuse_other_input(names, "a", "b", accept=False),
        lambda names: refuse_lost_input(names, {0: 9}, {0: 0}, {0: 1}, accept=True),
    ):
        with pytest.raises(Refusal, match="leave this one out"):
            refuse(names)
        with pytest.raises(Refusal) as one:
            refuse(NAMES)
        assert "leave this one out" not in str(one.value)


def start_of(partitions: int, table: InputTable = ONE_TOPIC) -> tuple[TaskStart, Any]:
    """Return a start that finds topic "a" with so many partitions, and an index that read three."""
    inputs, layout = Inputs("a*", several=True), Layout(0, {}, topics=(topic("a", partitions),))
    inputs.take(table, layout, 0)
    parts: Any = SimpleNamespace(inputs=inputs, observer=SimpleNamespace(process=None))
    plan: Any = SimpleNamespace(names=NAMES, accept_positions=False)
    keeper: Any = None
    start = TaskStart(plan, parts, keeper)
    start.layout = layout
    index = SimpleNamespace(
        progress=Progress(positions={0: 9, 2: 9}), fact=lambda _: table.encode()
    )
    return start, index


def topic(name: str, partitions: int) -> InputTopic:
    return InputTopic(name, f"id of {name}", partitions)


def test_an_index_of_one_topic_is_continued_as_the_first_of_several():
    known = InputTable((topic("a", 3),))
    start, index = start_of(3)
    assert start._numbered(index, {0: 9, 2: 9}, "id of a") == known
    start, index = start_of(2)
    with pytest.raises(Refusal, match="partitions"):
        start._numbered(index, {0: 9}, "id of a")
    for partitions, missing in ((2, 1), (3, 0), (4, 0)):
        start, index = start_of(partitions, known)
        assert start._unknown_to(start.layout, index) == missing


def lost(positions, *, accept=False):
    return refuse_lost_input(NAMES, positions, {0: 5}, {0: 9}, accept=accept)


def test_positions_that_the_input_holds_stay():
    assert [lost({0: offset}) for offset in (5, 9)] == [{0: 5}, {0: 9}]


def test_positions_beyond_the_input_are_refused_and_those_before_it_unless_accepted():
    with pytest.raises(Refusal, match="was recreated or truncated"):
        lost({0: 10}, accept=True)
    with pytest.raises(Refusal, match=r"retention passed us .* records, or only the markers"):
        lost({0: 4})
    assert lost({0: 4}, accept=True) == {0: 5}


def begun(committed, known, partitions=(0,), *, accept=False):
    return reconcile(NAMES, committed, known, partitions, accept=accept)


def test_offsets_that_agree_say_nothing_and_expired_ones_follow_the_changelog():
    assert begun({0: 7}, {0: 7}).loudly == []
    expired = begun({}, {0: 7})
    assert (expired.positions, expired.known) == ({0: 7}, {0: 7})
    assert "has no committed offsets" in expired.loudly[0]


def test_a_group_behind_reads_again_and_one_ahead_is_refused_unless_accepted():
    behind = begun({0: 3}, {0: 7})
    assert (behind.positions, behind.known) == ({0: 3}, {0: 7})
    assert "was rewound" in behind.loudly[0]
    with pytest.raises(Refusal, match="ahead of its changelog"):
        begun({0: 8}, {0: 7})
    ahead = begun({0: 8}, {0: 7}, accept=True)
    assert (ahead.positions, ahead.known) == ({0: 8}, {0: 8})


def test_added_partitions_begin_at_their_beginning_and_missing_or_unknown_ones_are_refused():
    added = begun({0: 7}, {0: 7}, (0, 1))
    assert added.positions == {0: 7, 1: 0}
    assert "new partitions [1]" in added.loudly[0]
    assert begun({0: 7, 1: 0}, {0: 7}, (0, 1)).known == {0: 7, 1: 0}
    with pytest.raises(Refusal, match=r"committed offsets .* for partitions \{1: 4\}"):
        begun({0: 7, 1: 4}, {0: 7}, (0, 1))
    with pytest.raises(Refusal, match=r"speaks of partitions \[1\]"):
        begun({0: 7}, {0: 7, 1: 3}, (0,))
