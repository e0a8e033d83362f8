"""The dead-letter breaker: stops the input if too many of the latest records cannot be read.

A wrong `input.format`, or a producer with a changed schema, would move the whole topic to the
dead-letter topic. So the service takes no more records, reports it, and waits for a person. The
records are still in the input.
"""

from collections import deque

WINDOW_RECORDS = 1_000  # the share is that of at least so many records, in whole batches
RECORDS_MIN = 100  # it never trips below so many: one bad record of one would be 100 %


class Breaker:
    """Watches the share of rejected records."""

    def __init__(self, share: float) -> None:
        """Trip when more than *share* of the latest records were rejected; 1 never trips."""
        self._share = share
        self._batches: deque[tuple[int, int]] = deque()
        self._records = self._rejected = 0
        self._example = ""
        self.tripped = False

    def add(self, records: int, rejected: int, example: str = "") -> None:
        """Count one committed batch; *example* names a rejected record and the reason."""
        self._example = example or self._example
        self._batches.append((records, rejected))
        self._records += records
        self._rejected += rejected
        while self._records - self._batches[0][0] >= WINDOW_RECORDS:
            oldest, broken = self._batches.popleft()
            self._records -= oldest
            self._rejected -= broken
        if self._records >= RECORDS_MIN and self._rejected > self._share * self._records:
            self.tripped = True

    @property
    def reason(self) -> str:
        return (
            f"{self._rejected} of the last {self._records} records could not be read "
            f"(limits.dead_letter_share is {self._share:g})"
            + (f", such as {self._example}" if self._example else "")
            + "; look at the dead letters, mend the producer or the configuration, and restart"
        )
