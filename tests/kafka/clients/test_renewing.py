"""A client that no one answers is replaced, where its brokers answer others."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from streamfilter.engine.ports import Denied, Retriable
from streamfilter.kafka.brokers.broker_queries import committed
from streamfilter.kafka.ports.source import Renewed

NOBODY = "127.0.0.1:1"
ANSWER_SECONDS = 60.0


@pytest.mark.slow
def test_who_is_not_answered_is_asked_by_a_new_client(embedded_stage, caplog):
    """A task that had begun stood there for ever, and no one could take over from it."""
    stage = embedded_stage()
    places = iter((NOBODY, stage.bootstrap))
    data = Renewed(lambda: consumer_at(next(places), stage.group), seconds=1.0)

    def ask() -> dict[int, int]:
        wanted = {0: TopicPartition(stage.input, 0)}
        return data.ask(lambda consumer: committed(consumer, wanted, "asking"))

    with pytest.raises(Retriable):
        ask()
    deadline = time.monotonic() + ANSWER_SECONDS
    while (found := answer(ask)) is None:  # a new group's coordinator is not there at once
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (found, next(places, "none left")) == ({}, "none left")
    assert "asked in vain for 1 s, now by a new client: " in caplog.text
    data.close()


def answer(ask: Callable[[], dict[int, int]]) -> dict[int, int] | None:
    try:
        return ask()
    except Retriable:
        return None


def consumer_at(place: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": place, "group.id": group, "log_level": 0})


def made() -> tuple[Callable[[], Any], list[Any]]:
    """Return what makes fake consumers, and those that were made."""
    all_of_them: list[Any] = []

    def new() -> Any:
        all_of_them.append(SimpleNamespace(close=lambda: None))
        return all_of_them[-1]

    return new, all_of_them


def refuse(error: Exception, _: Any) -> None:
    raise error


def test_a_short_silence_and_a_refusal_replace_no_one() -> None:
    new, consumers = made()
    data = Renewed(new, seconds=60.0)
    for error in (Retriable, Denied, Retriable):
        with pytest.raises(error):
            data.ask(partial(refuse, error("no")))
        assert data.ask(lambda consumer: consumer) is consumers[0]
    assert len(consumers) == 1


def test_an_answer_begins_the_silence_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("streamfilter.kafka.ports.source.time", clock)
    new, consumers = made()
    data = Renewed(new, seconds=10.0)

    def ask(seconds: float, *, error: Exception | None = None) -> None:
        def question(_: Any) -> None:
            now[0] += seconds
            if error:
                raise error

        data.ask(question)

    nobody = Retriable("nobody")
    for error, count in ((nobody, 1), (None, 1), (nobody, 1), (nobody, 2)):
        with suppress(Retriable):
            ask(6, error=error)
        assert len(consumers) == count
