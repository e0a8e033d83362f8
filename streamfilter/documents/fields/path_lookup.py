"""Looks up paths in a decoded value, and leads on into JSON that a string of it holds."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from streamfilter.documents.fields.pointers import (
    EACH,
    Inside,
    Path,
    Unreadable,
    name_of,
    no_object,
    pointer_of,
    string_of,
)
from streamfilter.documents.fields.strict_json import check_depth, parse_json
from streamfilter.model import ErrorCode

MISSING = object()


def opened(value: Any, path: Path, depth: int) -> Any:
    """Return the JSON that the string *value*, at *path*, holds, or raise `Unreadable`."""
    text = string_of(value, path)
    try:
        return _parsed(text, depth)
    except Unreadable as trouble:
        code, message = trouble.reading.code, f"the JSON in {name_of(path)}: "
        raise Unreadable(code, message + trouble.reading.message) from None


@lru_cache(maxsize=1)
def _parsed(text: str, depth: int) -> Any:
    """Return *text* decoded. Text, id and scope of a record are often in one string."""
    check_depth(data := text.encode(), depth)
    return parse_json(data)


def field_at(root: Any, path: Path, *, missing: ErrorCode) -> Any:
    """Return the value at *path*; raise *missing*, or WRONG_TYPE where a step is not an object."""
    here: Any = root
    for level, key in enumerate(path):
        if type(key) is Inside:
            here = opened(here, path[:level], key.depth)
            continue
        if not isinstance(here, dict):
            raise no_object(path[:level], here)
        if key not in here:
            what = f"there is no {pointer_of(path[: level + 1])}"
            if type((*path, "")[level + 1]) is Inside and f"{key}#" in here:
                what += f"; the field {key}# is written {pointer_of((f'{key}#',))}"
            raise Unreadable(missing, what)
        here = here[key]
    return here


def strings_at(root: Any, path: Path, level: int = 0) -> list[str] | None:
    """Return the strings that *path* leads to from *level* on; None if nothing is there.

    A null at the end of *path* gives an empty list, and so does an empty array. An array gives None
    if *path* exists in none of its elements. Other values raise `Unreadable`.
    """
    here = root
    for at in range(level, len(path)):
        if here is None or here is MISSING:
            return None
        key = path[at]
        if type(key) is Inside:
            here = opened(here, path[:at], key.depth)
            continue
        if key == EACH and isinstance(here, list):
            found = [strings_at(each, path, at + 1) for each in here]
            if here and not any(each is not None for each in found):
                return None
            return [text for each in found if each is not None for text in each]
        if not isinstance(here, dict):
            raise no_object(path[:at], here)
        here = here.get(key, MISSING)
    if here is MISSING:
        return None
    return [] if here is None else [string_of(here, path)]


def has_form(root: Any, path: Path) -> bool:
    """Return whether the value holds its JSON as *path* says: as objects, or inside strings."""
    inside, here = _end_of(root, path)
    return not isinstance(here, dict if inside else str)


def ends_at_null(root: Any, path: Path) -> bool:
    """Return whether *path* leads through objects to null before its end."""
    return _end_of(root, path)[1] is None


def _end_of(root: Any, path: Path) -> tuple[bool, Any]:
    """Return the step that leads no further, whether it is `Inside`, and the value before it."""
    here = root
    for level, key in enumerate(path):
        if isinstance(key, Inside) and isinstance(here, str):
            here = opened(here, path[:level], key.depth)
        elif not isinstance(key, Inside) and isinstance(here, dict):
            here = here.get(key, MISSING)
        else:
            return isinstance(key, Inside), here
    return False, MISSING
