"""Known ids: which records of a batch bear the id of a remembered document.

With ``known_id: duplicate`` the id alone decides: such a record is a duplicate, whatever its text.
The remembered document may be in the index, or an earlier row of the batch that comes out.
Which rows come out is not known before the batch is judged, so `earlier` takes a guess.

Example: the rows 0 to 2 bear the id "a", which the index does not know. If row 0 is withheld for
its text and row 1 comes out, only row 2 is a duplicate by its id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamfilter.index.protocol import Documents, Index
from streamfilter.matching.blocking.forgetting import FORGET_MAX, NEVER, known_as
from streamfilter.matching.blocking.visibility import Visibility
from streamfilter.similarity.columns import I64, Flags

NONE = -1


def known_names(documents: Documents) -> list[bytes | None]:
    """Return the name under which each of *documents* is known."""
    return [*map(known_as, documents.ids, documents.contents.scopes)]


def remembered_under(names: Sequence[bytes | None], visible: Visibility, index: Index) -> I64:
    """Return (n,) the ordinal of the index's document that each row of *names* may see; `NONE`."""
    distinct = [name for name in dict.fromkeys(names) if name is not None]
    # Documents that the horizon has passed are still stored, and may be more than we read.
    since = int(visible.since.min(initial=NEVER))
    named = dict(zip(distinct, index.named(distinct, FORGET_MAX, since), strict=True))
    found = np.full(len(names), NONE)
    for row, name in enumerate(names):
        ordinals = None if name is None else named.get(name)
        if ordinals is not None and len(ordinals):
            seen = ordinals[visible.meets(np.full(len(ordinals), row), ordinals)]
            found[row] = seen[0] if len(seen) else NONE
    return found


class SharedIds:
    """The rows of a batch that bear an id which another row bears, too."""

    def __init__(
        self, names: Sequence[bytes | None], visible: Visibility, *, first_ordinal: int
    ) -> None:
        rows: dict[bytes, list[int]] = {}
        for row, name in enumerate(names):
            if name is not None:
                rows.setdefault(name, []).append(row)
        self._groups = [group for group in rows.values() if len(group) > 1]
        self._visible, self._first = visible, first_ordinal

    def earlier(self, unique: Flags) -> I64:
        """Return (n,) the earlier row that is remembered under the same id, or `NONE`."""
        found = np.full(len(unique), NONE)
        comes_out = unique.tolist()
        for group in self._groups:
            last = NONE
            for row in group:
                found[row] = last
                last = row if comes_out[row] else last
        rows = np.flatnonzero(found > NONE)
        gone = rows[~self._visible.meets(rows, found[rows] + self._first)]
        found[gone] = NONE
        return found

    def first_of_each(self, unique: Flags) -> Flags:
        """Return *unique* without the rows that an earlier unique row makes duplicates."""
        chosen = unique.copy()
        for group in self._groups:
            last = NONE
            for row in group:
                if last > NONE and self._sees(row, last):
                    chosen[row] = False
                elif chosen[row]:
                    last = row
        return chosen

    def _sees(self, row: int, earlier: int) -> bool:
        pair = np.array([row]), np.array([earlier + self._first])
        return bool(self._visible.meets(*pair)[0])

    def behind(self, rows: Flags) -> Flags:
        """Return the rows that come after one of *rows* in their group."""
        found = np.zeros(len(rows), np.bool_)
        for group in self._groups:
            chosen = np.flatnonzero(rows[group])
            if len(chosen):
                found[group[chosen[0] + 1 :]] = True
        return found
