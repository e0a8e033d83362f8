"""Avro's binary encoding: functions over bytes, each from an offset to (value, next offset).

The functions for unions, arrays and maps are composed from those of their parts by `avro_schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from struct import Struct
from typing import Any
from uuid import UUID

from streamfilter.documents.schemas import Broken

Read = Callable[[bytes, int], tuple[Any, int]]
Skip = Callable[[bytes, int], int]

LONG_BITS_MAX = 63
UUID_BYTES = 16


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    value = byte & 127
    shift = 7
    while byte > 127:
        if shift > LONG_BITS_MAX:
            raise Broken("an integer of more than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at


def skip_long(data: bytes, at: int) -> int:
    """Return where the integer at *at* ends."""
    while data[at] > 127:
        at += 1
    return at + 1


def as_varint(number: int) -> bytes:
    """Return a number as a varint of Avro and Protobuf: 7 bits a byte, the lowest first."""
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)


def as_long(size: int) -> bytes:
    """Return the encoding of a count or a length."""
    return as_varint(size << 1)


def as_string(text: str) -> bytes:
    """Return the encoding of a text."""
    raw = text.encode()
    return as_long(len(raw)) + raw


def _end(data: bytes, at: int, size: int) -> int:
    """Return the offset after *size* bytes from *at* on."""
    if size < 0 or at + size > len(data):
        raise Broken("a length beyond the end")
    return at + size


def _string(data: bytes, at: int) -> tuple[str, int]:
    size = data[at]
    at += 1
    if size > 127:  # the lengths of most texts have two bytes
        size += (data[at] - 1) << 7
        at += 1
    if size >= 1 << 14:
        length, at = _long(data, at - 2)
        size = length << 1
    end = at + (size >> 1)
    if size & 1 or end > len(data) or end < at:
        raise Broken("a length beyond the end")
    return data[at:end].decode(), end


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    end = _end(data, at, size)
    return data[at:end], end


def skip_bytes(data: bytes, at: int) -> int:
    """Return the offset after the text or the bytes at *at*."""
    size, at = _long(data, at)
    return _end(data, at, size)


def texts_together(steps: Sequence[tuple[str | None, Any]]) -> list[tuple[str | None, Any]]:
    """Return a record's steps with one step for each run of adjacent texts to skip."""
    found: list[tuple[str | None, Any]] = []
    for step, run in groupby(steps):
        count = len(list(run))
        if step == (None, skip_bytes):
            found.append((None, _texts_skipper(count)))
        else:
            found += [step] * count
    return found


def _texts_skipper(count: int) -> Skip:
    def skip(data: bytes, at: int) -> int:
        for _ in range(count):
            size = data[at]
            if size > 127 or size & 1:
                at = skip_bytes(data, at)
            else:
                at += 1 + (size >> 1)
        if at > len(data):
            raise Broken("a length beyond the end")
        return at

    return skip


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] != 0, at + 1


def _float_reader(form: Struct) -> Read:
    return lambda data, at: (form.unpack_from(data, at)[0], at + form.size)


def fixed_reader(size: int) -> Read:
    """Return the reader of *size* bytes."""
    return lambda data, at: (data[at : (end := _end(data, at, size))], end)


def uuid_reader() -> Read:
    """Return the reader of a UUID: 16 bytes, returned as its text."""
    read = fixed_reader(UUID_BYTES)

    def text(data: bytes, at: int) -> tuple[str, int]:
        raw, at = read(data, at)
        return str(UUID(bytes=raw)), at

    return text


def fixed_skipper(size: int) -> Skip:
    """Return the skipper of *size* bytes."""
    return lambda data, at: _end(data, at, size)


PRIMITIVES: dict[str, tuple[Read, Skip]] = {
    "null": (lambda _, at: (None, at), lambda _, at: at),
    "boolean": (_boolean, fixed_skipper(1)),
    "int": (_long, skip_long),
    "long": (_long, skip_long),
    "float": (_float_reader(Struct("<f")), fixed_skipper(4)),
    "double": (_float_reader(Struct("<d")), fixed_skipper(8)),
    "bytes": (_bytes, skip_bytes),
    "string": (_string, skip_bytes),
}


def _branch(data: bytes, at: int, branches: int) -> tuple[int, int]:
    which, at = _long(data, at)
    if not 0 <= which < branches:
        raise Broken("a choice that the schema does not have")
    return which, at


def enum_reader(symbols: Sequence[str]) -> Read:
    """Return the reader of one of *symbols*."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        which, at = _branch(data, at, len(symbols))
        return symbols[which], at

    return read


def union_reader(branches: Sequence[Read]) -> Read:
    """Return the reader of a value of one of *branches*."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        which, at = _branch(data, at, len(branches))
        return branches[which](data, at)

    return read


def union_skipper(branches: Sequence[Skip]) -> Skip:
    """Return the skipper of a value of one of *branches*."""

    def skip(data: bytes, at: int) -> int:
        which, at = _branch(data, at, len(branches))
        return branches[which](data, at)

    return skip


def _block(data: bytes, at: int) -> tuple[int, int]:
    """Return how many elements the next block has, 0 after the last; its byte size is unused."""
    count, at = _long(data, at)
    if count < 0:
        count = -count
        at = skip_long(data, at)
    return count, at


def blocks_skipper(element: Skip) -> Skip:
    """Return the skipper of an array, or a map, of such elements."""

    def skip(data: bytes, at: int) -> int:
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                begun, at = at, element(data, at)
                if begun == at:
                    break  # elements without bytes: all others are the same
            count, at = _block(data, at)
        return at

    return skip


def array_reader(element: Read) -> Read:
    """Return the reader of an array of such elements."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = []
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                begun = at
                value, at = element(data, at)
                found.append(value)
                if begun == at:
                    break
            count, at = _block(data, at)
        return found, at

    return read


def map_reader(wanted: Mapping[str, Read], other: Skip) -> Read:
    """Return the reader of a map: it reads the *wanted* keys and skips all others."""
    named = {key.encode(): (key, element) for key, element in wanted.items()}

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = {}
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                raw, at = _bytes(data, at)
                known = named.get(raw)
                if known is None:
                    at = other(data, at)
                else:
                    found[known[0]], at = known[1](data, at)
            count, at = _block(data, at)
        return found, at

    return read


def nothing_of(skip: Skip, kind: Callable[[], Any]) -> Read:
    """Return a reader that skips a value and returns an empty one of its *kind*."""
    return lambda data, at: (kind(), skip(data, at))
