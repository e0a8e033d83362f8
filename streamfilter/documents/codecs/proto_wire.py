"""Protobuf's wire format: compiles a message type to a function that decodes only named fields.

The type is compiled once into a table of steps, by the tags that stand before fields on the wire.
A field without a pointer is skipped by its length, unchecked. Unknown fields are skipped the same
way, as any reader of an older schema does. A named field is checked: bytes of another type, a
length beyond the end and a string that is not UTF-8 make the value broken. The cost is linear in
the number of bytes, and recursion is only as deep as the pointers.

A field that is not on the wire stays absent if the schema distinguishes that (``optional``, a
member of a oneof, a message). Otherwise it has its type's default. A pointer may use the schema's
name or JSON's (``seen_at`` or ``seenAt``). Enums become their names, and maps become objects.
Well-known types are messages like any others.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from streamfilter.documents.codecs.proto_schema import EnumType, Field, MessageType, Type, Types
from streamfilter.documents.codecs.schemas import Broken
from streamfilter.documents.codecs.varints import varint, zigzag
from streamfilter.documents.fields.pointers import EACH, Tree

Value = Callable[[bytes, int, int], tuple[Any, int]]
"""(bytes, offset, end of what it may read) → (value, next offset)."""
Step = Callable[[bytes, int, int, dict[str, Any]], int]
"""The same, but it stores the value in the message (the last argument)."""

VARINT, EIGHT, LENGTH, GROUP, GROUP_END, FOUR = range(6)
"""Wire types: the lower three bits of a tag, which give the form of the bytes after it."""
GROUPS_MAX = 100
_BITS_32 = (1 << 32) - 1


class MessageReader(Struct, frozen=True):
    """The two functions that decode a message, as far as pointers lead into it."""

    new: Callable[[], dict[str, Any]]  # returns the message that zero bytes encode: its defaults
    fill: Callable[[bytes, int, int, dict[str, Any]], None]
    """Adds the fields between two offsets; a message that occurs twice is merged."""


def message_reader(types: Types, message: Type | None, tree: Tree) -> MessageReader:
    """Return the reader of the fields of *message* that *tree* names, or raise `Broken`."""
    if not isinstance(message, MessageType):
        raise Broken("the schema has no such message")
    steps: dict[int, Step] = {}
    defaults: dict[str, Any] = {}
    fresh: dict[str, Callable[[], Any]] = {}
    named = {each.name for each in message.fields}
    keys = {
        each.number: each.name if each.name in tree else each.json_name
        for each in message.fields
        if each.name in tree or (each.json_name in tree and each.json_name not in named)
    }
    for each in message.fields:
        if each.number not in keys:
            continue
        key = keys[each.number]
        meant = _meant(types, message, each)
        if each.map_key is not None:
            fresh[key] = dict
            steps[each.number << 3 | LENGTH] = _map_step(types, message, each, key, tree[key])
        elif each.repeated:
            fresh[key] = list
            if EACH in tree[key]:
                steps |= _repeated_steps(types, each, meant, key, tree[key][EACH])
        else:
            if not each.explicit and not isinstance(meant, MessageType):
                defaults[key] = _default(each, meant)
            steps |= _single_steps(types, each, meant, key, tree[key])
    _one_at_a_time(message, keys, steps)

    def new() -> dict[str, Any]:
        found = defaults.copy()
        for key, make in fresh.items():
            found[key] = make()
        return found

    return MessageReader(new, _filler(steps))


def _filler(steps: Mapping[int, Step]) -> Callable[[bytes, int, int, dict[str, Any]], None]:
    numbers = {tag >> 3 for tag in steps}

    def fill(data: bytes, at: int, end: int, found: dict[str, Any]) -> None:
        while at < end:
            tag = data[at]
            at += 1
            if tag > 127:
                tag, at = varint(data, at - 1)
            step = steps.get(tag)
            if step is not None:
                at = step(data, at, end, found)
            elif tag >> 3 in numbers:
                raise Broken(f"field {tag >> 3} is not of the type that the schema says")
            elif tag & 7 == LENGTH and tag > 7 and data[at] < 128:
                at += data[at] + 1  # the most frequent case: a short skipped field
            else:
                at = _passed(data, at, end, tag)
        if at > end:
            raise Broken("a length beyond the end")

    return fill


def _one_at_a_time(message: MessageType, keys: Mapping[int, str], steps: dict[int, Step]) -> None:
    """Let each member of a oneof, named by a pointer or not, remove the other members."""
    named = [each for each in message.fields if each.oneof is not None and each.number in keys]
    for each in message.fields:
        others = [it.number for it in named if it.oneof == each.oneof and it.number != each.number]
        rivals = [keys[number] for number in others]
        if not rivals:
            continue
        if each.number in keys:
            for tag in [tag for tag in steps if tag >> 3 == each.number]:
                steps[tag] = _alone(steps[tag], rivals)
        else:
            for wire in (VARINT, EIGHT, LENGTH, GROUP, FOUR):
                steps[each.number << 3 | wire] = _alone(_passer(each.number << 3 | wire), rivals)


def _alone(step: Step, rivals: Sequence[str]) -> Step:
    def alone(data: bytes, at: int, end: int, found: dict[str, Any]) -> int:
        for key in rivals:
            found.pop(key, None)
        return step(data, at, end, found)

    return alone


def _passer(tag: int) -> Step:
    return lambda data, at, end, _: _passed(data, at, end, tag)


def _meant(types: Types, message: MessageType, field: Field) -> Type | None:
    """Return the message or enum that a field's type names, None for a scalar."""
    if field.type in _SCALARS:
        return None
    if field.type == "group":
        raise Broken(f"field {field.name} is a group, and groups are not read")
    found = types.find(field.type, message.name)
    if found is None:
        what = f"field {field.name} is of type {field.type}, which neither the schema has"
        raise Broken(f"{what} nor what came with it")
    return found


