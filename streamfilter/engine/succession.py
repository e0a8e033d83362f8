"""Does each of our transactions follow our last one in the changelog, with nobody's in between?

A changelog tells one history, and its owner is who fenced all others with its transactional id.
That fence ends at the group: another group that was given the same changelog has another id,
numbers its batches by itself, and what both write can be restored by nobody. So the offsets are
looked at, before the commit: our first record comes right behind the marker of our last commit.

Offsets that are not ours are no proof. An attempt of ours that was aborted took some, with its
marker, and so may have a stranger's. So they are read as any reader would see them: what is
committed between our last transaction and this one is somebody else's, for all of ours is known.
As long as a transaction of somebody else is undecided there, ours is not committed: of two that
overlap, only the one that began first can be.

To read takes time, and our transaction is open meanwhile. What does not fit into a share of it is
read at a start, by a new producer's, where nothing of ours is open and nothing hurries. To try the
same again would never end: each attempt leaves its own records behind, and the next one has more
to read.
"""

from __future__ import annotations

from streamfilter.engine.beginning import Names, refuse_other_writer
from streamfilter.engine.ports import Abortable, Clock, Log

MARKER = 1
"""Offsets that a commit takes in each partition that it wrote to."""
LOOK_SHARE = 0.25
"""Of a transaction's time, to look at what stands before it: a connection is made for it, and what
our aborted attempts left is fetched."""
READ_SECONDS = 0.05


class NotRead(Abortable):
    """What stands before our transaction could not be read while it was open: a start can."""


class Succession:
    """What stands in one changelog partition before our next transaction."""

    def __init__(
        self, log: Log, clock: Clock, names: Names, *, end: int, transaction_seconds: float
    ) -> None:
        """Begin with an index that holds all that is committed before the offset *end*."""
        self._log, self._clock, self._names = log, clock, names
        self._seconds = LOOK_SHARE * transaction_seconds
        self._known = end
        """Everything committed before it is in the index, or ours."""

    def check(self, last: int, *, count: int) -> None:
        """Look at what stands before *count* records, not committed yet, that end at *last*.

        Raises:
            Refusal: somebody else has written there.
            NotRead: it takes too long, or somebody else has a transaction open there.
        """
        first = last - count + 1
        if count and first > self._known:
            self._read(first)
            self._known = first

    def committed(self, last: int) -> None:
        """Say that a transaction whose last record stands at *last* is committed."""
        self._known = max(self._known, last + 1 + MARKER)

    def _read(self, end: int) -> None:
        deadline = self._clock.monotonic() + self._seconds
        reader = self._log.read_changelog(self._known, end)
        try:
            while not reader.done:
                for entry in reader.read(1, READ_SECONDS):
                    raise refuse_other_writer(self._names, entry.offset)
                if self._clock.monotonic() >= deadline and not reader.done:
                    raise NotRead(
                        f"{self._names.changelog} was read from {self._known} to {reader.position} "
                        f"in {self._seconds:g} s, and our records begin at {end}: aborted ones lie "
                        "between, or somebody else has a transaction open; a start reads them"
                    )
        finally:
            reader.close()
