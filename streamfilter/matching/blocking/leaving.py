"""Places of one bucket while documents leave it: what a row of a batch finds at its time.

A bucket has a number of free places. Rows of the batch join it in their order, as long as there
is one. A document that the batch forgets leaves before the row that is the first without it.

Example: one free place; the rows 0, 1 and 2 join, and a stored document is gone from row 2 on.
Row 0 takes the place, row 1 finds none, and row 2 takes the place that was left. A write removes
the stored document first, so it would give row 1 the second place. Therefore the batch must end
before row 2.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from streamfilter.matching.blocking.forgetting import NEVER


def places(
    rows: Sequence[int], room: int, stored: Sequence[int], until: Sequence[int]
) -> list[bool]:
    """Return which of the joining *rows* find a place; *room* places are free at the beginning.

    *stored* has the row from which on each stored document that leaves is gone, and *until* that of
    each row of the batch, or `NEVER`.
    """
    leaving, found = list(stored), []
    heapify(leaving)
    for row in rows:
        while leaving and leaving[0] <= row:
            heappop(leaving)
            room += 1
        found.append(room > 0)
        if room > 0:
            room -= 1
            if until[row] < NEVER:
                heappush(leaving, until[row])
    return found


def first_misplaced(
    rows: Sequence[int], room: int, stored: Sequence[int], until: Sequence[int]
) -> int:
    """Return the first row at which a place is left that a write would give to an earlier row."""
    written = room + len(stored)
    leaving = list(stored)
    for row, found in zip(rows, places(rows, room, stored, until), strict=True):
        if until[row] < NEVER:
            if found:
                leaving.append(until[row])
            continue
        if not found and written > 0:
            return min(end for end in leaving if end > row)
        written -= 1
    return NEVER


def first_paged(
    rows: Sequence[int], room: int, stored: Sequence[int], until: Sequence[int], *, closed: bool
) -> int:
    """Return the first row at which a document leaves after a row found a text's bucket full.

    Such a bucket is *closed* from then on, and counts the rows that come, also those that leave.
    The other arguments are those of `places`; `NEVER` if there is none.
    """
    found = [False] * len(rows) if closed else places(rows, room, stored, until)
    if all(found):
        return NEVER
    full = rows[found.index(False)]
    ends = [*(() if closed else stored), *(until[row] for row in rows)]
    return min((end for end in ends if full < end), default=NEVER)
