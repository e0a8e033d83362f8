"""What is known of refused records, without a broker."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streamfilter.engine.batches.refusals import WATCHED_BATCHES, Item, Refusals
from streamfilter.engine.ports import Blame, Outgoing
from streamfilter.kafka.edge_factory import LOST, KafkaSigner
from streamfilter.stops import Refused, Temporary


def test_what_was_committed_without_an_answer_is_not_watched_for_for_ever() -> None:
    refusals = Refusals()
    items = [Item(Outgoing("unique", 0, None, b"x"), (0, place)) for place in (3, 9)]
    refusals.learn(items, Blame((0, 1), each=True, reason="INVALID_TIMESTAMP"))
    refusals.begin_at({0: 4})
    assert set(refusals.known) == {(0, 9)}
    refusals.begin_at({0: 10})
    assert [refusals.committed([]) for _ in range(WATCHED_BATCHES)][-1]
    assert not refusals.watching


def test_a_group_that_was_rewound_keeps_what_is_known_of_the_records_it_reads_again() -> None:
    refusals = Refusals()
    items = [Item(Outgoing("unique", 0, None, b"x"), (0, 9))]
    refusals.learn(items, Blame((0,), each=True, reason="INVALID_TIMESTAMP"))
    refusals.begin_at({0: 2, 1: 100})
    assert set(refusals.known) == {(0, 9)}


def test_a_record_without_a_timestamp_of_its_own_is_not_refused_for_our_clock() -> None:
    refusals = Refusals()
    ours = Item(Outgoing("dead", 0, None, b"a letter of the present"), (0, 3))
    theirs = Item(Outgoing("dead", 0, None, b"x", timestamp=10**15), (0, 4))
    refusals.learn([ours, theirs], Blame((1,), each=True, reason="too new", for_time=True))
    assert set(refusals.known) == {(0, 4)}
    none = Item(Outgoing("dead", 0, None, b"librdkafka takes 0 for none", timestamp=0), (0, 6))
    for item in (ours, none, Item(b"a document", (0, 5)), Item(b"a batch", None)):
        with pytest.raises(Temporary, match="refuses the present time of this host"):
            refusals.learn([item], Blame((0,), each=True, reason="too new", for_time=True))
    assert set(refusals.known) == {(0, 4)}
    refusals.learn([ours], Blame((0,), each=True, reason="too large"))
    assert set(refusals.known) == {(0, 3), (0, 4)}


def test_only_topics_that_would_get_a_record_without_a_key_are_asked_about_and_once() -> None:
    compacted, asked = {"old"}, list[str]()
    refusals = Refusals(compacted)

    def ask(topics: object) -> list[str]:
        asked.extend(topics)  # type: ignore[call-overload]
        return ["new"]

    outs = [("old", None), ("new", None), ("keyed", b"k"), ("new", None)]
    items = [Item(Outgoing(topic, 0, key, b"x"), (0, 1)) for topic, key in outs]
    items.append(Item(b"changelog", None))
    assert refusals.learn_compacted(items, ask).startswith("new became compacted")
    assert asked == ["new"]
    assert compacted == {"old", "new"}
    assert refusals.learn_compacted(items, ask) == ""
    assert asked == ["new"]
    assert not refusals.watching


@pytest.mark.parametrize("each", [True, False])
def test_what_belongs_to_no_record_and_is_refused_ends_the_process(each: bool) -> None:
    """A judge sent the same verdicts again and again to a topic that took smaller ones only."""
    refusals, range_ = Refusals(), Outgoing("verdicts", 0, None, b"v")
    refusals.learn([], None)
    items = [Item(range_, None)] * 2
    with pytest.raises(Temporary, match="refuses what belongs to no single record"):
        refusals.learn(items, Blame((0, 1), each=each, reason="MSG_SIZE_TOO_LARGE"))


@pytest.mark.parametrize(
    ("code", "stop"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, Temporary),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Refused),
        (KafkaError._MSG_TIMED_OUT, None),
    ],
)
def test_a_sketch_range_that_no_sending_again_brings_in_ends_the_edge(code, stop) -> None:
    """Its records waited for ever, and the log said only that the judge was asked."""

    def produce(topic: str, message: bytes, key: None, partition: int, report: Any) -> None:
        report(KafkaError(code), SimpleNamespace(offset=lambda: None))

    producer: Any = SimpleNamespace(produce=produce, poll=lambda _: 0)
    signer = KafkaSigner("news.sketches", lambda: producer, 900_000)
    number = signer.send(0, b"a range")
    if stop is None:
        assert signer.delivered() == {number: LOST}
    else:
        with pytest.raises(stop, match="sending a sketch range to"):
            signer.delivered()
