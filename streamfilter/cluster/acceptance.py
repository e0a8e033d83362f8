"""Which sketch ranges count: a pure function of the log, without a clock.

The judge holds the next input offset of each partition. Whether a range counts depends
only on that offset. So a range may arrive several times, and from any edge.

| next offset 10, range | verdict | what follows                                             |
|-----------------------|---------|----------------------------------------------------------|
| 4 to 10               | below   | dropped: all of it was judged before                     |
| 4 to 12, 10 to 12     | counts  | its records from 10 on are judged                        |
| 11 to 12              | gap     | dropped; the edge is asked to sign again from 10 on      |
| inquiry at 10         | below   | dropped: nothing was lost                                |
| inquiry at 12         | gap     | ranges before it were lost: sign again from 10 on        |
"""

from enum import StrEnum


class Acceptance(StrEnum):
    """Whether a sketch range counts, or why not: see the table above."""

    COUNTS = "counts"
    BELOW = "below"
    GAP = "gap"


def acceptance(start: int, end: int, expected: int) -> Acceptance:
    """Return whether a range from *start* up to *end* counts, if *expected* comes next."""
    if start > expected:
        return Acceptance.GAP
    return Acceptance.COUNTS if expected < end else Acceptance.BELOW
