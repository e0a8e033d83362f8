"""Reading: turns the bytes of a record into a document, or into the reason why it is not one.

A format decodes the bytes to a value, and `selecting` takes text and id out of the value. JSON has
a shortcut for the first step (`fast_json`). A row of a table is already decoded (`rows`). Adjacent
rows are read column by column, if no value in these needs a check of its own. Malformed bytes give
a reading, never an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from streamfilter.documents.codecs.fast_json import FORMATS, Found, Shortcut, shortcut
from streamfilter.documents.codecs.schemas import (
    AskAll,
    Schemas,
    SchemasAway,
    SchemaUnsettled,
    ids_in,
)
from streamfilter.documents.decoding import Wanted, decoder_for
from streamfilter.documents.fields.pointers import WHOLE, Deleted, Path, Unreadable, parse_pointer
from streamfilter.documents.fields.record_fields import FieldsReader
from streamfilter.documents.fields.selecting import (
    DOCUMENT_LIMIT,
    FIXED,
    ID_BYTES_MAX,
    KEY,
    TEXT_LIMIT,
    Limits,
    TextSelection,
    check_size,
    id_beside,
)
from streamfilter.documents.fields.values import canonical, value_at, value_paths
from streamfilter.documents.record_keys import ids_in_keys, keys_for, scope_of_tombstone
from streamfilter.documents.rows import Row, Rows
from streamfilter.model import (
    Document,
    ErrorCode,
    Malformed,
    Reading,
    Reason,
    Record,
    Source,
    Unjudged,
    Verdict,
)
from streamfilter.similarity.text.code_points import pattern
from streamfilter.similarity.text.normalisation import GROWTH_MAX, normalised_length

PLAIN = frozenset({"json", "text"})  # formats without schemas, frames and headers
_NOWHERE = Source("", 0, 0)
UTF8_BYTES_MAX = 4  # bytes of a character at most
TOGETHER, TOGETHER_BYTES = 64, 1 << 20
"""Records that are read at once, and their bytes. If one needs a check of its own, all are read one
by one."""
# Anything but white space, control characters and characters that Unicode displays as nothing.
_VISIBLE = re.compile(f"[^\\s\x00-\x1f\x7f-\x9f{pattern('invisible')}]")


def is_blank(text: str) -> bool:
    """Return True if *text* shows nothing: white space, control and invisible characters only."""
    return _VISIBLE.search(text) is None


def position_id(source: Source) -> str:
    """Return the id of a record that has none of its own: ``topic-partition-offset``."""
    return f"{source.topic}-{source.partition}-{source.offset}"


def reader_of(recipe: str) -> Reader:
    settings: dict[str, Any] = json.loads(recipe)
    return Reader(**settings | {"limits": Limits(**settings["limits"])})


class Reader:
    """Reads records under one configuration. Thread-safe."""

    def __init__(
        self,
        format: str = "json",
        *,
        text: str | Sequence[str] = "/text",
        id: str | None = "/id",
        fields: Sequence[str] = (),
        values: Sequence[str] = (),
        scoped: bool = False,
        held_out: str | None = None,
        limits: Limits | None = None,
        empty_text: str = "forward",
        tombstones: str = "forward",
        updates: bool = False,
        schemas: Schemas | None = None,
        framed: bool = True,
        message: str | None = None,
    ) -> None:
        """Prepare the decoder, or raise `ValueError` or `ConfigError`, which name the cure.

        Args:
            format: a file in `documents/formats`, such as ``json``, or ``fields`` (JSON records).
            text: a JSON Pointer (RFC 6901) such as ``/body/text``, or ``value``; several pointers:
                the texts that exist are joined, one a line.
            id: a pointer, ``key``, a pointer into the key such as ``key#/id``, or ``header:NAME``;
                None makes it ``topic-partition-offset``.
            fields: for records, the pointer to each field. The joined fields are the text.
            held_out: for records, the pointer to the field that is not compared, or None.
            values: pointers to the values that are compared beside the text.
            scoped: whether the first of them is the scope.
            limits: sizes beyond which a record is a dead letter.
            empty_text: ``forward``, ``drop``, or ``exact_only`` to judge empty texts too.
            tombstones: ``forward``, ``drop``, or ``forget`` by the id in the key, or beside it.
            updates: whether an empty text replaces, too: it names the documents to forget.
            schemas: for formats with schemas, the source of these.
            framed: whether values carry a registry's frame.
            message: the schema's message that bare values hold; None: the first one.
        """
        self.limits = limits or Limits()
        self._empty = _policy("empty_text", empty_text, Reason.EMPTY)
        self._updates, self._scoped, depth = updates, scoped, self.limits.depth
        records = format == "fields" or bool(fields)
        scope = parse_pointer(values[0], depth=depth) if scoped else None
        self._keys = keys_for(id, format, self.limits, schemas if framed else None, scope)
        self._id_beside = id_beside(id) if self._keys is None else self._keys.id
        self._forgotten_id = (self._id_beside or id_beside(KEY)) if tombstones == "forget" else None
        tombstones = "forward" if self._forgotten_id else tombstones
        self._tombstone = _policy("tombstones", tombstones, Reason.TOMBSTONE)
        inside = None if self._id_beside is not None or format == "text" else id
        self._select: TextSelection | FieldsReader
        self._shortcut: Shortcut | None = None
        if records:
            self._select = FieldsReader(fields, id_pointer=inside, held_out=held_out, depth=depth)
        else:
            texts = [WHOLE] if format == "text" else [text] if isinstance(text, str) else text
            self._select = selection = TextSelection(texts, inside, depth=depth)
        self._values = value_paths(values, depth=depth)
        if not records and (framed_json := FORMATS.get(format)) is not None:
            self._shortcut = shortcut(selection, self._values, depth=depth, framed=framed_json)
        self._ask_all: AskAll | None = None  # of the source of schemas that did not know an id
        self._recipe: str | None = None
        if not records and format in PLAIN and schemas is None:
            recipe = {"format": format, "text": texts, "id": inside, "values": values,
                      "empty_text": empty_text, "limits": to_builtins(self.limits)}  # fmt: skip
            self._recipe = json.dumps(recipe)
        wanted = Wanted(self.paths, depth, schemas, framed, message)
        self._decode = decoder_for("json" if format == "fields" else format, wanted)

    @property
    def paths(self) -> Sequence[Path]:
        return [*self._select.paths, *self._values]

    @property
    def id_path(self) -> Path | None:
        """Return the path to the id in a value, None if the id is not in the value."""
        return self._select.id

    @property
    def needed(self) -> Sequence[Sequence[Path]]:
        """Return groups of paths: a value needs at least one path of each group."""
        return [*self._select.needed, *([path] for path in self._values)]

    def read(self, record: Record) -> Reading:
        """Return the document in *record*, or why there is none."""
        try:
            return self._read(record)
        except Unreadable as trouble:
            return trouble.reading
        except (MemoryError, OSError, SchemasAway):
            raise  # not the record's fault: it is read again
        except Exception as error:
            return Malformed(ErrorCode.INTERNAL, f"{type(error).__name__} while reading")

    def read_all(
        self, records: Sequence[Record], late: Callable[[], bool] | None = None
    ) -> list[Reading]:
        """Return the result of `read` for each of *records*.

        With *late*, reading may end early, but after at least one record. It ends when *late*
        returns True, and before a record whose schema is not available now. Without *late*, or if
        that is the first record, `SchemasAway` is raised.
        """
        by_columns = self._by_columns(records) if isinstance(records, Rows) else None
        if by_columns is not None:
            return by_columns
        if self._shortcut is None or self._shortcut.framed or self._values or self._id_beside:
            return self._read_until(records, late)
        readings: list[Reading] = []
        while len(readings) < len(records):
            piece = records[len(readings) : len(readings) + TOGETHER]
            read = self._together(piece) or self._read_until(piece, late)
            readings += read
            if len(read) < len(piece) or (late is not None and late()):
                break
        return readings

    def _together(self, records: Sequence[Record]) -> list[Reading] | None:
        """Return the readings of *records*; None: not all are JSON with a text within limits."""
        values = [each.value for each in records if each.value and each.headers_error is None]
        sizes = [*map(len, values)]
        if len(values) < len(records) or max(sizes) > self.limits.document_bytes:
            return None
        if self._shortcut is None or sum(sizes) > TOGETHER_BYTES or isinstance(records[0], Row):
            return None
        if (found := self._shortcut.all(values)) is None:
            return None
        texts, ids = zip(*found, strict=True)
        if self.id_path is None:
            return self._within(texts, [position_id(each.source) for each in records])
        return self._within(texts, [*map(str, ids)])

    def _read_until(
        self, records: Sequence[Record], late: Callable[[], bool] | None
    ) -> list[Reading]:
        if late is None:
            return [*map(self.read, records)]
        if self._ask_all is not None:
            # One by one, each unknown id would cost its own wait. So look all of them up together.
            keys = () if self._keys is None else ids_in_keys(records)
            self._ask_all(chain(ids_in(records), keys), late)
        readings: list[Reading] = []
        for record in records:
            try:
                readings.append(self.read(record))
            except SchemasAway as away:
                if isinstance(away, SchemaUnsettled):
                    self._ask_all = away.ask_all
                if not readings:
                    raise
                break
            if late():
                break
        return readings

    def recipe_for(self, records: Sequence[Record]) -> str | None:
        """Return the settings by which `reader_of` reads values of *records*, as text.

        None: they need a schema, a frame or headers.
        """
        return None if records and isinstance(records[0], Row) else self._recipe

    def read_others(
        self, records: Sequence[Record], rows: Sequence[int], ids: Sequence[str]
    ) -> list[Reading]:
        """Return the readings of *records*, without the texts of *rows*, which `plain` has read."""
        readings: list[Reading | None] = [None] * len(records)
        for at, row in enumerate(rows):
            try:
                name = ids[at] if ids else self._name(records[row], None)
                readings[row] = Document(name, "")
            except Unreadable as trouble:  # of a key or a header
                readings[row] = trouble.reading
        return [
            self.read(record) if known is None or record.headers_error is not None else known
            for record, known in zip(records, readings, strict=True)
        ]

    def plain(self, values: Sequence[bytes | None]) -> tuple[list[int], list[str], list[Document]]:
        """Return (rows of *values* that hold a document, ids if these are in values, documents)."""
        rows, ids, documents = [], [], []
        for row, value in enumerate(values):
            if value is None:
                continue
            reading = self.read(Record(_NOWHERE, None, value))
            if isinstance(reading, Document):
                rows.append(row)
                documents.append(reading)
                if self.id_path is not None:
                    ids.append(reading.id)
        return rows, ids, documents

    def _by_columns(self, rows: Rows) -> list[Reading] | None:
        """Return the readings of *rows* if all have a text and an id within limits, else None.

        The limits that `_read` checks for each text and id are checked for the longest one.
        """
        columns = rows.columns
        found = self._select.columns if isinstance(self._select, TextSelection) else None
        if found is None or self._id_beside is not None or self._values:
            return None
        key, id_key = found
        if columns.plain.get(key) is not str or not (id_key is None or id_key in columns.plain):
            return None
        texts = columns.named[key]
        if id_key is None:
            ids = [position_id(each.source) for each in rows]
        else:
            ids = [*map(str, columns.named[id_key])]
        return self._within(texts, ids) if columns.size <= self.limits.document_bytes else None

    def _within(self, texts: Sequence[str], ids: Sequence[str]) -> list[Reading] | None:
        """Return the readings of *texts*, or None if one is too long, or an id is."""
        if (
            max(map(len, texts), default=0) * GROWTH_MAX > self.limits.text_characters
            or max(map(len, ids), default=0) * UTF8_BYTES_MAX > ID_BYTES_MAX
        ):
            return None
        if (empty := self._empty) is None:
            return [*map(Document, ids, texts)]
        seen = _VISIBLE.search
        return [
            self._forgetting(empty, id_) if seen(text) is None else Document(id_, text)
            for id_, text in zip(ids, texts, strict=True)
        ]

    def _read(self, record: Record) -> Reading:
        if record.headers_error is not None:
            raise Unreadable(ErrorCode.BAD_HEADER, record.headers_error)
        try:
            text, id_, *values = self._fields(record)
        except Deleted:
            return self._without_value(record)
        _check_text(text, self.limits.text_characters)
        if self._empty is not None and is_blank(text):
            return self._of_empty(self._empty, record, id_, values)
        return Document(self._name(record, id_), text, (*map(canonical, values, self._values),))

    def _of_empty(
        self, empty: Unjudged, record: Record, id_: str | int | None, values: Sequence[Any]
    ) -> Unjudged:
        """Return the reading of an empty text; as an update it forgets its earlier version."""
        try:
            scope = (canonical(values[0], self._values[0]),) if self._scoped else ()
            name = self._name(record, id_) if self._updates else ""
            return replace(self._forgetting(empty, name), scope=scope)
        except Unreadable:  # it matches no document's id, so this is not an error
            return empty

    def _forgetting(self, empty: Unjudged, name: str) -> Unjudged:
        return replace(empty, forgets=(name,)) if self._updates and name else empty

    def _name(self, record: Record, id_: str | int | None) -> str:
        """Return a document's id: *id_* from its value, or from its key, header or position."""
        if self._id_beside is not None:
            id_ = self._id_beside(record)
        name = position_id(record.source) if id_ is None else str(id_)
        check_size("the id", len(name.encode()), "bytes", ID_BYTES_MAX, FIXED)
        return name

    def _without_value(self, record: Record) -> Reading:
        """Return the reading of a tombstone, with the id to forget: its key or header, as text."""
        if self._tombstone is None:
            return Malformed(ErrorCode.INTERNAL, "no policy for tombstones")
        if self._forgotten_id is None:
            return self._tombstone
        try:
            name = str(self._forgotten_id(record))
            scope = scope_of_tombstone(record, self._keys) if self._scoped else ()
        except Unreadable:  # it matches no document's id, so this is not an error
            return replace(self._tombstone, forgets=())
        fits = len(name.encode()) <= ID_BYTES_MAX
        return replace(self._tombstone, forgets=(name,) if fits else (), scope=scope)

    def _selected(self, root: Any) -> Found:
        return (*self._select(root), *(value_at(root, path) for path in self._values))

    def _fields(self, record: Record) -> Found:
        """Take text, id and other values out of a record, by the shortcut if that is enough."""
        if isinstance(record, Row):
            content = record.content()
            record.refuse_larger(self.limits.document_bytes)
            return self._selected(content)
        if (value := record.value) is None:
            raise Deleted(ErrorCode.MISSING_TEXT, "the record has no value")
        check_size("the value", len(value), "bytes", self.limits.document_bytes, DOCUMENT_LIMIT)
        headers = record.headers
        if self._shortcut is not None:
            fields = self._shortcut(value, headers)
            if fields is not None:
                return fields
        return self._selected(self._decode(value, headers))


def _check_text(text: str, limit: int) -> None:
    """Raise TOO_LARGE if *text* is too long, before or after normalisation."""
    check_size("the text", len(text), "characters", limit, TEXT_LIMIT)
    if len(text) * GROWTH_MAX > limit:
        length = normalised_length(text)
        check_size("the normalised text", length, "characters", limit, TEXT_LIMIT)


def _policy(key: str, policy: str, reason: Reason) -> Unjudged | None:
    """Return the reading that *policy* prescribes, None if such records are judged."""
    if policy == "exact_only":
        if reason is Reason.TOMBSTONE:
            raise ValueError("tombstones is 'exact_only', but they have no text; use forward")
        return None
    verdicts = {"forward": Verdict.PASSTHROUGH, "drop": Verdict.DROPPED}
    if policy not in verdicts:
        raise ValueError(f"{key} is {policy!r}; use forward or drop")
    return Unjudged(verdicts[policy], reason)
