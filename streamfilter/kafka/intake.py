"""Micro-batches out of `Log.consume`: bounded in records and in bytes, in the order of judgement.

How many bytes a call returns is known afterwards only. So each call asks for what the average
record of late would fill, and what is still too much waits here for the next batch.
"""

from __future__ import annotations

from collections import deque

from streamfilter.kafka.ports import Log
from streamfilter.model import Record

RECORD_BYTES = 200
"""What a record occupies in memory beside its key and value."""


def bytes_of(record: Record) -> int:
    """Return roughly what *record* holds in memory."""
    return RECORD_BYTES + len(record.value or b"") + len(record.key or b"")


def in_order(records: list[Record]) -> list[Record]:
    """Return *records* by (partition, offset): the order of judgement."""
    return sorted(records, key=lambda record: (record.source.partition, record.source.offset))


class Intake:
    """Takes batches from a log."""

    def __init__(self, log: Log, *, documents: int, size: int) -> None:
        """Bound batches to *documents* records and *size* bytes (at least one record)."""
        self._log, self._documents, self._size = log, documents, size
        self._waiting: deque[Record] = deque()
        self._average = float(RECORD_BYTES)

    def next(self, timeout: float) -> list[Record]:
        """Return the next batch in the order of judgement; empty if nothing came in time."""
        if not self._waiting:
            count = max(1, min(self._documents, int(self._size / self._average)))
            self._waiting.extend(self._log.consume(count, timeout))
        batch: list[Record] = []
        room = self._size
        while self._waiting and len(batch) < self._documents:
            room -= bytes_of(self._waiting[0])
            if batch and room < 0:
                break
            batch.append(self._waiting.popleft())
        if batch:
            # The last batch weighs as much as all before it: sizes change in bursts.
            latest = sum(map(bytes_of, batch)) / len(batch)
            self._average = max(latest, (self._average + latest) / 2)
        return in_order(batch)

    def clear(self) -> None:
        """Forget what waits: the log will be read from known positions again."""
        self._waiting.clear()
