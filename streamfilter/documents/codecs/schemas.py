"""Schemas, and the frame by which a record names the schema it was written with.

A schema registry's frame has one of three forms:

- The value begins with a byte 0 and the schema's id in four bytes.
- The header ``__value_schema_id`` holds a byte 1 and a GUID of 16 bytes. The value is bare.
- The same header holds a byte 0 and the id in four bytes. The value is bare.

`Schemas` is the source of schemas: a file, or the client of a registry.
"""

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from msgspec import Struct

from streamfilter.documents.fields.pointers import Unreadable
from streamfilter.model import ErrorCode, Headers, Malformed, Record
from streamfilter.stops import Temporary

HEADER = "__value_schema_id"
KEPT_MAX, KEPT_CHARACTERS_MAX = 1_000, 32 << 20
"""Limits of the cache: its number of schemas, and the characters of their texts together. The least
recently used schema is evicted first."""

NAME_MAX = 1_000
"""Characters of a type's full name at most. A full name repeats the names of all enclosing types:
without a bound, a schema of some megabytes would take gigabytes."""

SchemaId = int | UUID | None
"""The id of a schema in a registry. None: records carry no id, and there is only one schema."""

_ID = struct.Struct(">I")
FRAME_BYTES = 1 + _ID.size  # size of a registry's frame in front of the value
_GUID_BYTES = 16
GLUE = "the value has AWS Glue's frame, which is not read: use a registry with Confluent's API"


class Schema(Struct, frozen=True):
    """A schema as its author wrote it."""

    kind: str  # ``AVRO``, ``PROTOBUF`` or ``JSON``: a registry's names
    text: str
    references: tuple[tuple[str, str], ...] = ()  # name and text, dependencies first

    @property
    def size(self) -> int:
        return len(self.text) + sum(len(text) for _, text in self.references)


class Broken(Exception):
    """The bytes are not a value of their schema, or the text is not a schema. Says why."""


BROKEN_VALUE = (Broken, IndexError, struct.error, UnicodeDecodeError)
"""Exceptions that readers raise for bytes that are not a value of their schema."""


def why_broken(error: Exception) -> str:
    """Return the message for an error of `BROKEN_VALUE`."""
    if isinstance(error, (IndexError, struct.error)):
        return "it ends in the middle"
    return "a string is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


class SchemasAway(Temporary):
    """A schema is not available now. The record is not at fault, so it waits."""


class SchemasWithheld(SchemasAway):
    """The registry answers, but returns no schema: it denies access, or it is empty."""


AskAll = Callable[[Iterable[SchemaId], Callable[[], bool]], None]
"""Looks all of the ids up together, until the second argument returns True."""


class SchemaUnsettled(SchemasAway):
    """The registry does not know an id. The id may be new, so it is looked up again."""

    def __init__(self, message: str, ask_all: AskAll) -> None:
        super().__init__(message)
        self.ask_all = ask_all


class Schemas(Protocol):
    """A source of schemas."""

    def schema(self, id: SchemaId) -> Schema:
        """Return the schema with that id.

        Raises `Unreadable` (SCHEMA_UNKNOWN) if there is none, `SchemaUnsettled` if there may be one
        soon, and `SchemasAway` if it is not available now.
        """
        ...


def subject_of(topic: str) -> str:
    """Return the registry's subject for a topic's values, as serializers name it."""
    return f"{topic}-value"


class OneSchema(Struct, frozen=True):
    """A file instead of a registry: one schema for all records, whatever id they carry."""

    only: Schema

    def schema(self, id: SchemaId) -> Schema:
        return self.only


def framed(value: bytes, headers: Headers) -> tuple[SchemaId, int]:
    """Return a record's schema id, and where in *value* its content begins."""
    id_, beside, at = frame_of(value, headers)
    if beside:
        raise _no_id()
    return id_, at


def unframed(value: bytes, headers: Headers) -> bytes:
    """Return the content of a record whose schema is not needed, or raise `Unreadable`."""
    if not headers and len(value) >= FRAME_BYTES and value[0] == 0:  # as most do
        return value[FRAME_BYTES:]
    return value[framed(value, headers)[1] :]


