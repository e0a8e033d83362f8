"""JSON read by the standard library alone: the definition that the fast decoder is held to.

What counts as JSON, beyond RFC 8259: UTF-8 throughout; a byte order mark is ignored; the last
of repeated keys wins; NaN and Infinity are invalid; numbers of any size are left as digits; an
escaped lone surrogate is an error where it is read, and nothing where it is not. Trouble rises
as `Unreadable` with a code of the closed set; its message never repeats what the bytes said.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from streamfilter.model import ErrorCode, Malformed

Path = tuple[str, ...]
"""The keys that a JSON Pointer names, outermost first."""

# A string, or what is left of one at the end: the closing quote is optional and the runs are
# possessive, so that no input makes the search start over (it would be quadratic).
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_ESCAPE = re.compile(r"~([01]?)")
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]*|-")


class Unreadable(Exception):
    """Carries a `Malformed` reading out of nested calls."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.reading = Malformed(code, message)


class Integer(str):
    """The digits of a JSON integer, unconverted: Python refuses more than 4,300 of them."""

    __slots__ = ()


def parse_pointer(pointer: str) -> Path:
    """Return the keys of an RFC 6901 *pointer*, such as ``/body/text``.

    Raises:
        ValueError: if it is no pointer to a field of an object; the message names the cure.
    """
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is no JSON Pointer to a field; write it like '/text'")
    keys = pointer[1:].split("/")
    for key in keys:
        if _ARRAY_INDEX.fullmatch(key):
            raise ValueError(
                f"{pointer!r} points into an array ({key!r}); only fields of objects can be read"
            )
    return tuple(_ESCAPE.sub(lambda match: _unescape(match[1], pointer), key) for key in keys)


def _unescape(digit: str, pointer: str) -> str:
    if not digit:
        raise ValueError(f"{pointer!r} has a '~' that is neither '~0' (for ~) nor '~1' (for /)")
    return "/" if digit == "1" else "~"


def check_depth(value: bytes, limit: int) -> None:
    """Raise TOO_DEEP if objects and arrays in *value* nest deeper than *limit*.

    Nothing is parsed, so that no parser meets the depth first. Most records are flat or have
    few brackets; only the others pay for the exact answer.
    """
    if value.find(b"[") < 0 and value.find(b"{", value.find(b"{") + 1) < 0:
        return
    if value.count(b"[") + value.count(b"{") <= limit:
        return
    if _deeper_than(limit, value):
        raise Unreadable(ErrorCode.TOO_DEEP, f"nested deeper than {limit} levels")


def _deeper_than(limit: int, value: bytes) -> bool:
    """Take away the innermost pairs *limit* times: what is still nested was deeper."""
    brackets = _STRING.sub(b"", value).translate(_SQUARE, _NOT_BRACKETS)
    for _ in range(limit):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    return b"[]" in brackets or brackets.count(b"[") > limit


def decode_utf8(value: bytes) -> str:
    """Return *value* as text, or raise BAD_UTF8."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        message = f"not UTF-8 at byte {error.start}"
    raise Unreadable(ErrorCode.BAD_UTF8, message)


def parse_object(value: bytes) -> dict[str, Any]:
    """Return the JSON object in *value*; its depth must have been checked.

    Raises:
        Unreadable: BAD_UTF8, INVALID_JSON, or WRONG_TYPE if it is no object.
    """
    text = decode_utf8(value).removeprefix("\ufeff")
    try:
        root = json.loads(text, parse_constant=_refuse_constant, parse_int=Integer)
    except json.JSONDecodeError as error:
        message = f"{error.msg} at character {error.pos}"
    else:
        if isinstance(root, dict):
            return root
        raise Unreadable(ErrorCode.WRONG_TYPE, f"the value is {kind(root)}, not an object")
    raise Unreadable(ErrorCode.INVALID_JSON, message)


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(ErrorCode.INVALID_JSON, f"{name} is not JSON")


def field_at(root: dict[str, Any], path: Path, *, missing: ErrorCode) -> Any:
    """Return what *path* leads to, or raise *missing*, or WRONG_TYPE on a way through no object."""
    here: Any = root
    for level, key in enumerate(path):
        if not isinstance(here, dict):
            raise Unreadable(
                ErrorCode.WRONG_TYPE, f"{pointer_of(path[:level])} is {kind(here)}, not an object"
            )
        if key not in here:
            raise Unreadable(missing, f"there is no {pointer_of(path[: level + 1])}")
        here = here[key]
    return here


def checked_string(text: str, path: Path) -> str:
    """Return *text*, or raise BAD_UTF8 if it has a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        message = f"{pointer_of(path)} has a lone surrogate"
    else:
        return text
    raise Unreadable(ErrorCode.BAD_UTF8, message)


def pointer_of(path: Path) -> str:
    """Return *path* as a JSON Pointer."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def kind(value: Any) -> str:
    """Return what *value* is, in JSON's words."""
    names = {bool: "a boolean", Integer: "an integer", float: "a number", str: "a string",
             list: "an array", dict: "an object"}  # fmt: skip
    return names.get(type(value), "null")
