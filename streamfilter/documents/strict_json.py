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

from streamfilter.documents.pointers import Integer, Unreadable
from streamfilter.model import ErrorCode

# A string, or what is left of one at the end: the closing quote is optional and the runs are
# possessive, so that no input makes the search start over (it would be quadratic).
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


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


def decode_utf8(value: bytes, what: str = "") -> str:
    """Return *value* as text, or raise BAD_UTF8, with a message that begins with *what* it is."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        message = f"{what}not UTF-8 at byte {error.start}"
    raise Unreadable(ErrorCode.BAD_UTF8, message)


def parse_json(value: bytes) -> Any:
    """Return what is in *value*; its depth must have been checked.

    Raises:
        Unreadable: BAD_UTF8 or INVALID_JSON.
    """
    text = decode_utf8(value).removeprefix("\ufeff")
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_int=Integer)
    except json.JSONDecodeError as error:
        message = f"{error.msg} at character {error.pos}"
    raise Unreadable(ErrorCode.INVALID_JSON, message)


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(ErrorCode.INVALID_JSON, f"{name} is not JSON")
