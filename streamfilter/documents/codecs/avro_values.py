"""Avro: reads the named fields of values, with Apache's library and a budget of steps.

The library parses schemas, skips fields, and knows the types. This module keeps the cost of hostile
schemas and values in proportion to their bytes, which the library does not:

- A record without bytes (nulls, a fixed of size 0) may hold the next one twice: 40 levels are 2^40
  steps for no byte. Each part that is read or skipped takes a step from a budget.
- The library counts the least bytes of an array's elements, which doubles in the same way. So
  arrays and maps are read here. If elements have no bytes, one is read, whatever count is claimed.
- Its messages repeat the schema at each level, so a schema's depth, names and fields are limited.

A renamed field is also found by its aliases. A logical type is read as its underlying type: a time
is a number, a decimal is bytes. A UUID is a string.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from avro.errors import AvroException
from avro.io import BinaryDecoder, DatumReader
from avro.name import Names
from avro.schema import Schema, make_avsc_object

from streamfilter.documents.codecs.outline import MAP, Outline
from streamfilter.documents.codecs.schemas import NAME_MAX, Broken
from streamfilter.documents.fields.pointers import EACH, Path, Tree, Unreadable, tree_of
from streamfilter.documents.fields.strict_json import check_depth

STEPS_FREE, STEPS_PER_BYTE, STEPS_MAX = 1_000, 50, 20_000_000
"""A value may take some steps, one more for each part of its schema, and some for each byte read,
up to the maximum. A record with 20 columns of type null takes 21 steps and has a byte or more."""
DEPTH_MAX = 100  # nesting of a schema's JSON: a schema within one is two or three levels
FIELDS_MAX = 5_000  # fields of a record: the library compares each name with all others
SHOWN_MAX = 300  # characters of the library's message that are shown
UUID_BYTES = 16
_UUID = "streamfilter.uuid"
"""Property of a fixed type that is a UUID: the library warns of logical types that it lacks."""
_IN_JSON = {
    "enum": "a string", "string": "a string", "int": "an integer", "long": "an integer",
    "float": "a number", "double": "a number", "boolean": "a boolean",
}  # fmt: skip


class AvroValues:
    """Reads values of one schema."""

    def __init__(self, text: str, named: Sequence[str] = ()) -> None:
        """Parse the schema *text*, which may refer to those *named*, or raise `Broken`."""
        self._parts = STEPS_FREE
        with _broken_if_none():
            names = _Names()
            for each in (*named, text):
                check_depth(each.encode(), DEPTH_MAX)
                plain = json.loads(each, object_hook=self._plain)
                known = names.get_name(plain) if isinstance(plain, str) else None
                self.schema = known or make_avsc_object(plain, names, False, False)

    def _plain(self, part: dict[str, Any]) -> Any:
        """Return a JSON object of a schema in a form that the library takes, and count its parts.

        It has no logical type. ``{"type": T}`` becomes T, which may be any schema.
        """
        fields = part.get("fields") or ()
        self._parts += 1 + len(fields)
        if len(fields) > FIELDS_MAX:
            raise Broken(f"the schema is none: a record has more than {FIELDS_MAX:,} fields")
        if any(len(str(part.get(key, ""))) > NAME_MAX for key in ("name", "namespace")):
            raise Broken(f"the schema is none: a name of more than {NAME_MAX:,} characters")
        if part.pop("logicalType", None) == "uuid" and part.get("size") == UUID_BYTES:
            part[_UUID] = True
        inner = "type" in part and part.keys().isdisjoint(("name", "items", "values"))
        return part["type"] if inner else _Part(part)

    def outline(self) -> Outline:
        return Outline(self.schema, _below)

    def reader(self, paths: Sequence[Path]) -> AvroReader:
        return AvroReader(self.schema, tree_of(paths), self._parts)


class _Part(dict[str, Any]):
    """An object that is not shown: an error's message would repeat it at each level around it."""

    def __repr__(self) -> str:
        return "…"

    def keys(self) -> Any:
        """Return what is shown instead of the names of known types."""
        return "…"


class _Names(Names):  # type: ignore[misc]
    """The named types so far. A name without a namespace may be one of an enclosing schema's."""

    def __init__(self) -> None:
        super().__init__(validate_names=False)
        self.names = _Part()

    def get_name(self, name_attr: str, space_attr: str | None = None) -> Any:
        return super().get_name(name_attr, space_attr) or self.names.get(name_attr)

    def has_name(self, name_attr: str, space_attr: str | None = None) -> bool:
        return self.get_name(name_attr, space_attr) is not None


@contextmanager
def _broken_if_none() -> Iterator[None]:
    try:
        yield
    except Unreadable:
        raise Broken(f"the schema is none: it nests deeper than {DEPTH_MAX} levels") from None
    except (AvroException, ValueError, TypeError, LookupError, AttributeError, RecursionError) as e:
        said = f"{type(e).__name__} {e}"[:SHOWN_MAX]
        raise Broken(f"the schema is none: {said}") from None


def _below(schema: Any) -> str | list[tuple[Path, Any]]:
    """Return a schema's kind, or the paths to the schemas inside it."""
    match schema.type:
        case "union" | "error_union":
            return [((), each) for each in schema.schemas]
        case "record" | "error":
            return [((name,), field.type) for field in schema.fields for name in _names_of(field)]
        case "array":
            return [((EACH,), schema.items)]
        case "map":
            return MAP
        case "null":
            return []
        case kind:
            return "a string" if schema.get_prop(_UUID) else _IN_JSON.get(kind, "bytes")


def _names_of(field: Any) -> tuple[str, ...]:
    aliases = field.get_prop("aliases")
    return (field.name, *(aliases if isinstance(aliases, list) else ()))


