"""Avro: compiles a writer's schema to a function that decodes only named fields.

The schema is compiled once into functions over bytes, each from an offset to (value, next offset).
Fields without a pointer are skipped, but their bytes are checked. A value is broken if it is cut
short, has bytes left over, or holds an impossible length anywhere.

The cost is linear in the number of bytes:

- If the elements of an array have no bytes, one of them is read, whatever count it claims.
- A part without bytes has a step only if a pointer names it.
- A record of one part is compiled to that part.
- `avro_limits` refuses a schema that would cost any decoder too much.

(fastavro does not check skipped fields: truncated values seem whole, negative lengths cause endless
loops, and nested records of a recursive schema overflow the stack of the process.)

Compiling takes time in proportion to the size of the schema times that of the pointers. Each named
type is compiled once for each place that pointers lead to.

A renamed field is also found by its aliases. A logical type is decoded as its underlying type: a
time is a number, a decimal is bytes. A UUID is a string.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from streamfilter.documents.avro_limits import Costs
from streamfilter.documents.avro_wire import (
    PRIMITIVES,
    UUID_BYTES,
    Read,
    Skip,
    array_reader,
    blocks_skipper,
    enum_reader,
    fixed_reader,
    fixed_skipper,
    map_reader,
    nothing_of,
    skip_bytes,
    skip_long,
    texts_together,
    union_reader,
    union_skipper,
    uuid_reader,
)
from streamfilter.documents.outline import MAP, Outline
from streamfilter.documents.pointers import EACH, Path, Tree, tree_of
from streamfilter.documents.schemas import NAME_MAX, Broken


@dataclass(frozen=True, slots=True)
class AvroReader:
    """A compiled schema: reads its values."""

    read: Read
    longest: int
    """Bytes of a value at most, from `avro_limits`."""


def compile_avro(text: str, paths: Sequence[Path], named: Sequence[str] = ()) -> AvroReader:
    """Return the reader of values of the schema *text*; it decodes the fields that *paths* name.

    *named* are the schemas that it refers to.

    Raises:
        Broken: it is not a schema.
    """
    with _broken_if_none():
        compiler = _Compiler(text, named)
        read = compiler.read(compiler.schema, "", tree_of(paths))
        return AvroReader(read, compiler.costs.longest_value())


def outline_of_avro(text: str, named: Sequence[str] = ()) -> Outline:
    """Return what pointers can lead to in values of the schema *text*.

    Raises:
        Broken: it is not a schema.
    """
    with _broken_if_none():
        compiler = _Compiler(text, named)
        outline = Outline((compiler.schema, ""), compiler.below)
        outline.paths()  # raises if it is not a schema
        return outline


_TOO_MUCH = (RecursionError, ArithmeticError)


@contextmanager
def _broken_if_none() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, *_TOO_MUCH) as error:
        raise Broken(f"the schema is none: {type(error).__name__} {error}") from None


class _Compiler:
    """Compiles schemas to functions; named types are looked up by their full names."""

    def __init__(self, text: str, named: Sequence[str]) -> None:
        self._named: dict[str, tuple[Any, str]] = {}
        """Full name → (its schema, the namespace inside it)."""
        self._skips: dict[str, Skip] = {}
        self._reads: dict[tuple[str, int], Read] = {}
        """By (a record's full name, identity of the tree of pointers into it)."""
        for each in (*named, text):
            self.schema = json.loads(each)
            self.learn(self.schema, "")
        self.costs = Costs(self._record_named)

    def learn(self, schema: Any, space: str) -> None:
        """Remember every named type of *schema*."""
        if isinstance(schema, list):
            for each in schema:
                self.learn(each, space)
        elif isinstance(schema, dict):
            kind = schema["type"]
            if kind in ("record", "error", "enum", "fixed"):
                full = _full_name(schema["name"], schema.get("namespace", space))
                space = full.rpartition(".")[0]
                self._named[full] = schema, space
            for each in schema.get("fields", ()) if kind in ("record", "error") else ():
                self.learn(each["type"], space)
            for key in ("items", "values"):
                if key in schema:
                    self.learn(schema[key], space)
            if isinstance(kind, dict | list):
                self.learn(kind, space)

    def below(self, node: tuple[Any, str]) -> str | list[tuple[Path, tuple[Any, str]]]:
        """Return a schema's kind, or the paths to the schemas inside it."""
        schema, kind, space = self._resolved(*node)
        match kind:
            case "union":
                return [((), (each, space)) for each in schema]
            case "record" | "error":
                return [
                    ((name,), (field["type"], space))
                    for field in schema["fields"]
                    for name in (field["name"], *field.get("aliases", ()))
                ]
            case "array":
                return [((EACH,), (schema["items"], space))]
            case "null":
                return []
            case "fixed" if _is_uuid(schema):
                return "a string"
            case _:
                return _IN_JSON.get(kind, "bytes")

    def read(self, schema: Any, space: str, tree: Tree) -> Read:
        """Return the reader of a value: it decodes what *tree* names; other objects stay empty."""
        schema, kind, space = self._resolved(schema, space)
        match kind:
            case "union":
                return union_reader([self.read(each, space, tree) for each in schema])
            case "record" | "error":
                key = _full_name(schema["name"], space), id(tree)
                if key not in self._reads:
                    self._reads[key] = self._record_reader(schema, space, tree)
                return self._reads[key]
            case "array" if EACH in tree:
                return array_reader(self.read(schema["items"], space, tree[EACH]))
            case "array":
                return nothing_of(self.skip(schema, space), list)
            case "map":
                values = schema["values"]
                wanted = {key: self.read(values, space, each) for key, each in tree.items()}
                return map_reader(wanted, self.skip(values, space))
            case "enum":
                return enum_reader(schema["symbols"])
            case "fixed":
                uuid = _is_uuid(schema)
                return uuid_reader() if uuid else fixed_reader(int(schema["size"]))
            case _:
                return PRIMITIVES[kind][0]

    def _record_reader(self, schema: Any, space: str, tree: Tree) -> Read:
        self.costs.of(schema, space)
        names = {field["name"] for field in schema["fields"]}
        steps: list[tuple[str | None, Any]] = []
        for field in schema["fields"]:
            known = (field["name"], *(a for a in field.get("aliases", ()) if a not in names))
            key = next((name for name in known if name in tree), None)
            kind = field["type"]
            if key is not None:
                steps.append((key, self.read(kind, space, tree[key])))
            elif not self.costs.of(kind, space).empty:
                steps.append((None, self.skip(kind, space)))
        steps = texts_together(steps)

        def read(data: bytes, at: int) -> tuple[Any, int]:
            record = {}
            for key, step in steps:
                if key is None:
                    at = step(data, at)
                else:
                    record[key], at = step(data, at)
            return record, at

        return read

    def skip(self, schema: Any, space: str) -> Skip:
        """Return the function that skips a value."""
        schema, kind, space = self._resolved(schema, space)
        match kind:
            case "union":
                return union_skipper([self.skip(each, space) for each in schema])
            case "record" | "error":
                return self._record_skipper(schema, space)
            case "array":
                return blocks_skipper(self.skip(schema["items"], space))
            case "map":
                value = self.skip(schema["values"], space)
                return blocks_skipper(lambda data, at: value(data, skip_bytes(data, at)))
            case "enum":
                return skip_long
            case "fixed":
                return fixed_skipper(int(schema["size"]))
            case _:
                return PRIMITIVES[kind][1]

    def _record_skipper(self, schema: Any, space: str) -> Skip:
        """Return the only skipper of this record type.

        A recursive record finds itself in `_skips` at run time.
        """
        self.costs.of(schema, space)
        name = _full_name(schema["name"], space)
        if name in self._skips:
            return self._skips[name]
        skips = self._skips
        skips[name] = lambda data, at: skips[name](data, at)
        kinds = [field["type"] for field in schema["fields"]]
        steps = [self.skip(kind, space) for kind in kinds if not self.costs.of(kind, space).empty]

        def skip(data: bytes, at: int) -> int:
            for step in steps:
                at = step(data, at)
            return at

        skips[name] = steps[0] if len(steps) == 1 else skip
        return skips[name]

    def _record_named(self, schema: Any, space: str) -> tuple[Any, str, str]:
        """Return the schema referred to, its kind, and its full name if it is a record."""
        schema, kind, space = self._resolved(schema, space)
        record = kind in ("record", "error")
        return schema, kind, _full_name(schema["name"], space) if record else ""

    def _resolved(self, schema: Any, space: str) -> tuple[Any, str, str]:
        """Return the schema referred to, its kind, and the namespace inside it."""
        while True:
            if isinstance(schema, list):
                return schema, "union", space
            if isinstance(schema, str):
                if schema in PRIMITIVES:
                    return schema, schema, space
                full = _full_name(schema, space)
                schema, space = self._named.get(full) or self._named[schema]
                return schema, schema["type"], space
            kind = schema["type"]
            if isinstance(kind, str) and kind in _COMPLEX:
                if "name" in schema:
                    full = _full_name(schema["name"], schema.get("namespace", space))
                    space = full.rpartition(".")[0]
                return schema, kind, space
            schema = kind  # {"type": "string", "logicalType": …}


_IN_JSON = {
    "map": MAP, "enum": "a string", "string": "a string", "int": "an integer",
    "long": "an integer", "float": "a number", "double": "a number", "boolean": "a boolean",
}  # fmt: skip
_COMPLEX = ("record", "error", "enum", "fixed", "array", "map")


def _is_uuid(fixed: Any) -> bool:
    return fixed.get("logicalType") == "uuid" and int(fixed["size"]) == UUID_BYTES


def _full_name(name: str, space: str) -> str:
    full = name if "." in name or not space else f"{space}.{name}"
    if len(full) > NAME_MAX:
        raise ValueError(f"a name of {len(full)} characters")
    return full
