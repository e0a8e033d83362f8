"""Schemas, and how a record says which one it was written by.

A schema registry's framing: the value begins with a byte 0 and the schema's id in four bytes; or
the header ``__value_schema_id`` holds a byte 1 and the schema's id in sixteen, or the same as the
value would, and the value is bare. Where schemas come from is behind `Schemas`: a file, or a
registry's client.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from streamfilter.documents.pointers import Unreadable
from streamfilter.model import ErrorCode, Headers, Malformed, Record
from streamfilter.stops import Temporary

HEADER = "__value_schema_id"
KEPT_MAX, KEPT_CHARACTERS_MAX = 1_000, 32 << 20
"""Schemas that are kept ready, and what their texts have together; the one that was not used for
longest goes first."""

NAME_MAX = 1_000
"""Characters of a type's full name. Each type bears the names around it: without a bound, a schema
of some megabytes would take gigabytes."""

SchemaId = int | UUID | None
"""What a registry calls a schema; None: nobody says, and there is only one."""

_ID = Struct(">I")
FRAME_BYTES = 1 + _ID.size
"""Of a registry's frame in front of the value."""
_GUID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as its author wrote it."""

    kind: str
    """``AVRO``, ``PROTOBUF`` or ``JSON``, as registries have it."""
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """Name and text of each schema that it needs, those that others need first."""

    @property
    def size(self) -> int:
        """Return the characters of all of its texts."""
        return len(self.text) + sum(len(text) for _, text in self.references)


class Broken(Exception):
    """These bytes are no value of their schema, or this is no schema; says why."""


BROKEN_VALUE = (Broken, IndexError, StructError, UnicodeDecodeError)
"""What readers of bytes raise of those that are no value of their schema."""


def why_broken(error: Exception) -> str:
    """Return what an error of `BROKEN_VALUE` says of the bytes."""
    if isinstance(error, (IndexError, StructError)):
        return "it ends in the middle"
    return "a string is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


class SchemasAway(Temporary):
    """Nobody could say what a schema is: no fault of the record, so it waits."""


class SchemasWithheld(SchemasAway):
    """The registry answers, but says of no schema what it is: it refuses us, or holds nothing."""


class SchemasLate(SchemasAway):
    """The answer was slow to come, but is there now: whoever asks again gets it."""


class AsksAgain(Protocol):
    """What is asked again for ids that it does not know."""

    def ask_all(self, ids: Iterable[SchemaId], late: Callable[[], bool]) -> None:
        """Ask for all of *ids* together, until it is late."""
        ...


class SchemaUnsettled(SchemasAway):
    """The registry does not know an id. It may be new, so the registry is asked again."""

    def __init__(self, message: str, asked: AsksAgain) -> None:
        super().__init__(message)
        self.asked = asked


class Schemas(Protocol):
    """Where schemas come from."""

    def schema(self, id: SchemaId) -> Schema:
        """Return the schema of that id.

        Raises:
            Unreadable: SCHEMA_UNKNOWN, there is none.
            SchemasAway: nobody can say now.
            SchemaUnsettled: there is none, but there may be one soon.
        """
        ...


def subject_of(topic: str) -> str:
    """Return where a registry has the schemas of a topic's values, as serializers name it."""
    return f"{topic}-value"


@dataclass(frozen=True, slots=True)
class OneSchema:
    """A file in a registry's place: the schema of all records, whatever id they bear."""

    only: Schema

    def schema(self, id: SchemaId) -> Schema:
        """Return it."""
        return self.only


def framed(value: bytes, headers: Headers) -> tuple[SchemaId, int]:
    """Return the id of a record's schema, and where in *value* its content begins.

    Raises:
        Unreadable: it bears none.
    """
    id_, beside, at = frame_of(value, headers)
    if beside:
        raise _no_id()
    return id_, at


def unframed(value: bytes, headers: Headers) -> bytes:
    """Return the content of a record in whose schema nobody is interested.

    Raises:
        Unreadable: it bears no schema's id.
    """
    if not headers and len(value) >= FRAME_BYTES and value[0] == 0:  # as most do
        return value[FRAME_BYTES:]
    return value[framed(value, headers)[1] :]


