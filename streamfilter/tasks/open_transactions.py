"""Finds input partitions that another producer's open transaction holds back.

A read-committed consumer gets no record after the first open transaction. The positions then stand
still while records wait. This is no fault, and it ends by itself: brokers abort a transaction
after the ``transaction.timeout.ms`` of its producer. librdkafka cannot find out the producer
(DescribeProducers); Kafka's own tool can.
"""

from __future__ import annotations

from contextlib import suppress

from streamfilter.engine.ports import Clock, LogError, RecordSource
from streamfilter.engine.start_checks import Names
from streamfilter.model import Positions

HELD_SECONDS = 10.0  # a position stands still so long before brokers are asked, and again


class OpenTransactions:
    """Watches the positions of one task."""

    def __init__(self, source: RecordSource, clock: Clock, names: Names) -> None:
        self._source, self._clock, self._names = source, clock, names
        self._stood: dict[int, tuple[int, float]] = {}
        """By partition: a position with records after it, and the time it was first seen there."""
        self._ask_at = 0.0
        self._found: Positions = {}

    def look(self, positions: Positions, ends: Positions) -> None:
        """Find *positions* before the *ends* that an open transaction holds back."""
        now = self._clock.monotonic()
        waiting = {p: offset for p, offset in positions.items() if ends.get(p, 0) > offset}
        before = self._stood
        self._stood = {
            p: before[p] if p in before and before[p][0] == offset else (offset, now)
            for p, offset in waiting.items()
        }
        still = [p for p, (_, since) in self._stood.items() if now - since >= HELD_SECONDS]
        self._found = {p: o for p, o in self._found.items() if waiting.get(p) == o}
        if still and now >= self._ask_at:
            self._ask_at = now + HELD_SECONDS
            with suppress(LogError):  # a broker that does not answer proves nothing
                stable = self._source.start_positions(still, "latest")
                self._found = {p: waiting[p] for p in still if stable[p] == waiting[p]}

    def __str__(self) -> str:
        """Return a message about the partition held back; empty if there is none known."""
        if not self._found:
            return ""
        number, offset = min(self._found.items())
        topic, partition = self._names.spot(number)
        more = f" (and {len(self._found) - 1} more)" if len(self._found) > 1 else ""
        return (
            f"{topic}/{partition} waits at offset {offset}{more}: a transaction of another "
            "producer is open there, and brokers end it after its transaction.timeout.ms. "
            f"`kafka-transactions.sh describe-producers --topic {topic} --partition "
            f"{partition}` names it"
        )
