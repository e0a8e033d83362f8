"""`KafkaSink` where a real client's answer is too rare to wait for."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.ports import (
    Abortable,
    Denied,
    OutcomeUnknown,
    Outgoing,
    RecordsRefused,
    Retriable,
)
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.ports.sink import INIT_SECONDS, KafkaSink


class Message:
    """A record that was delivered; to where, the broker did not say."""

    def offset(self) -> int | None:
        return None


class Delivering:
    """Delivers at once, with the report that librdkafka makes of DUPLICATE_SEQUENCE_NUMBER."""

    def __init__(self, *_: bool) -> None:
        self._report: Callable[..., None] | None = None

    def produce(self, *message: Any) -> None:
        _, _, _, _, self._report, *_ = message

    def flush(self, seconds: float) -> int:
        assert self._report is not None
        self._report(None, Message())
        return 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def sink_of(producer: Any, *, seconds: float = 1.0) -> KafkaSink:
    nothing: Any = SimpleNamespace(end=-1)
    return KafkaSink(
        TaskTopics(Inputs("in"), "changelog", 0), nothing, nothing, producer, seconds=seconds
    )


def begun(made: Any) -> KafkaSink:
    """Return a sink whose producer is a *made* one, in a transaction."""
    sink = sink_of(lambda _: made())
    sink.open()
    sink.begin()
    return sink


def test_a_changelog_record_whose_offset_nobody_knows_costs_its_transaction() -> None:
    """It was remembered as offset 0: the next start took the index for another changelog's."""
    sink = begun(Delivering)
    sink.produce_changelog([b"batch"])
    with pytest.raises(Abortable, match="did not tell where"):
        sink.flush()


class SilentProducer(Delivering):
    """Delivers, and reports nothing."""

    def flush(self, seconds: float) -> int:
        return 0


def test_a_changelog_record_that_no_one_reports_costs_its_transaction() -> None:
    """It was taken for a transaction without one, and the index went on at no offset."""
    sink = begun(SilentProducer)
    sink.produce_changelog([b"batch"])
    with pytest.raises(Abortable, match="did not tell where"):
        sink.flush()


class SlowProducer:
    """One whose coordinator does not answer for the first so many waits."""

    def __init__(self, name: str, story: list[str], waits: int, code: int) -> None:
        self._name, self._story, self._waits, self._code = name, story, waits, code

    def init_transactions(self, seconds: float) -> None:
        assert seconds <= INIT_SECONDS
        self._story.append(f"{self._name} waits")
        if self._waits:
            self._waits -= 1
            raise KafkaException(KafkaError(self._code))

    def begin_transaction(self) -> None:
        self._story.append(f"{self._name} begins")

    def close(self) -> None:
        self._story.append(f"{self._name} closes")

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def slow_sink(
    waits: int, *, seconds: float = 60.0, code: int = KafkaError._TIMED_OUT
) -> tuple[KafkaSink, list[str]]:
    """Return a sink whose producers are slow to initialise, and the story of what they did."""
    story: list[str] = []
    names = iter("abcdef")
    slow: Any = lambda _: SlowProducer(next(names), story, waits, code)  # noqa: E731  a stand-in
    return sink_of(slow, seconds=seconds), story


def test_a_producer_that_is_slow_to_initialise_is_waited_for_a_little_at_a_time() -> None:
    """A new one at every try would begin anew, and never come to its end by short waits."""
    sink, story = slow_sink(3)
    for _ in range(3):
        with pytest.raises(Retriable):
            sink.open()
        with pytest.raises(OutcomeUnknown, match="init_transactions did not succeed"):
            sink.begin()
    sink.open()
    sink.begin()
    assert story == ["a waits"] * 4 + ["a begins"]


def test_a_producer_that_is_initialised_is_replaced_and_so_is_one_of_another_kind() -> None:
    sink, story = slow_sink(1)
    with pytest.raises(Retriable):
        sink.open()
    with pytest.raises(Retriable):
        sink.open(watched=True)
    sink.open(watched=True)
    with pytest.raises(Retriable):
        sink.open(watched=True)
    assert story == ["a waits", "b waits", "b waits", "b closes", "c waits"]


def test_one_that_a_transactions_time_does_not_initialise_is_replaced() -> None:
    """A client that is stuck in itself would be waited for without end."""
    sink, story = slow_sink(100, seconds=2 * INIT_SECONDS)
    for _ in range(3):
        with pytest.raises(Retriable):
            sink.open()
    assert story == ["a waits", "a waits", "b waits"]


def test_one_that_failed_for_good_is_never_waited_for_again() -> None:
    sink, story = slow_sink(1, code=KafkaError._STATE)
    with pytest.raises(OutcomeUnknown):
        sink.open()
    with pytest.raises(OutcomeUnknown):
        sink.open()
    sink.close()
    assert story == ["a waits", "b waits"]


def test_one_that_is_not_initialised_ends_without_a_warning() -> None:
    """An edge whose start was cut short logged a warning of Python's, with a line of our code."""
    sink = sink_of(
        lambda _: Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "t"})
    )
    with pytest.raises(Retriable):
        sink.open()
    with warnings.catch_warnings(action="error"):
        sink.close()


class FailedProducer(Delivering):
    """Its transaction had failed with *code*; librdkafka then takes no more records."""

    transactions = 0
    full = 0
    code = KafkaError.TOPIC_AUTHORIZATION_FAILED

    def begin_transaction(self) -> None:
        self.transactions += 1
        if self.transactions > 1:  # which asks why
            raise KafkaException(KafkaError(self.code, "not for you", txn_requires_abort=True))

    def produce(self, *_: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError("the queue is full")
        raise KafkaException(KafkaError(KafkaError._STATE, "Erroneous state"))

    def flush(self, seconds: float) -> int:
        return 0


@pytest.mark.parametrize("full", [0, 1], ids=["at once", "after the queue was full"])
@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Denied),
        (KafkaError.INVALID_TIMESTAMP, RecordsRefused),
    ],
)
def test_who_may_produce_no_more_says_why_the_transaction_had_failed(full, code, raised):
    """It said "Erroneous state" and ended with 70: for a right, or a record that is refused."""
    sink = begun(type("Failed", (FailedProducer,), {"full": full, "code": code}))
    with pytest.raises(raised, match="not for you"):
        sink.produce_changelog([b"document", b"batch"])


class SmallerTopic(Delivering):
    """Its output was made anew with fewer partitions."""

    def produce(self, *_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION, "Unknown partition"))


def test_an_output_that_was_made_anew_with_fewer_partitions_costs_a_transaction():
    """It ended with 78 and no way out, before `TopicsWatch` could say what had happened."""
    sink = begun(SmallerTopic)
    with pytest.raises(Abortable, match="producing to out: _UNKNOWN_PARTITION"):
        sink.produce([Outgoing("out", 2, None, b"document")])