def _value_of(types: Types, type_: str, meant: Type | None, tree: Tree) -> tuple[int, Value]:
    """Return the wire type of a value, and the function that reads it."""
    if meant is None:
        return _SCALARS[type_]
    if isinstance(meant, EnumType):
        return VARINT, _enum_value(meant)
    return LENGTH, _message_value(message_reader(types, meant, tree))


def _single_steps(
    types: Types, field: Field, meant: Type | None, key: str, tree: Tree
) -> dict[int, Step]:
    if isinstance(meant, MessageType):
        return {field.number << 3 | LENGTH: _merging(message_reader(types, meant, tree), key)}
    wire, value = _value_of(types, field.type, meant, tree)

    def step(data: bytes, at: int, end: int, found: dict[str, Any]) -> int:
        found[key], at = value(data, at, end)
        return at

    def text_step(data: bytes, at: int, end: int, found: dict[str, Any]) -> int:
        at, stop = _bounds(data, at, end)
        found[key] = data[at:stop].decode()
        return stop

    if value is _string:  # the same, with one call less for each text
        step = text_step
    return {field.number << 3 | wire: step}


def _merging(reader: MessageReader, key: str) -> Step:
    def step(data: bytes, at: int, end: int, found: dict[str, Any]) -> int:
        at, stop = _bounds(data, at, end)
        message = found.get(key)
        if message is None:
            message = found[key] = reader.new()
        reader.fill(data, at, stop, message)
        return stop

    return step


def _repeated_steps(
    types: Types, field: Field, meant: Type | None, key: str, tree: Tree
) -> dict[int, Step]:
    """Accept numbers one by one or packed, whatever the schema says."""
    wire, value = _value_of(types, field.type, meant, tree)

    def alone(data: bytes, at: int, end: int, found: dict[str, Any]) -> int:
        each, at = value(data, at, end)
        found[key].append(each)
        return at

    def packed(data: bytes, at: int, end: int, found: dict[str, Any]) -> int:
        at, stop = _bounds(data, at, end)
        while at < stop:
            each, at = value(data, at, stop)
            found[key].append(each)
        if at > stop:
            raise Broken("a length beyond the end")
        return at

    first = {} if wire == LENGTH else {field.number << 3 | LENGTH: packed}
    return first | {field.number << 3 | wire: alone}


def _map_step(types: Types, message: MessageType, field: Field, key: str, tree: Tree) -> Step:
    """Return the step that keeps a map's entries with named keys; the last entry of a key wins.

    Of other entries only the key is read, as bytes: neither key nor value need be valid UTF-8.
    """
    text = field.map_key == "string"
    entry = MessageType(
        message.name,
        [
            Field("key", 1, "bytes" if text else field.map_key or "", "key"),
            Field("value", 2, field.type, "value"),
        ],
    )
    below = _merged(tree.values())
    keys = message_reader(types, entry, {"key": {}})
    values = message_reader(types, entry, {"value": below})
    meant = _meant(types, message, field)
    absent = message_reader(types, meant, below).new if isinstance(meant, MessageType) else dict
    wanted = {name.encode() if text else name: name for name in tree}
    spelled = bytes if text else json.dumps if field.map_key == "bool" else str

    def step(data: bytes, at: int, end: int, found: dict[str, Any]) -> int:
        at, stop = _bounds(data, at, end)
        one = keys.new()
        keys.fill(data, at, stop, one)
        name = wanted.get(spelled(one["key"]))
        if name is not None:
            one = values.new()
            values.fill(data, at, stop, one)
            found[key][name] = one["value"] if "value" in one else absent()
        return stop

    return step


