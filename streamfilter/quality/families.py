"""Families: groups of similar documents, whose verdicts are not independent.

Whether a copy is found depends on slots that its siblings have too, and on the same full buckets.
A fault of the sketcher affects all of them. So the documents of a family are no independent trials.
A confidence interval that treated them as independent would be far too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamfilter.quality.run import Given, Truth

ALIKE = 0.5
"""Similarity from which two documents are in one family: half of their slots are the same."""


def families(given: Sequence[Given], rows: Mapping[str, int], truth: Truth) -> list[int]:
    """Return the family of each document: the first row that similar pairs connect it with.

    Equal texts are in one family, whatever the *truth* lists; *rows* are those of the ids.
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
