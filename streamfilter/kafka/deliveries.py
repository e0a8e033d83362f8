"""What became of the records of one transaction, as the client's delivery reports tell it.

Of most transactions only the last changelog record's report is asked for: its offset is the
largest, and a callback a record costs as much as producing it. A *watched* transaction has one
on every record, for then a broker has refused some of them, and which must be known.

A broker refuses whole batches. Of two or more bad records in a batch the reports name each, as
INVALID_RECORD, and tell the others that another record was to blame (KIP-467). Of a single bad
one they do not: all of the batch are then refused alike, with the batch's own code. So a watched
producer has one batch under way at a time, and never two of them are blamed together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaError, Message

from streamfilter.engine.ports import Blame
from streamfilter.kafka.errors import REFUSED

Report = Callable[[KafkaError | None, Message], None]


class Deliveries:
    """Notes of one transaction. A callback notes and never raises."""

    def __init__(self, *, watched: bool) -> None:
        self._watched = watched
        self._count = 0
        self._refused: list[int] = []
        self._spared = False
        """True when reports tell the records that are to blame from those sent with them."""
        self._code = KafkaError.NO_ERROR
        self.asked = False
        """Whether the last changelog record was given to the client."""
        self.last: tuple[KafkaError | None, int | None] = (None, None)
        """What became of it, and its offset if that was told."""

    def report(self, *, last: bool = False) -> Report | None:
        """Return the callback for the record produced next; None: nobody asks."""
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
        """Return the blame of the record that a report was asked for last."""
        return Blame((self._count - 1,), True, reason)

    @property
    def refused(self) -> bool:
        """Return whether a broker is known to have refused some of them."""
        return bool(self._refused)

    def blame(self, why: KafkaError | None) -> Blame | None:
        """Return who is to blame, if *why* the transaction failed is known."""
        if why is None:
            return None
        named = self._spared or self._code != why.code()
        each = named or len(self._refused) == 1
        reason, for_time = f"{why.name()}: {why.str()}", why.code() == KafkaError.INVALID_TIMESTAMP
        return Blame(tuple(self._refused), each, reason, for_time)
