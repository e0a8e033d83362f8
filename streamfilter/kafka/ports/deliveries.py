"""Collects the delivery reports of one transaction.

Most transactions request only the report of the last changelog record, whose offset is the
largest. A callback for each record would cost as much as producing it. A *watched* transaction
has one on every record: a broker has refused some of them, and the reports say which.

A broker refuses whole batches. If two or more records of a batch are bad, their reports say
INVALID_RECORD. The other reports say that another record is to blame (KIP-467). If only one is
bad, all records of the batch get the batch's error code. So a watched producer has one batch in
flight at a time: two batches are never blamed together.

Example: a broker refuses a batch of the transaction's records 4, 5 and 6.

| their reports                                          | `numbers` | `each`                    |
|--------------------------------------------------------|-----------|---------------------------|
| INVALID_RECORD, INVALID_RECORD, another is to blame    | 4, 5      | True: both were refused   |
| the batch's code, three times                          | 4, 5, 6   | False: at least one was   |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaError, Message

from streamfilter.engine.ports import Blame
from streamfilter.kafka.connection.errors import REFUSED

Report = Callable[[KafkaError | None, Message], None]


class Deliveries:
    """The delivery reports of one transaction. Its callbacks only take notes and never raise."""

    def __init__(self, *, watched: bool) -> None:
        self._watched = watched
        self._count = 0
        self._refused: list[int] = []
        self._spared = False  # whether reports distinguish the blamed from their neighbours
        self._code = KafkaError.NO_ERROR
        self.asked = False  # whether the last changelog record was given to the client
        self.last: tuple[KafkaError | None, int | None] = (None, None)
        """Its delivery error, if any, and its offset if the broker reported one."""

    def report(self, *, last: bool = False) -> Report | None:
        """Return the callback for the next record to produce; None: no report is needed."""
        number, self._count = self._count, self._count + 1
        self.asked |= last
        if not self._watched:
            return self._note_last if last else None
        return partial(self._note, number, last)

    def _note_last(self, error: KafkaError | None, message: Message) -> None:
        self.last = (error, message.offset())

    def _note(self, number: int, last: bool, error: KafkaError | None, message: Message) -> None:
        if last:
            self._note_last(error, message)
        if error is None:
            return
        if error.code() == KafkaError._INVALID_DIFFERENT_RECORD:
            self._spared = True
        elif error.code() in REFUSED:
            self._refused.append(number)
            self._code = error.code()

    def blame_last(self, reason: str) -> Blame:
        """Return the blame for the record of the latest `report` call."""
        return Blame((self._count - 1,), True, reason)

    @property
    def refused(self) -> bool:
        """Return whether a report says that a broker refused a record."""
        return bool(self._refused)

    def blame(self, why: KafkaError | None) -> Blame | None:
        """Return the records to blame; None if *why* the transaction failed is not known."""
        if why is None:
            return None
        named = self._spared or self._code != why.code()
        each = named or len(self._refused) == 1
        reason, for_time = f"{why.name()}: {why.str()}", why.code() == KafkaError.INVALID_TIMESTAMP
        return Blame(tuple(self._refused), each, reason, for_time)