def frame_of(value: bytes, headers: Headers) -> tuple[SchemaId, bytes | None, int]:
    """Return (schema id, rest of the header after it, offset of the content in *value*).

    The rest is None if the id is in the value, not in a header. No id raises `Unreadable`.
    """
    for name, content in reversed(headers):
        if name == HEADER and content:
            return *_id_of(content), 0
    if len(value) < FRAME_BYTES or value[0] != 0:
        what = f"begins with byte {value[0]}" if value else "is empty"
        message = GLUE if is_glue(value) else f"the value {what}: no registry's frame"
        raise Unreadable(ErrorCode.SCHEMA_DECODE, message)
    return _ID.unpack_from(value, 1)[0], None, FRAME_BYTES


def is_glue(value: bytes) -> bool:
    """Return whether *value* begins as AWS Glue frames it: 3, 0 or 5 (plain or zlib), a GUID."""
    return len(value) >= 2 + _GUID_BYTES and value.startswith((b"\3\0", b"\3\5"))


def _id_of(content: bytes) -> tuple[SchemaId, bytes]:
    if content[0] == 1 and len(content) > _GUID_BYTES:
        return UUID(bytes=content[1 : 1 + _GUID_BYTES]), content[1 + _GUID_BYTES :]
    if content[0] == 0 and len(content) >= FRAME_BYTES:
        return _ID.unpack_from(content, 1)[0], content[FRAME_BYTES:]
    raise _no_id()


def _no_id() -> Unreadable:
    return Unreadable(ErrorCode.SCHEMA_DECODE, f"header {HEADER} holds no schema's id")


def ids_in(records: Iterable[Record]) -> Iterator[SchemaId]:
    for record in records:
        if record.value is not None and record.headers_error is None:
            with suppress(Unreadable):
                yield frame_of(record.value, record.headers)[0]


K = TypeVar("K")
T = TypeVar("T")


class Recent(Generic[K, T]):
    """A thread-safe cache that evicts the least recently used values (LRU)."""

    def __init__(self) -> None:
        self._values: OrderedDict[K, tuple[T, int]] = OrderedDict()
        self._size, self._lock = 0, threading.Lock()

    def get(self, key: K) -> T | None:
        """Return the value of *key*, None if it is not in the cache."""
        with self._lock:
            known = self._values.get(key)
            if known is None:
                return None
            self._values.move_to_end(key)
        return known[0]

    def put(self, key: K, value: T, size: int) -> None:
        """Keep *value*, made of *size* characters; evict the least recently used if it is full."""
        with self._lock:
            self._size += size - self._values.pop(key, (None, 0))[1]
            self._values[key] = value, size
            while len(self._values) > KEPT_MAX or self._size > KEPT_CHARACTERS_MAX:
                self._size -= self._values.popitem(last=False)[1][1]


class Compiled(Generic[T]):
    """A cache of compiled schemas by their ids.

    Most records have the same frame as the record before: these need no look-up. A schema's error
    is cached like a compiled schema: it does not change, and takes as long to find.
    """

    def __init__(self, schemas: Schemas, kind: str, make: Callable[[Schema], T]) -> None:
        self._schemas, self._kind, self._make = schemas, kind, make
        self._only: T | Malformed | None = None
        self._kept: Recent[SchemaId, T | Malformed] = Recent()
        self._latest: tuple[bytes, T] | None = None
        self._only = self(None) if isinstance(schemas, OneSchema) else None

    def of_frame(self, value: bytes, headers: Headers) -> tuple[T, int]:
        """Return a record's compiled schema, and where its content begins, or raise."""
        latest = self._latest
        if latest is not None and not headers and value.startswith(latest[0]):
            return latest[1], FRAME_BYTES
        id_, at = framed(value, headers)
        made = self(id_)
        if at:
            self._latest = value[:at], made
        return made, at

    def __call__(self, id: SchemaId) -> T:
        """Return the compiled schema *id*, or raise `Unreadable` or `SchemasAway`."""
        made = self._only or self._kept.get(id)
        if made is None:
            schema = self._schemas.schema(id)
            made = self._made(id, schema)
            self._kept.put(id, made, schema.size)
        if isinstance(made, Malformed):
            raise Unreadable(made.code, made.message)
        return made

    def _made(self, id: SchemaId, schema: Schema) -> T | Malformed:
        if schema.kind != self._kind:
            message = f"schema {id} is of kind {schema.kind}, not {self._kind}"
            return Malformed(ErrorCode.SCHEMA_DECODE, message)
        try:
            return self._make(schema)
        except Broken as trouble:
            return Malformed(ErrorCode.SCHEMA_DECODE, str(trouble))
