"""Reads structured record keys: the id inside the key of a change event, such as ``{"id": 7}``.

A tombstone has a key and no value, so only an id in the key tells which document it deletes. A key
that begins with a byte 0, or has the header ``__key_schema_id``, is in a registry's frame. It is
read by its schema if there is a registry: as Protobuf or JSON Schema if values are, else as Avro.
Another key is JSON.

With `index.scope_field` the key may also tell the scope of a tombstone: by the field beside the id
that has the name of the scope's field. The header `SCOPE_HEADER` tells it, too, and counts first.
"""

import json
from collections.abc import Iterable
from typing import Any

from streamfilter.documents.codecs.schemas import HEADER, OneSchema, SchemaId, Schemas, frame_of
from streamfilter.documents.decoding import Decoder, Wanted, decoder_for
from streamfilter.documents.fields.pointers import DEPTH, Inside, Path, Unreadable, parse_pointer
from streamfilter.documents.fields.selecting import DOCUMENT_LIMIT, Limits, check_size, id_at
from streamfilter.documents.fields.strict_json import decode_utf8
from streamfilter.documents.fields.values import canonical, field_at, written_value
from streamfilter.model import ErrorCode, Headers, Record

PREFIX = "key#"
"""A setting with this prefix points into the record's key: ``key#/id``."""
KEY_HEADER = "__key_schema_id"
SCOPE_HEADER = "streamfilter-scope"  # of a tombstone that forgets only in the scope of this value
FRAMED = ("protobuf", "json_schema")  # formats of values whose keys are read like them


def path_in_key(place: str | None, *, depth: int = DEPTH) -> Path | None:
    """Return the path in the key that the setting *place* names, None if it is elsewhere."""
    if place is None or not place.startswith(PREFIX):
        return None
    return parse_pointer(place.removeprefix(PREFIX), depth=depth)


class KeyReader:
    """Decodes the keys of records, as far as the path to the id leads."""

    def __init__(
        self,
        path: Path,
        format: str,
        limits: Limits,
        schemas: Schemas | None,
        scope: Path | None = None,
    ) -> None:
        """Prepare the decoders: of JSON, and with *schemas* of keys in a frame.

        *scope* is the path to the scope in a value, if there are scopes.
        """
        self._path, self._size, depth = path, limits.document_bytes, limits.depth
        self._scope = None if scope is None else (*path[:-1], scope[-1])
        wanted = [path] if self._scope in (None, path) else [path, self._scope]
        self._plain = decoder_for("json", Wanted(wanted, depth))
        self._framed: Decoder | None = None
        if schemas is not None:
            framed = format if format in FRAMED else "avro"
            self._framed = decoder_for(framed, Wanted(wanted, depth, schemas))

    def id(self, record: Record) -> str | int:
        """Return the id in the key of *record*, or raise `Unreadable` or `SchemasAway`."""
        if record.key is None:
            raise Unreadable(ErrorCode.MISSING_ID, "the record has no key")
        try:
            check_size("it", len(record.key), "bytes", self._size, DOCUMENT_LIMIT)
            return id_at(self._decoded(record.key, record.headers), self._path)
        except Unreadable as trouble:
            code, message = trouble.reading.code, f"in the record's key: {trouble.reading.message}"
        raise Unreadable(code, message)

    def scope(self, record: Record) -> tuple[str | None, ...]:
        """Return the scope in the key of *record*, whose id was read; empty: it holds none.

        Raises:
            Unreadable: it is a string that is not valid.
        """
        if self._scope is None or record.key is None:
            return ()
        root = self._decoded(record.key, record.headers)
        try:
            found = field_at(root, self._scope, missing=ErrorCode.MISSING_ID)
        except Unreadable:
            return ()
        return (canonical(found, self._scope),)

    def _decoded(self, key: bytes, headers: Headers) -> Any:
        own = key_headers(headers)
        if self._framed is None or not (own or key.startswith(b"\0")):
            return self._plain(key, ())
        return self._framed(key, own)


def keys_for(
    place: str | None,
    format: str,
    limits: Limits,
    schemas: Schemas | None,
    scope: Path | None = None,
) -> KeyReader | None:
    """Return the reader of the keys that hold the id; None if it is not at such a *place*.

    *scope* is the path to the scope in a value, if there are scopes.
    """
    path = path_in_key(place, depth=limits.depth)
    if path is None:
        return None
    # A schema file is the values' schema, and keys have another one.
    registry = None if isinstance(schemas, OneSchema) else schemas
    return KeyReader(path, format, limits, registry, scope)


def key_with(path: Path, id_: str) -> bytes:
    value: Any = id_
    for step in reversed(path):
        value = json.dumps(value) if isinstance(step, Inside) else {step: value}
    return json.dumps(value).encode()


def scope_of_tombstone(record: Record, keys: KeyReader | None) -> tuple[str | None, ...]:
    """Return the scope in which a tombstone forgets; empty: all scopes.

    Raises:
        Unreadable: the header, or the string in the key, is not valid.
    """
    for name, content in reversed(record.headers):
        if name == SCOPE_HEADER:
            written = "" if content is None else decode_utf8(content, f"header {name} is ")
            return (written_value(written),)
    return () if keys is None else keys.scope(record)


def key_headers(headers: Headers) -> Headers:
    """Return the headers that name the schema of a key, as those of a value are named."""
    return tuple((HEADER, content) for name, content in headers if name == KEY_HEADER)


def ids_in_keys(records: Iterable[Record]) -> Iterable[SchemaId]:
    for record in records:
        if record.key and record.headers_error is None:
            try:
                id_ = frame_of(record.key, key_headers(record.headers))[0]
            except Unreadable:
                continue
            yield id_
