"""Families: documents that are judged alike, since they are alike.

Whether a copy is found depends on slots that it shares with its siblings, and on the same full
buckets; a fault of the sketcher meets all of them. So the documents of a family are no independent
trials, and an interval that took them for such would be far too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamfilter.evaluation.run import Given, Truth

ALIKE = 0.5
"""Similarity from which two documents are of one family: half of their slots are the same."""


def families(given: Sequence[Given], rows: Mapping[str, int], truth: Truth) -> list[int]:
    """Return of each document its family: the first row of those that pairs connect with it.

    Args:
        given: the documents; equal texts are of one family, whatever the truth lists.
        rows: where each id stands.
        truth: the similarities, as far down as it knows them.
    """
    first = list(range(len(given)))

    def head(row: int) -> int:
        while first[row] != row:
            first[row] = row = first[first[row]]
        return row

    def join(one: int, other: int) -> None:
        one, other = head(one), head(other)
        first[max(one, other)] = min(one, other)

    by_text: dict[bytes, int] = {}
    for row, each in enumerate(given):
        if each.text:
            join(by_text.setdefault(each.text, row), row)
    for id_, row in rows.items():
        for neighbour, similarity in truth.neighbours(id_).items():
            if similarity >= ALIKE and neighbour in rows:
                join(rows[neighbour], row)
    return [head(row) for row in range(len(given))]
