"""Values: the fields of a record that are compared beside its text.

The configuration names them by pointers (`Scheme.pointers`). Each value becomes a canonical string,
so that two values are equal if and only if their strings are. A number is not equal to the string
of its digits, nor are bytes to that of their hexadecimal digits, but 1 and 1.0 are equal. The order
of an object's keys does not count.

A value is absent, which gives None, if it is missing, null or a blank string. It is also absent if
the way to it leads through something that is not an object. An absent value is no error.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from streamfilter.documents.fields.pointers import (
    DEPTH,
    EACH,
    Inside,
    Integer,
    Path,
    Unreadable,
    checked_string,
    name_of,
    no_object,
    parse_pointer,
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


def value_paths(pointers: Sequence[str], *, depth: int) -> list[Path]:
    """Return the paths of *pointers*, each to one field."""
    paths = [parse_pointer(pointer, depth=depth) for pointer in pointers]
    for path in paths:
        if EACH in path:
            raise ValueError(f"{name_of(path)!r} leads into an array; name a field of an object")
    return paths


def value_at(root: Any, path: Path) -> Any:
    """Return the value at *path* as decoded, None if there is none."""
    try:
        return field_at(root, path, missing=ErrorCode.MISSING_TEXT)
    except Unreadable:
        return None


def canonical(value: Any, path: Path) -> str | None:
    """Return a decoded value as its canonical string, None if it is absent."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return _written(value, path)


def written_value(text: str) -> str | None:
    """Return the canonical string of a value that a person, or a header, has written.

    It is JSON (``7``, ``null``), or the plain string itself (``north``).
    """
    written = text.encode("utf-8", "surrogatepass")
    try:
        check_depth(written, DEPTH)
        return canonical(parse_json(written), ())
    except Unreadable:
        return canonical(text, ())


def _written(value: Any, path: Path) -> str:
    match value:
        case None | bool():
            return json.dumps(value)
        case Integer():
            return "0" if value == "-0" else str(value)
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case dict():
            items = ((json.dumps(str(key)), each) for key, each in value.items())
            pairs = sorted(f"{key}:{_written(each, path)}" for key, each in items)
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(_written(each, path) for each in value)}]"
        case str():
            return json.dumps(checked_string(value, path), ensure_ascii=False)
        case bytes():
            return f"bytes {value.hex()}"  # without quotes: no string is equal to it
    return json.dumps(str(value))
