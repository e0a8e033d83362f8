"""JSON Pointers into a decoded value (objects, arrays, strings, numbers) of any format.

A pointer names keys of objects, as in RFC 6901. At an array, the step ``*`` means all of its
elements, in order. No step names a single element, because producers change the order freely. In an
object ``*`` is an ordinary key.

A string may hold JSON. A name followed by ``#/`` leads into it: ``/after#/text`` is the field
``text`` of the JSON in the string at ``/after``. ``~2`` is a ``#`` in a name: ``/a~2/b`` is the
field ``b`` of the object ``a#``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from streamfilter.cleaning.lines import without_surrogates
from streamfilter.model import ErrorCode, Malformed

Path = tuple[str, ...]  # the keys of a JSON Pointer, outermost first; empty: the whole value
Tree = Mapping[str, Any]  # paths as a tree: key → the tree below it, empty at the end of a path
DEPTH = 64  # how deep objects and arrays may nest, where no setting says another number
EACH = "*"  # the step to each element of an array
WHOLE = "value"  # a setting with this instead of a pointer means the whole value

_ESCAPE = re.compile(r"~([012])")
_ESCAPED = {"0": "~", "1": "/", "2": "#"}
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


class Inside(str):
    """The step into JSON that a string holds. It equals no key, and nests to its own *depth*."""

    __slots__ = ("depth",)
    depth: int

    @classmethod
    def of(cls, depth: int) -> Inside:
        """Return the step into JSON that nests *depth* levels at most."""
        step = cls("\udfff#")
        step.depth = depth
        return step


def parse_pointer(pointer: str, *, depth: int = DEPTH) -> Path:
    """Return the keys of an RFC 6901 *pointer*; JSON in a string may nest *depth* levels."""
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is no JSON Pointer to a field; write it like '/text'")
    *outer, last = pointer[1:].split("/")
    path: list[str] = []
    for key in outer:
        opens = len(key) > 1 and key.endswith("#")
        path.append(_key_of(key.removesuffix("#") if opens else key, pointer))
        if opens:
            path.append(Inside.of(depth))
    return (*path, _key_of(last, pointer))


def _key_of(step: str, pointer: str) -> str:
    if _ARRAY_INDEX.fullmatch(step):
        raise ValueError(
            f"{pointer!r} points at one element of an array ({step!r}); '*' means all of them"
        )
    if re.search(r"~(?![012])", step):
        raise ValueError(
            f"{pointer!r} has a '~' that is none of '~0' (for ~), '~1' (for /) and '~2' (for #)"
        )
    return _ESCAPE.sub(lambda match: _ESCAPED[match[1]], step)


def outer(path: Path) -> Path:
    """Return *path* as far as the first string that holds JSON."""
    return path[: next((at for at, key in enumerate(path) if type(key) is Inside), len(path))]


def tree_of(paths: Sequence[Path]) -> Tree:
    """Return *paths* as a tree, outermost keys first. It ends at strings that hold JSON."""
    tree: dict[str, Any] = {}
    for path in paths:
        here = tree
        for key in outer(path):
            here = here.setdefault(key, {})
    return tree


def pointer_of(path: Path) -> str:
    steps = [key.replace("~", "~0").replace("/", "~1") for key in path]
    named = [key[:-1] + "~2" if len(key) > 1 and key.endswith("#") else key for key in steps]
    return "".join(
        "#" if type(key) is Inside else f"/{name}" for key, name in zip(path, named, strict=True)
    )


def name_of(path: Path) -> str:
    return pointer_of(path) or "the value"


def string_of(found: Any, path: Path) -> str:
    """Return *found*, the value at *path*, if it is a valid string, or raise `Unreadable`."""
    if type(found) not in (str, Faulty):
        raise wrong_type(path, found, "a string")
    return checked_string(found, path)


def checked_string(text: str, path: Path) -> str:
    """Return *text* with U+FFFD for each lone surrogate; raise `Unreadable` if it is `Faulty`.

    A producer that cuts a text in the middle of an emoji writes a lone surrogate, as ``\\ud83d``.
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
    message = f"{name_of(path)} is {kind(value)}; it must be {wanted}"
    return Unreadable(ErrorCode.WRONG_TYPE, message)


def kind(value: Any) -> str:
    """Return the type of *value*, in JSON's words."""
    names = {bool: "a boolean", Integer: "an integer", int: "an integer", float: "a number",
             str: "a string", Faulty: "a string", list: "an array", dict: "an object",
             bytes: "bytes", type(None): "null"}  # fmt: skip
    return names.get(type(value)) or f"of type {type(value).__name__}"
