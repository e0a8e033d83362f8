"""Families: the tables of a database, those of each window and one that all of them share."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import astuple

META = "meta"
_IDS = "ids-"


class Families(Struct, frozen=True):
    """The names of one window's families."""

    bands: str
    documents: str
    batches: str
    spans: str
    ids: str | None = None  # only if the index can find documents by id

    @classmethod
    def of(cls, number: int, *, ids: bool = False) -> Families:
        """Return those of window *number*; two of the first are older than windows are."""
        marks = f"-{number}" if number else ""
        return cls(
            f"bands-{number}",
            f"documents-{number}",
            f"batches{marks}",
            f"spans{marks}",
            f"{_IDS}{number}" if ids else None,
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in astuple(self) if name is not None)


def families_of(numbers: Iterable[int], *, ids: bool) -> list[str]:
    return [META, *(name for number in numbers for name in Families.of(number, ids=ids).names)]


def keep_ids(names: Iterable[str]) -> bool:
    """Return whether *names* are the families of an index whose documents are found by ids."""
    return any(name.startswith(_IDS) for name in names)
