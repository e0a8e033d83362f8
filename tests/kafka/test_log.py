"""`KafkaLog` where a real client's answer is too rare to wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamfilter.engine.ports import Abortable
from streamfilter.kafka.log import Clients, KafkaLog, Place


class Message:
    """A record that was delivered; to where, the broker did not say."""

    def offset(self) -> int | None:
        return None


class Producer:
    """Delivers at once, with the report that librdkafka makes of DUPLICATE_SEQUENCE_NUMBER."""

    def __init__(self, *_: bool) -> None:
        self._report: Callable[..., None] | None = None

    def produce(self, topic: str, *, on_delivery: Callable[..., None], **_: Any) -> None:
        self._report = on_delivery

    def flush(self, seconds: float) -> int:
        assert self._report is not None
        self._report(None, Message())
        return 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def test_a_changelog_record_whose_offset_nobody_knows_costs_its_transaction() -> None:
    """It was remembered as offset 0: the next start took the index for another changelog's."""
    made: Any = Producer
    log = KafkaLog(
        Place("in", (0,), "changelog", 0), Clients(made, made, made, lambda _: made(), 1.0)
    )
    log.open_producer()
    log.begin()
    log.produce_changelog([b"batch"])
    with pytest.raises(Abortable, match="did not tell where"):
        log.flush()
