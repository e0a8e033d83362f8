"""Format ``protobuf``: messages of Protobuf's wire format, framed by a registry or bare.

After the schema's id, a registry's frame names the message of the schema by a list of indices: its
place among the messages of the file, then among the messages nested in that one, and so on. A
single byte 0 means the first message.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from streamfilter.documents.codecs.outline import Outline
from streamfilter.documents.codecs.proto_schema import NESTED_MAX, Type, Types
from streamfilter.documents.codecs.proto_wire import MessageReader, message_reader
from streamfilter.documents.codecs.schemas import (
    BROKEN_VALUE,
    Broken,
    Compiled,
    Schema,
    frame_of,
    why_broken,
)
from streamfilter.documents.codecs.varints import varint, zigzag
from streamfilter.documents.decoding import Decoder, Wanted
from streamfilter.documents.fields.pointers import Tree, Unreadable, tree_of
from streamfilter.model import ErrorCode, Headers

KIND = "PROTOBUF"
Which = str | tuple[int, ...]  # a message: its full name, or its list of indices
FIRST = (0,)


class Messages:
    """The readers of one schema's messages, each compiled at its first use."""

    def __init__(self, schema: Schema, tree: Tree | None) -> None:
        self._types = Types(schema.text, [text for _, text in schema.references])
        self._tree = tree
        self._readers: dict[Which, MessageReader | Broken] = {}

    def reader(self, which: Which) -> MessageReader:
        """Return the reader of that message, or raise `Broken`."""
        known = self._readers.get(which)
        if known is None:
            known = self._made(which)
        if isinstance(known, Broken):
            raise Broken(*known.args)
        return known

    def _made(self, which: Which) -> MessageReader | Broken:
        """Return the reader of that message, or its error; kept for as many as the schema has."""
        found = self._types.find(which) if isinstance(which, str) else self._at(which)
        if found is None:
            return Broken("the schema has no such message")
        tree = self._tree
        if tree is None:
            tree = tree_of([*self._types.outline(found).paths()])
        made: MessageReader | Broken
        try:
            made = message_reader(self._types, found, tree)
        except Broken as trouble:
            made = Broken(*trouble.args)
        self._readers[which] = made
        return made

    def outlines(self) -> list[Outline]:
        inner, found = deque(self._types.messages), []
        while inner:
            found.append(self._types.outline(message := inner.popleft()))
            inner += message.messages
        return found

    def _at(self, place: tuple[int, ...]) -> Type | None:
        found, messages = None, self._types.messages
        for index in place:
            if not 0 <= index < len(messages):
                return None
            found = messages[index]
            messages = found.messages
        return found


def decoder(wanted: Wanted) -> Decoder:
    tree = None if wanted.paths is None else tree_of(wanted.paths)
    message = wanted.message or FIRST

    def make(schema: Schema) -> Messages:
        messages = Messages(schema, tree)
        if not wanted.framed:
            messages.reader(message)
        return messages

    schemas = Compiled(wanted.the_schemas(), KIND, make)

    def decode(value: bytes, headers: Headers) -> Any:
        if not wanted.framed:
            return _decoded(schemas(None), message, value, 0)
        id_, beside, at = frame_of(value, headers)
        if beside is None:
            which, at = _place(value, at)
        else:
            which = _place(beside, 0)[0]
        return _decoded(schemas(id_), which, value, at, f" of schema {id_}")

    return decode


def outlines(schema: Schema) -> list[Outline]:
    """Return what pointers can lead to in each message of a *schema*, or raise `Broken`."""
    return Messages(schema, None).outlines()


def _place(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the indices of the message that a frame names, and the offset after the frame."""
    try:
        if data[at] == 0:
            return FIRST, at + 1
        size, at = varint(data, at)
        size = zigzag(size)
        if 0 < size <= NESTED_MAX:
            place = []
            for _ in range(size):
                index, at = varint(data, at)
                place.append(zigzag(index))
            return tuple(place), at
    except (IndexError, Broken):
        pass
    raise Unreadable(ErrorCode.SCHEMA_DECODE, "the frame does not say which message it is")


def _decoded(messages: Messages, which: Which, value: bytes, at: int, by: str = "") -> Any:
    try:
        reader = messages.reader(which)
        found = reader.new()
        reader.fill(value, at, len(value), found)
        return found
    except BROKEN_VALUE as error:
        message = f"the bytes are no message{by}: {why_broken(error)}"
    raise Unreadable(ErrorCode.SCHEMA_DECODE, message)
