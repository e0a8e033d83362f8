"""Values: the fields of a record that are compared beside its text.

The configuration names them by pointers (`Scheme.pointers`). Each value becomes a canonical string,
so that two values are equal if and only if their strings are. A number is not equal to the string
of its digits, nor are bytes to that of their hexadecimal digits, but 1 and 1.0 are equal. The order
of an object's keys does not count.

A value is absent, which gives None, if it is missing, null or a blank string. It is also absent if
the way to it leads through something that is not an object. An absent value is no error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from streamfilter.documents.fields.path_lookup import field_at
from streamfilter.documents.fields.pointers import (
    DEPTH,
    EACH,
    Integer,
    Path,
    Unreadable,
    checked_string,
    name_of,
    overlap,
    parse_pointer,
)
from streamfilter.documents.fields.strict_json import check_depth, parse_json
from streamfilter.model import ErrorCode


def value_paths(pointers: Sequence[str], *, beside: Sequence[Path], depth: int) -> list[Path]:
    """Return the paths of *pointers*; none may overlap with *beside*, the others that are read."""
    paths = [parse_pointer(pointer, depth=depth) for pointer in pointers]
    for at, path in enumerate(paths):
        if EACH in path:
            raise ValueError(f"{name_of(path)!r} leads into an array; name a field of an object")
        for other in (*beside, *paths[:at]):
            if path != other and overlap(path, other):
                raise ValueError(
                    f"{name_of(path)!r} (compared beside the text) and {name_of(other)!r} overlap; "
                    "use different fields"
                )
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
