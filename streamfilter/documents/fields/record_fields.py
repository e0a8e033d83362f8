"""Reads a record's fields: from a decoded object to the joined record that is sketched.

A field may be a text or a number. A field that is missing, null, NaN or infinite is empty. A field
that is an object or a list makes the record a dead letter. The held-out field becomes a number: a
date or a time is converted to days. A held-out field that cannot be read counts as missing, because
it decides nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite, nan
from typing import Any

from streamfilter.documents.fields.pointers import (
    DEPTH,
    Path,
    Unreadable,
    checked_string,
    parse_pointer,
    wrong_type,
)
from streamfilter.documents.fields.selecting import Fields, id_at
from streamfilter.documents.fields.values import field_at
from streamfilter.entities.joined import join_fields, pointers_of
from streamfilter.model import ErrorCode

SECONDS_OF_DAY = 86_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HELD_OUT_MAX = 1e20  # a number beyond this is unknown: it would spoil the pools' sums


class FieldsReader:
    """Takes a record's fields and its id out of a decoded object."""

    def __init__(
        self,
        pointers: Sequence[str],
        *,
        id_pointer: str | None,
        held_out: str | None = None,
        depth: int = DEPTH,
    ) -> None:
        """Prepare to read *pointers*, in this order. JSON in strings nests to *depth*."""
        if not pointers:
            raise ValueError("format fields needs input.fields, such as /name: words")
        self._paths = [
            [parse_pointer(pointer, depth=depth) for pointer in pointers_of(field)]
            for field in pointers
        ]
        fields = [path for paths in self._paths for path in paths]
        self.id = None if id_pointer is None else parse_pointer(id_pointer, depth=depth)
        self._held_out = None if held_out is None else parse_pointer(held_out, depth=depth)
        others = (self.id, self._held_out)
        self.paths = [*fields, *(path for path in others if path is not None)]
        """All paths that are read in a value."""
        self.needed = [fields, *([] if self.id is None else [[self.id]])]
        """Groups of these: a document needs at least one path of each group."""

    def __call__(self, root: Any) -> Fields:
        """Return the joined record (blank without any field) and its id, or raise `Unreadable`."""
        values = [" ".join(_values(root, paths)) for paths in self._paths]
        id_ = None if self.id is None else id_at(root, self.id)
        if not any(value.strip() for value in values):
            return join_fields([""] * len(values)), id_
        held_out = "" if self._held_out is None else _number(root, self._held_out)
        return join_fields(values, held_out), id_


def _found(root: Any, path: Path) -> Any:
    try:
        return field_at(root, path, missing=ErrorCode.MISSING_TEXT)
    except Unreadable as trouble:
        if trouble.reading.code is ErrorCode.MISSING_TEXT:
            return None
        raise


def _values(root: Any, paths: Sequence[Path]) -> Iterator[str]:
    """Yield the values at *paths*, without absent ones if there are several."""
    for path in paths:
        value = _value(root, path)
        if value or len(paths) == 1:
            yield value


def _value(root: Any, path: Path) -> str:
    found = _found(root, path)
    if found is None or (isinstance(found, float) and not isfinite(found)):
        return ""
    if isinstance(found, Mapping | list | bool):
        raise wrong_type(path, found, "a string, a number or null")
    return checked_string(found if isinstance(found, str) else str(found), path)


def _number(root: Any, path: Path) -> str:
    """Return the held-out field as the digits of a number, "" if it is not one."""
    found = _found(root, path)
    if found is None or isinstance(found, Mapping | list | bool):
        return ""
    text = str(found)
    try:
        number = float(text)
    except ValueError:
        number = _days(text)
    return repr(number) if abs(number) <= HELD_OUT_MAX else ""


def _days(text: str) -> float:
    """Return a date or time as days since 1970, NaN if it is not one."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return nan
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (zoned - EPOCH).total_seconds() / SECONDS_OF_DAY
