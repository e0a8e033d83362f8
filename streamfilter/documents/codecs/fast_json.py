"""The fast JSON decoder: it decodes only the fields that pointers name and skips the others.

A single text is decoded into a struct made from the pointers. Several texts, or texts in arrays
or in JSON that a string holds, are decoded into objects with no other fields. A value that this
decoder rejects is decoded again by `strict_json`, which defines the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypedDict

import msgspec
from msgspec import Struct

from streamfilter.documents.codecs.schemas import unframed
from streamfilter.documents.fields.pointers import EACH, Path, Unreadable, outer
from streamfilter.documents.fields.selecting import TextSelection
from streamfilter.documents.fields.strict_json import check_depth
from streamfilter.documents.fields.values import value_at
from streamfilter.model import Headers

FORMATS = {"json": False, "json_schema": True}  # JSON → whether it has a registry's frame
Found = tuple[Any, ...]  # text, id and then the values beside the text, as decoded
Read = Callable[[bytes], Found]
SCALAR = str | int | None  # values that are decoded here; `strict_json` decodes the others


class Shortcut(Struct, frozen=True):
    """Reads text, id and values beside the text, if `strict_json` is not needed for that."""

    read: Read
    depth: int
    framed: bool

    def __call__(self, value: bytes, headers: Headers) -> Found | None:
        """Return what is in *value*; None: `strict_json` must decode it.

        Raises `Unreadable` for a value nested deeper than allowed, or one without its frame.
        """
        if self.framed:
            value = unframed(value, headers)
        check_depth(value, self.depth)
        try:
            return self.read(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, Unreadable):
            return None
        except AttributeError:  # an object on the way to a value is null
            return None

    def all(self, values: Sequence[bytes]) -> list[Found] | None:
        """Return what is in *values* without frames; None: each must be read by itself."""
        try:
            found = [*map(self.read, values)]
            # Each has a bracket, so no value has more than this many.
            most = sum(map(b"".join(values).count, (b"{", b"["))) - len(values) + 1
            if most > self.depth:
                for value in values:
                    check_depth(value, self.depth)
        except MemoryError:
            raise
        except Exception:  # whichever value it is: read by itself, it says so
            return None
        return found


def shortcut(
    selection: TextSelection, values: Sequence[Path], *, depth: int, framed: bool
) -> Shortcut | None:
    """Return what reads text, id and *values* of JSON; None if there is no fast way."""
    read = _fast(selection, values)
    return None if read is None else Shortcut(read, depth, framed)


def _fast(selection: TextSelection, values: Sequence[Path]) -> Read | None:
    if () in selection.texts:
        return None
    nested = any(outer(path) != path for path in (*selection.paths, *values))
    if len(selection.texts) == 1 and EACH not in selection.texts[0] and not nested:
        return _struct_reader(selection.texts[0], selection.id, values)
    decode = msgspec.json.Decoder(_named(selection.texts, selection.id, values)).decode
    if not values:
        return lambda value: selection(decode(value))

    def read(value: bytes) -> Found:
        root = decode(value)
        return (*selection(root), *(value_at(root, path) for path in values))

    return read


def _named(texts: Sequence[Path], id_: Path | None, values: Sequence[Path]) -> Any:
    """Return a type of objects with the fields that the pointers name, and no others."""
    wanted: list[tuple[Path, Any]] = [(outer(path), str | None) for path in texts]
    if id_ is not None:
        wanted.append((outer(id_), str | int))
    return _object([*wanted, *((outer(path), SCALAR) for path in values)])


def _object(wanted: Sequence[tuple[Path, Any]]) -> Any:
    if any(path[0] == EACH for path, _ in wanted):
        return Any  # an array, or an object with such a key
    members = {}
    for key, each in _by_key(wanted).items():
        leaf = next((type_ for path, type_ in each if path == ()), None)
        members[key] = leaf or _object(each) | None
    return TypedDict("Named", members, total=False)  # type: ignore[operator]


def _by_key(wanted: Sequence[tuple[Path, Any]]) -> Mapping[str, list[tuple[Path, Any]]]:
    groups: dict[str, list[tuple[Path, Any]]] = {}
    for path, type_ in wanted:
        groups.setdefault(path[0], []).append((path[1:], type_))
    return groups


def _struct_reader(text: Path, id_: Path | None, values: Sequence[Path]) -> Read | None:
    """Return a function from bytes to text, id and *values*; None: msgspec cannot name them."""
    fields: list[tuple[Path, Any]] = [(text, str)]
    fields += [] if id_ is None else [(id_, str | int)]
    fields += [(path, SCALAR) for path in values]
    try:
        decode = msgspec.json.Decoder(_struct(fields)).decode
    except ValueError:  # msgspec: a key has a quote, backslash or control character
        return None
    names = map(_attributes, values)
    if id_ is None and not values:
        get_text = attrgetter(_attributes(text))
        return lambda value: (get_text(decode(value)), None)
    if id_ is None:
        get_all: Callable[[Any], Found] = attrgetter(_attributes(text), *names)

        def read(value: bytes) -> Found:
            found, *others = get_all(decode(value))
            return (found, None, *others)

        return read
    get: Callable[[Any], Found] = attrgetter(_attributes(text), _attributes(id_), *names)
    return lambda value: get(decode(value))


def _struct(fields: Sequence[tuple[Path, Any]]) -> type[msgspec.Struct]:
    """Return a struct of *fields*, nested like their paths; those of `SCALAR` may be absent."""
    groups = _by_key(fields)
    typed = [
        (_attribute(key), members[0][1] if members[0][0] == () else _struct(members), members)
        for key, members in groups.items()
    ]
    needed = [(name, type_) for name, type_, each in typed if not _may_lack(each)]
    others = [(name, type_ | None, None) for name, type_, each in typed if _may_lack(each)]
    return msgspec.defstruct(
        "Fields", [*needed, *others], rename={_attribute(key): key for key in groups}, gc=False
    )


def _may_lack(members: Sequence[tuple[Path, Any]]) -> bool:
    return all(type_ == SCALAR for _, type_ in members)


def _attribute(key: str) -> str:
    """Return a Python name for any *key*."""
    return "f" + key.encode().hex()


def _attributes(path: Path) -> str:
    return ".".join(map(_attribute, path))
