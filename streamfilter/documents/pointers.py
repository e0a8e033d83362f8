"""JSON Pointers into a decoded value (objects, arrays, strings, numbers) of any format.

A pointer names keys of objects, as in RFC 6901. At an array, the step ``*`` means all of its
elements, in order. No step names a single element, because producers change the order freely. In an
object ``*`` is an ordinary key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from streamfilter.cleaning.lines import without_surrogates
from streamfilter.model import ErrorCode, Malformed

Path = tuple[str, ...]
"""The keys of a JSON Pointer, outermost first; empty: the whole value."""
Tree = Mapping[str, Any]
"""Paths as a tree: key → the tree below it, empty at the end of a path."""

EACH = "*"
"""The step to each element of an array."""
MISSING = object()
WHOLE = "value"
"""A setting with this instead of a pointer means the whole value."""

_ESCAPE = re.compile(r"~([01]?)")
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]*|-")


class Unreadable(Exception):
    """Carries a `Malformed` reading out of nested calls."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.reading = Malformed(code, message)


class Deleted(Unreadable):
    """The path to the text ends at null: the producer marks the document as deleted."""


class Faulty(str):
    """A string that is not valid JSON: an error only if a pointer reads it."""

    __slots__ = ("code", "why")
    code: ErrorCode
    why: str


class Integer(str):
    """The digits of a JSON integer, unconverted: Python refuses more than 4,300 of them."""

    __slots__ = ()


def parse_pointer(pointer: str) -> Path:
    """Return the keys of an RFC 6901 *pointer*, such as ``/body/text``.

    Raises:
        ValueError: it is not a pointer to a field of an object; the message names the cure.
    """
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is no JSON Pointer to a field; write it like '/text'")
    keys = pointer[1:].split("/")
    for key in keys:
        if _ARRAY_INDEX.fullmatch(key):
            raise ValueError(
                f"{pointer!r} points at one element of an array ({key!r}); '*' means all of them"
            )
    return tuple(_ESCAPE.sub(lambda match: _unescape(match[1], pointer), key) for key in keys)


def _unescape(digit: str, pointer: str) -> str:
    if not digit:
        raise ValueError(f"{pointer!r} has a '~' that is neither '~0' (for ~) nor '~1' (for /)")
    return "/" if digit == "1" else "~"


def tree_of(paths: Sequence[Path]) -> Tree:
    """Return *paths* as a tree, outermost keys first."""
    tree: dict[str, Any] = {}
    for path in paths:
        here = tree
        for key in path:
            here = here.setdefault(key, {})
    return tree


def pointer_of(path: Path) -> str:
    """Return *path* as a JSON Pointer."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def name_of(path: Path) -> str:
    """Return the name of the value at *path*, for a message."""
    return pointer_of(path) or "the value"


def overlap(one: Path, other: Path) -> bool:
    """Return whether one of the two paths leads through the other."""
    return one[: len(other)] == other or other[: len(one)] == one


def field_at(root: Any, path: Path, *, missing: ErrorCode) -> Any:
    """Return the value at *path*; raise *missing*, or WRONG_TYPE where a step is not an object."""
    here: Any = root
    for level, key in enumerate(path):
        if not isinstance(here, dict):
            raise no_object(path[:level], here)
        if key not in here:
            raise Unreadable(missing, f"there is no {pointer_of(path[: level + 1])}")
        here = here[key]
    return here


def strings_at(root: Any, path: Path, level: int = 0) -> list[str] | None:
    """Return the strings that *path* leads to from *level* on; None if nothing is there.

    A null at the end of *path* gives an empty list, and so does an empty array. An array gives None
    if *path* exists in none of its elements.

    Raises:
        Unreadable: the value is neither a string nor null.
    """
    here = root
    for at in range(level, len(path)):
        if here is None or here is MISSING:
            return None
        if path[at] == EACH and isinstance(here, list):
            found = [strings_at(each, path, at + 1) for each in here]
            if here and not any(each is not None for each in found):
                return None
            return [text for each in found if each is not None for text in each]
        if not isinstance(here, dict):
            raise no_object(path[:at], here)
        here = here.get(path[at], MISSING)
    if here is MISSING:
        return None
    return [] if here is None else [string_of(here, path)]


def ends_at_null(root: Any, path: Path) -> bool:
    """Return whether *path* leads through objects to null before its end."""
    here = root
    for key in path:
        if not isinstance(here, dict):
            return here is None
        here = here.get(key, MISSING)
    return False


def string_of(found: Any, path: Path) -> str:
    """Return *found*, the value at *path*, if it is a string.

    Raises:
        Unreadable: WRONG_TYPE, or the code of a faulty string.
    """
    if type(found) not in (str, Faulty):
        raise wrong_type(path, found, "a string")
    return checked_string(found, path)


def checked_string(text: str, path: Path) -> str:
    """Return *text* with U+FFFD for each lone surrogate, which UTF-8 cannot encode.

    A producer that cuts a text in the middle of an emoji writes a lone surrogate, as ``\\ud83d``.

    Raises:
        Unreadable: it is a `Faulty` string; carries its code.
    """
    if isinstance(text, Faulty):
        raise Unreadable(text.code, f"{name_of(path)} {text.why}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return without_surrogates(text)
    return text


def no_object(path: Path, value: Any) -> Unreadable:
    """Return the error for a path that leads on through *value*, which is not an object."""
    message = f"{name_of(path)} is {kind(value)}, not an object"
    if path == () and isinstance(value, list):
        message += "; a record is one document, and no batch"
    return Unreadable(ErrorCode.WRONG_TYPE, message)


def wrong_type(path: Path, value: Any, wanted: str) -> Unreadable:
    """Return the error for a *value* at *path* that is not as *wanted*."""
    message = f"{name_of(path)} is {kind(value)}; it must be {wanted}"
    return Unreadable(ErrorCode.WRONG_TYPE, message)


def kind(value: Any) -> str:
    """Return the type of *value*, in JSON's words."""
    names = {bool: "a boolean", Integer: "an integer", int: "an integer", float: "a number",
             str: "a string", Faulty: "a string", list: "an array", dict: "an object",
             bytes: "bytes", type(None): "null"}  # fmt: skip
    return names.get(type(value)) or f"of type {type(value).__name__}"