class AvroReader(DatumReader):  # type: ignore[misc]
    """Reads the parts of a value that a tree of pointers names, and skips the others.

    The library passes a reader's schema down beside the writer's; here the tree takes its place.
    """

    def __init__(self, schema: Schema, tree: Tree, parts: int) -> None:
        super().__init__(schema)
        self._schema, self._tree, self._parts = schema, tree, parts
        self._plans: dict[tuple[int, int], list[tuple[str | None, Any, Tree]]] = {}

    def value(self, data: bytes, at: int) -> tuple[Any, int]:
        """Return the value at *at* and the offset after it, or raise one of `BROKEN_VALUE`."""
        decoder = _Value(data, at, self._parts)
        return self.read_data(self._schema, self._tree, decoder), decoder.at

    def read_data(self, schema: Any, tree: Any, decoder: Any) -> Any:
        """Return the part at the decoder's offset, as far as *tree* names it."""
        decoder.step()
        kind = schema.type
        if kind == "string":
            return decoder.read_utf8()
        if kind in ("record", "error"):
            found = {}
            for key, part, below in self._plan(schema, tree):
                if key is None:
                    self.skip_data(part, decoder)
                else:
                    found[key] = self.read_data(part, below, decoder)
            return found
        if kind in ("union", "error_union"):
            return self.read_data(_choice(schema.schemas, decoder), tree, decoder)
        if kind == "array" and EACH in tree:
            below = tree[EACH]
            return [self.read_data(schema.items, below, decoder) for _ in _elements(decoder)]
        if kind == "map":
            return self._entries(schema, tree, decoder)
        if kind == "enum":
            return _choice(schema.symbols, decoder)
        if kind == "array":
            self.skip_array(schema, decoder)
            return []
        plain: Any = super().read_data(schema, schema, decoder)
        return str(UUID(bytes=plain)) if schema.get_prop(_UUID) else plain

    def _plan(self, record: Any, tree: Tree) -> list[tuple[str | None, Any, Tree]]:
        """Return (key, schema, tree below) for each field; the key is None if it is skipped."""
        known = self._plans.get((id(record), id(tree)))
        if known is None:
            known = []
            own = {field.name for field in record.fields}
            for field in record.fields:
                names = [each for each in _names_of(field) if each == field.name or each not in own]
                key = next((each for each in names if each in tree), None)
                known.append((key, field.type, {} if key is None else tree[key]))
            self._plans[id(record), id(tree)] = known
        return known

    def _entries(self, schema: Any, tree: Tree, decoder: _Value) -> dict[str, Any]:
        """Return the named entries of a map; a key that is not read may be no UTF-8."""
        wanted = {key.encode(): key for key in tree}
        found = {}
        for _ in _elements(decoder):
            key = wanted.get(decoder.read_bytes())
            if key is None:
                self.skip_data(schema.values, decoder)
            else:
                found[key] = self.read_data(schema.values, tree[key], decoder)
        return found

    def skip_data(self, schema: Any, decoder: Any) -> None:
        decoder.step()
        if schema.type == "string":
            decoder.skip_bytes()
        else:
            super().skip_data(schema, decoder)

    def skip_union(self, schema: Any, decoder: Any) -> None:
        self.skip_data(_choice(schema.schemas, decoder), decoder)

    def skip_array(self, schema: Any, decoder: Any) -> None:
        """Skip an array, whose elements are checked."""
        for _ in _elements(decoder):
            self.skip_data(schema.items, decoder)

    def skip_map(self, schema: Any, decoder: Any) -> None:
        """Skip a map, whose entries are checked."""
        for _ in _elements(decoder):
            decoder.skip_bytes()
            self.skip_data(schema.values, decoder)


def _choice(choices: Sequence[Any], decoder: _Value) -> Any:
    which = decoder.read_long()
    if not 0 <= which < len(choices):
        raise Broken("a choice that the schema does not have")
    return choices[which]


def _elements(decoder: _Value) -> Iterator[None]:
    """Yield for each element of an array or a map: for one of each block if it has no bytes."""
    while count := decoder.read_long():
        if count < 0:
            count = -count
            decoder.read_long()
        for _ in range(count):
            begun = decoder.at
            yield
            if decoder.at == begun:
                break  # all others are the same


class _Value(BinaryDecoder):  # type: ignore[misc]
    """The bytes of a value, with a budget of steps that grows by the bytes read."""

    def __init__(self, data: bytes, at: int, steps: int) -> None:
        self._data, self.at = data, at
        self._begun, self._base = at, steps
        self._left = self._given = steps

    def step(self) -> None:
        """Take one step of the budget, or raise `Broken` if it is used up."""
        self._left -= 1
        if self._left < 0:
            given = min(self._base + STEPS_PER_BYTE * (self.at - self._begun), STEPS_MAX)
            self._left += given - self._given
            self._given = given
            if self._left < 0:
                raise Broken("it takes more steps than its bytes allow")

    def read(self, n: int) -> bytes:
        begun = self.at
        self.skip(n)
        return self._data[begun : self.at]

    def skip(self, n: int) -> None:
        end = self.at + n
        if n < 0 or end > len(self._data):
            raise Broken("a length beyond the end")
        self.at = end

    def read_long(self) -> int:
        data, at = self._data, self.at
        byte = data[at]
        at += 1
        value, shift = byte & 127, 7
        while byte > 127:
            if shift > 63:
                raise Broken("an integer of more than 64 bits")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
        self.at = at
        return (value >> 1) ^ -(value & 1)

    def skip_long(self) -> None:
        self.read_long()

    def skip_bytes(self) -> None:
        self.skip(self.read_long())
