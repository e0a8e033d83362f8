"""Columns: checks that a file has the columns that pointers name, and words the error."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from streamfilter.documents.fields.pointers import Path, pointer_of
from streamfilter.documents.reader import Reader
from streamfilter.stops import BrokenInput

SHOWN_MAX = 12  # most columns that a message lists


def lacks(columns: Sequence[str], needed: Sequence[Sequence[Path]]) -> Sequence[Path] | None:
    """Return the first group of *needed* paths that has no path in *columns*, None if all have."""
    return next(
        (group for group in needed if not any(path and path[0] in columns for path in group)), None
    )


def check_columns(path: str, columns: Sequence[str], reader: Reader) -> None:
    """Raise `BrokenInput` if the *columns* of the file at *path* do not fit *reader*."""
    missing = lacks(columns, reader.needed)
    if missing is not None:
        raise BrokenInput(_missing(path, columns, missing))
    for key in {each[0] for each in reader.paths}:
        if columns.count(key) > 1:
            raise BrokenInput(
                f"{path} has {columns.count(key)} columns named {key!r}\n"
                "    cure: name one of them otherwise"
            )


def _missing(path: str, columns: Sequence[str], missing: Sequence[Path]) -> str:
    named = [each[0] if each else "the whole row" for each in missing]
    near = [each for name in named for each in get_close_matches(name, columns, cutoff=0.5)]
    guess = pointer_of((near[0] if near else columns[0] if columns else "body",))
    shown = ", ".join(columns[:SHOWN_MAX]) + (", …" if len(columns) > SHOWN_MAX else "")
    return (
        f"{path} has no column {' or '.join(named)}; it has {shown or 'none'}\n"
        f"    cure: name the columns of text and id that it has, such as --text {guess}, and "
        "--id none where there is no id"
    )
