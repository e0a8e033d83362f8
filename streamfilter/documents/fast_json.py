"""JSON, the fast way: only what pointers name is decoded, the parser skips every other field.

One text is decoded straight into a struct made from its pointers; several, or texts in arrays, into
objects that hold nothing else. Whatever this refuses goes the slow way, `strict_json`, which is
the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypedDict

import msgspec

from streamfilter.documents.pointers import EACH, Path, Unreadable
from streamfilter.documents.schemas import unframed
from streamfilter.documents.selecting import Fields, TextSelection
from streamfilter.documents.strict_json import check_depth
from streamfilter.model import Headers

FORMATS = {"json": False, "json_schema": True}
"""Those that are JSON, and whether a registry's frame is about it."""
Read = Callable[[bytes], Fields]


Shortcut = Callable[[bytes, Headers], Fields | None]


def shortcut(selection: TextSelection, *, depth: int, framed: bool) -> Shortcut | None:
    """Return what reads text and id, or None for what must go the slow way; None if nothing can.

    What is nested deeper than *depth*, or has no frame though it should be *framed*, raises
    Unreadable.
    """
    read = _fast(selection)
    if read is None:
        return None

    def read_checked(value: bytes, headers: Headers) -> Fields | None:
        if framed:
            value = unframed(value, headers)
        check_depth(value, depth)
        try:
            return read(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Unreadable):
            return None

    return read_checked


def _fast(selection: TextSelection) -> Read | None:
    if () in selection.texts:
        return None
    if len(selection.texts) == 1 and EACH not in selection.texts[0]:
        return _struct_reader(selection.texts[0], selection.id)
    decode = msgspec.json.Decoder(_named(selection.texts, selection.id)).decode
    return lambda value: selection(decode(value))


def _named(texts: Sequence[Path], id_: Path | None) -> Any:
    """Return the type of objects that hold what the pointers name, and nothing else."""
    wanted: list[tuple[Path, Any]] = [(path, str | None) for path in texts]
    if id_ is not None:
        wanted.append((id_, str | int))
    return _object(wanted)


def _object(wanted: Sequence[tuple[Path, Any]]) -> Any:
    if any(path[0] == EACH for path, _ in wanted):
        return Any  # an array, or an object with such a key
    members = {
        key: each[0][1] if each[0][0] == () else _object(each) | None
        for key, each in _by_key(wanted).items()
    }
    return TypedDict("Named", members, total=False)  # type: ignore[operator]


def _by_key(wanted: Sequence[tuple[Path, Any]]) -> Mapping[str, list[tuple[Path, Any]]]:
    groups: dict[str, list[tuple[Path, Any]]] = {}
    for path, type_ in wanted:
        groups.setdefault(path[0], []).append((path[1:], type_))
    return groups


def _struct_reader(text: Path, id_: Path | None) -> Read | None:
    """Return a function from bytes to text and id; None if msgspec cannot name the fields."""
    id_field: list[tuple[Path, Any]] = [] if id_ is None else [(id_, str | int)]
    try:
        decode = msgspec.json.Decoder(_struct([(text, str), *id_field])).decode
    except ValueError:  # msgspec renames to no key with a quote, backslash or control character
        return None
    if id_ is None:
        get_text = attrgetter(_attributes(text))
        return lambda value: (get_text(decode(value)), None)
    get: Callable[[Any], Fields] = attrgetter(_attributes(text), _attributes(id_))
    return lambda value: get(decode(value))


def _struct(fields: Sequence[tuple[Path, Any]]) -> type[msgspec.Struct]:
    """Return a struct that decodes exactly *fields*, nested as their paths say."""
    groups = _by_key(fields)
    return msgspec.defstruct(
        "Fields",
        [
            (_attribute(key), members[0][1] if members[0][0] == () else _struct(members))
            for key, members in groups.items()
        ],
        rename={_attribute(key): key for key in groups},
        gc=False,
    )


def _attribute(key: str) -> str:
    """Return a Python name for any *key*."""
    return "f" + key.encode().hex()


def _attributes(path: Path) -> str:
    return ".".join(map(_attribute, path))
