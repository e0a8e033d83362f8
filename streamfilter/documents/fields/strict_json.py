"""The strict JSON decoder, by the standard library. It defines the result of the fast decoder.

Rules beyond RFC 8259: a byte order mark is ignored. The last of repeated keys wins. NaN and
Infinity are numbers. Integers of any size stay as digits. A string that is not UTF-8, or has a raw
control character, is an error only if a pointer reads it. Errors are raised as `Unreadable` with a
code of the closed set. Their messages never contain bytes of the value.
"""

import json
import re
from typing import Any

from streamfilter.documents.fields.pointers import Faulty, Integer, Unreadable
from streamfilter.model import ErrorCode

# A string, possibly cut off at the end. The closing quote is optional and the runs are possessive,
# so that no input makes the search backtrack: it would be quadratic.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_TEXT_STRING = re.compile(_STRING.pattern.decode(), re.DOTALL)
_CONTROLS = {code: 0xDC00 + code for code in range(0x20)}
_FAULT = re.compile("[\udc00-\udc1f\udc80-\udcff]")
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


def check_depth(value: bytes, limit: int) -> None:
    """Raise TOO_DEEP if objects and arrays in *value* nest deeper than *limit*.

    Nothing is parsed, so that the depth is checked before any parser runs. Most records have few
    brackets: counting them is enough. The exact check runs only for the others.
    """
    if value.find(b"[") < 0 and value.find(b"{", value.find(b"{") + 1) < 0:
        return
    if value.count(b"[") + value.count(b"{") <= limit:
        return
    if _deeper_than(limit, value):
        raise Unreadable(ErrorCode.TOO_DEEP, f"nested deeper than {limit} levels (limits.depth)")


def _deeper_than(limit: int, value: bytes) -> bool:
    """Remove the innermost pairs *limit* times; a remaining bracket was deeper."""
    brackets = _STRING.sub(b"", value).translate(_SQUARE, _NOT_BRACKETS)
    for _ in range(limit):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    return b"[]" in brackets or brackets.count(b"[") > limit


def decode_utf8(value: bytes, what: str = "") -> str:
    """Return *value* as text, or raise BAD_UTF8 with a message that begins with *what*."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        message = f"{what}not UTF-8 at byte {error.start}"
    raise Unreadable(ErrorCode.BAD_UTF8, message)


def parse_json(value: bytes) -> Any:
    """Return *value* decoded, or raise `Unreadable`; its depth must have been checked."""
    try:
        return _parsed(decode_utf8(value))
    except Unreadable as trouble:
        first = trouble
    # Each error in a string becomes a lone surrogate, by which the string is found later: a bad
    # byte becomes U+DC80 and up (`surrogateescape`), a control character U+DC00 and up.
    text = value.decode(errors="surrogateescape")
    try:
        marked = _TEXT_STRING.sub(lambda string: string[0].translate(_CONTROLS), text)
        return _marked(_parsed(marked))
    except Unreadable:
        raise first from None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"), parse_constant=float, parse_int=Integer)
    except json.JSONDecodeError as error:
        message = f"{error.msg.removesuffix(' at')} at character {error.pos}"
    raise Unreadable(ErrorCode.INVALID_JSON, message)


def _marked(root: Any) -> Any:
    """Return *root* with each string that is not valid JSON replaced by a `Faulty`."""
    if isinstance(root, dict):
        return {key: _marked(each) for key, each in root.items()}
    if isinstance(root, list):
        return [_marked(each) for each in root]
    if type(root) is not str or (fault := _FAULT.search(root)) is None:
        return root
    faulty = Faulty(root)
    if fault[0] < "\udc80":
        faulty.code, faulty.why = ErrorCode.INVALID_JSON, "has a raw control character"
    else:
        faulty.code, faulty.why = ErrorCode.BAD_UTF8, "is not UTF-8"
    return faulty