def frame_of(value: bytes, headers: Headers) -> tuple[SchemaId, bytes | None, int]:
    """Return the id of a record's schema, and where what follows the id is.

    That is in the header that holds the id, None if none does, and in *value* from a place on.

    Raises:
        Unreadable: it bears none.
    """
    for name, content in reversed(headers):
        if name == HEADER and content:
            return *_id_of(content), 0
    if len(value) < FRAME_BYTES or value[0] != 0:
        what = f"begins with byte {value[0]}" if value else "is empty"
        message = f"the value {what}: no registry's frame"
        raise Unreadable(ErrorCode.SCHEMA_DECODE, message)
    return _ID.unpack_from(value, 1)[0], None, FRAME_BYTES


def _id_of(content: bytes) -> tuple[SchemaId, bytes]:
    if content[0] == 1 and len(content) > _GUID_BYTES:
        return UUID(bytes=content[1 : 1 + _GUID_BYTES]), content[1 + _GUID_BYTES :]
    if content[0] == 0 and len(content) >= FRAME_BYTES:
        return _ID.unpack_from(content, 1)[0], content[FRAME_BYTES:]
    raise _no_id()


def _no_id() -> Unreadable:
    return Unreadable(ErrorCode.SCHEMA_DECODE, f"header {HEADER} holds no schema's id")


def ids_in(records: Iterable[Record]) -> Iterator[SchemaId]:
    """Return the ids of the schemas of those *records* that bear one."""
    for record in records:
        if record.value is not None and record.headers_error is None:
            with suppress(Unreadable):
                yield frame_of(record.value, record.headers)[0]


K = TypeVar("K")
T = TypeVar("T")


class Recent(Generic[K, T]):
    """Values by their keys, as many as there is room for; any thread may use it."""

    def __init__(self) -> None:
        self._values: OrderedDict[K, tuple[T, int]] = OrderedDict()
        self._size, self._lock = 0, threading.Lock()

    def get(self, key: K) -> T | None:
        """Return what is kept under *key*, None if nothing is."""
        with self._lock:
            known = self._values.get(key)
            if known is None:
                return None
            self._values.move_to_end(key)
        return known[0]

    def put(self, key: K, value: T, size: int) -> None:
        """Keep *value*, made of *size* characters; what was not used for longest goes."""
        with self._lock:
            self._size += size - self._values.pop(key, (None, 0))[1]
            self._values[key] = value, size
            while len(self._values) > KEPT_MAX or self._size > KEPT_CHARACTERS_MAX:
                self._size -= self._values.popitem(last=False)[1][1]


class Compiled(Generic[T]):
    """What was made of schemas, by their ids: made once, and kept while it is used.

    Most records have the frame of the one before them: for these, nothing is looked up.

    So is what is wrong with one: it stays so, and to find it takes as long as to make something.
    """

    def __init__(self, schemas: Schemas, kind: str, make: Callable[[Schema], T]) -> None:
        self._schemas, self._kind, self._make = schemas, kind, make
        self._only: T | Malformed | None = None
        self._kept: Recent[SchemaId, T | Malformed] = Recent()
        self._latest: tuple[bytes, T] | None = None
        self._only = self(None) if isinstance(schemas, OneSchema) else None

    def of_frame(self, value: bytes, headers: Headers) -> tuple[T, int]:
        """Return what was made of a record's schema, and where in *value* its content begins.

        Raises:
            Unreadable: the record bears no id, or there is no such schema.
            SchemasAway: nobody can say now.
        """
        latest = self._latest
        if latest is not None and not headers and value.startswith(latest[0]):
            return latest[1], FRAME_BYTES
        id_, at = framed(value, headers)
        made = self(id_)
        if at:
            self._latest = value[:at], made
        return made, at

    def __call__(self, id: SchemaId) -> T:
        """Return what was made of the schema *id*.

        Raises:
            Unreadable: there is none, or it is of another kind.
            SchemasAway: nobody can say now.
        """
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
