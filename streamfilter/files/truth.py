"""Reads a truth file: tab-separated columns ``id_a  id_b  jaccard  …``, plain or packed."""

from __future__ import annotations

from collections.abc import Iterator

from streamfilter.files.lines import lines_of
from streamfilter.quality.run import Truth
from streamfilter.stops import BrokenInput

HEADER = "id_a"
COLUMNS = 3
"""Columns that are read; others (intersection, union) may follow."""


def read_truth(path: str) -> Truth:
    """Return the pairs in the file at *path*; a first line that begins with ``id_a`` is a header.

    Raises:
        Stop: it cannot be read, or is no truth file; the message names the line.
    """
    lines = ((line.source.offset, line.value or b"") for line in lines_of(path))
    return Truth(_pairs(path, lines))


def _pairs(path: str, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[str, str, float]]:
    for number, raw in lines:
        columns = raw.decode("utf-8", "replace").rstrip("\r").split("\t")
        if number == 1 and columns[0] == HEADER:
            continue
        trouble = _trouble(columns)
        if trouble:
            raise BrokenInput(
                f"{path}, line {number}: {trouble}\n    cure: write id_a, id_b and their Jaccard "
                "similarity parted by tabs, such as doc-4<tab>doc-9<tab>0.914"
            )
        yield columns[0], columns[1], float(columns[2])


def _trouble(columns: list[str]) -> str:
    if len(columns) < COLUMNS:
        return f"{len(columns)} column{'s' * (len(columns) > 1)} instead of at least {COLUMNS}"
    if columns[0] == columns[1]:
        return "a pair of an id with itself"
    try:
        similarity = float(columns[2])
    except ValueError:
        return "the third column is no number"
    return "" if 0 <= similarity <= 1 else f"a similarity of {similarity}; it must be 0 to 1"