def _merged(trees: Iterable[Tree]) -> Tree:
    merged: dict[str, Any] = {}
    for tree in trees:
        for key, below in tree.items():
            merged[key] = _merged([merged.get(key, {}), below])
    return merged


def _default(field: Field, meant: Type | None) -> Any:
    if isinstance(meant, EnumType):
        return meant.symbols.get(0) or next(iter(meant.symbols.values()), 0)
    return {"string": "", "bytes": b"", "bool": False, "double": 0.0, "float": 0.0}.get(
        field.type, 0
    )


def _bounds(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return where the content of the length-prefixed field at *at* begins and ends."""
    size = data[at]
    at += 1
    if size > 127:
        size, at = varint(data, at - 1)
    stop = at + size
    if stop > end:
        raise Broken("a length beyond the end")
    return at, stop


def _passed(data: bytes, at: int, end: int, tag: int) -> int:
    """Return the end of the field whose *tag* stands before *at*."""
    groups: list[int] = []
    while True:
        wire, number = tag & 7, tag >> 3
        if not 0 < number < 1 << 29:
            raise Broken("a field without a number")
        if wire == VARINT:
            at = varint(data, at)[1]
        elif wire == LENGTH:
            at = _bounds(data, at, end)[1]
        elif wire in (EIGHT, FOUR):
            at += 8 if wire == EIGHT else 4
        elif wire == GROUP and len(groups) < GROUPS_MAX:
            groups.append(number)
        elif not (wire == GROUP_END and groups and groups.pop() == number):
            raise Broken("a tag that cannot be")
        if not groups:
            return at
        tag, at = varint(data, at)


def _string(data: bytes, at: int, end: int) -> tuple[str, int]:
    at, stop = _bounds(data, at, end)
    return data[at:stop].decode(), stop


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    at, stop = _bounds(data, at, end)
    return data[at:stop], stop


def _message_value(reader: MessageReader) -> Value:
    def value(data: bytes, at: int, end: int) -> tuple[Any, int]:
        at, stop = _bounds(data, at, end)
        found = reader.new()
        reader.fill(data, at, stop, found)
        return found, stop

    return value


def _enum_value(enum: EnumType) -> Value:
    def value(data: bytes, at: int, end: int) -> tuple[Any, int]:
        number, at = varint(data, at)
        number = _signed_32(number)
        return enum.symbols.get(number, number), at

    return value


def _number(convert: Callable[[int], int | bool]) -> tuple[int, Value]:
    def value(data: bytes, at: int, end: int) -> tuple[Any, int]:
        number, at = varint(data, at)
        return convert(number), at

    return VARINT, value


def _fixed(wire: int, form: str) -> tuple[int, Value]:
    packed = struct.Struct(form)

    def value(data: bytes, at: int, end: int) -> tuple[Any, int]:
        return packed.unpack_from(data, at)[0], at + packed.size

    return wire, value


def _signed_32(number: int) -> int:
    return ((number & _BITS_32) ^ (1 << 31)) - (1 << 31)


_SCALARS: dict[str, tuple[int, Value]] = {
    "string": (LENGTH, _string),
    "bytes": (LENGTH, _bytes),
    "bool": _number(bool),
    "int32": _number(_signed_32),
    "int64": _number(lambda number: (number ^ (1 << 63)) - (1 << 63)),
    "uint32": _number(lambda number: number & _BITS_32),
    "uint64": _number(lambda number: number),
    "sint32": _number(lambda number: zigzag(number & _BITS_32)),
    "sint64": _number(zigzag),
    "fixed32": _fixed(FOUR, "<I"),
    "sfixed32": _fixed(FOUR, "<i"),
    "float": _fixed(FOUR, "<f"),
    "fixed64": _fixed(EIGHT, "<Q"),
    "sfixed64": _fixed(EIGHT, "<q"),
    "double": _fixed(EIGHT, "<d"),
}
