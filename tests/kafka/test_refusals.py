"""What is known of refused records, without a broker."""

from streamfilter.engine.ports import Blame, Outgoing
from streamfilter.engine.refusals import WATCHED_BATCHES, Item, Refusals


def test_what_was_committed_without_an_answer_is_not_watched_for_for_ever() -> None:
    refusals = Refusals("dead")
    items = [Item(Outgoing("unique", 0, None, b"x"), (0, place)) for place in (3, 9)]
    refusals.learn(items, Blame((0, 1), each=True, reason="INVALID_TIMESTAMP"))
    refusals.begin_at({0: 4})
    assert set(refusals.known) == {(0, 9)}
    refusals.begin_at({0: 10})
    assert [refusals.committed([]) for _ in range(WATCHED_BATCHES)][-1]
    assert not refusals.watching


def test_a_group_that_was_rewound_keeps_what_is_known_of_the_records_it_reads_again() -> None:
    refusals = Refusals("dead")
    items = [Item(Outgoing("unique", 0, None, b"x"), (0, 9))]
    refusals.learn(items, Blame((0,), each=True, reason="INVALID_TIMESTAMP"))
    refusals.begin_at({0: 2, 1: 100})
    assert set(refusals.known) == {(0, 9)}
