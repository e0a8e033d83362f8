"""Detects a foreign writer: each of our transactions must directly follow our previous one.

A changelog has one owner. The transactional id fences all other processes of the group, but not
another group. A second group with the same changelog has another id and numbers its own batches;
an index could not be restored from that mix. So the offsets are checked before the commit. Our
first record must come directly after the commit marker of our previous transaction.

A gap in the offsets is no proof: an aborted transaction, ours or foreign, also takes offsets and
a marker. So the gap is read as committed. Every record in it is foreign, because all of ours are
known. Our transaction is not committed while a foreign one is open in the gap: if two
transactions overlap, only the one that began first can be committed.

Our transaction is open during this read, so the read has only a share of its time. A longer gap
is read at the next start, with a new producer, when no transaction of ours is open. A plain
retry would never end: each attempt leaves its own aborted records, and the next one reads more.
"""

from streamfilter.engine.ports import Abortable, Changelog, Clock
from streamfilter.engine.start_checks import Names, refuse_other_writer

MARKER = 1  # offsets that a commit marker takes in each partition that the transaction wrote to
LOOK_SHARE = 0.25
"""Share of a transaction's time in which the gap before it is read. The read opens a connection
and fetches the records of our aborted attempts."""
READ_SECONDS = 0.05


class NotRead(Abortable):
    """The gap before our transaction could not be read in time: the next start reads it."""


class WriterCheck:
    """Checks one changelog partition for foreign records before our next transaction."""

    def __init__(
        self,
        changelog: Changelog,
        clock: Clock,
        names: Names,
        *,
        end: int,
        transaction_seconds: float,
    ) -> None:
        """Begin with an index that holds every record committed before the offset *end*."""
        self._changelog, self._clock, self._names = changelog, clock, names
        self._seconds = LOOK_SHARE * transaction_seconds
        self._known = end  # every committed record before this offset is in the index, or ours

    def check(self, last: int, *, count: int) -> None:
        """Check the gap before our *count* uncommitted records, the last of them at *last*.

        Raises `Refusal` for foreign records, `NotRead` for a long read or an open transaction
        there.
        """
        first = last - count + 1
        if count and first > self._known:
            self._read(first)
            self._known = first

    def committed(self, last: int) -> None:
        """Note the commit of a transaction whose last record is at *last*."""
        self._known = max(self._known, last + 1 + MARKER)

    def _read(self, end: int) -> None:
        deadline = self._clock.monotonic() + self._seconds
        reader = self._changelog.read(self._known, end)
        try:
            while not reader.done:
                for entry in reader.read(1, READ_SECONDS):
                    raise refuse_other_writer(self._names, entry.offset)
                if self._clock.monotonic() >= deadline and not reader.done:
                    raise NotRead(
                        f"{self._names.changelog} was read from {self._known} to {reader.position} "
                        f"in {self._seconds:g} s, and our records begin at {end}: aborted ones lie "
                        "between, or another program has a transaction open; a start reads them"
                    )
        finally:
            reader.close()
