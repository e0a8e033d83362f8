"""Arrow columns as Python values: the values that pointers lead to, and the supported types.

Only the fields that pointers name become Python values. So other fields cannot make a row
unreadable.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any
from uuid import UUID

import pyarrow as pa

from streamfilter.documents.fields.pointers import EACH, Faulty, Path, Tree
from streamfilter.model import ErrorCode

UUID_BYTES = 16


def without_views(kind: Any) -> Any:
    """Return *kind* with plain strings for views: pyarrow cannot select rows of views."""
    types = pa.types
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([each.with_type(without_views(each.type)) for each in fields])
    if types.is_map(kind):
        key, item = without_views(kind.key_type), without_views(kind.item_type)
        return pa.map_(kind.key_field.with_type(key), kind.item_field.with_type(item))
    if (make := _list_type(kind)) is not None:
        return make(kind.value_field.with_type(without_views(kind.value_type)))
    return kind


def _list_type(kind: Any) -> Callable[[Any], Any] | None:
    """Return a constructor of the plain list type of *kind*, None if *kind* is no list."""
    types = pa.types
    if types.is_list(kind):
        return pa.list_  # type: ignore[no-any-return]
    if types.is_large_list(kind):
        return pa.large_list  # type: ignore[no-any-return]
    if types.is_fixed_size_list(kind):
        return lambda field: pa.list_(field, kind.list_size)
    return None


def named_values(column: Any, tree: Tree, id_path: Path | None) -> list[Any]:
    """Return a value for each row of *column*, with only the fields that *tree* names.

    *id_path* is the path of the id below *column*, None if the id is elsewhere. For example, the
    tree ``{"text": {}}`` selects ``[{"text": "a"}, None]`` from the structs
    ``[{"text": "a", "vector": [0.5, 1]}, null]``.
    """
    kind = column.type
    if tree and pa.types.is_struct(kind):
        return _objects(column, tree, id_path)
    if EACH in tree and _list_type(kind) is not None:
        return _arrays(column, tree[EACH], _below(id_path, EACH))
    values = plain_values(column)
    return [*map(_as_id, values)] if id_path == () else values


def _below(path: Path | None, key: str) -> Path | None:
    return path[1:] if path and path[0] == key else None


def _objects(column: Any, tree: Tree, id_path: Path | None) -> list[Any]:
    names = [column.type.field(at).name for at in range(column.type.num_fields)]
    wanted = [(key, below) for key, below in tree.items() if key in names]
    keys = [key for key, _ in wanted]
    parts = [named_values(column.field(names.index(key)), below, _below(id_path, key))
             for key, below in wanted]  # fmt: skip
    rows = zip(*parts, strict=True) if parts else [()] * len(column)
    return [None if nothing else dict(zip(keys, row, strict=True))
            for nothing, row in zip(column.is_null().to_pylist(), rows, strict=True)]  # fmt: skip


def _arrays(column: Any, tree: Tree, id_path: Path | None) -> list[Any]:
    kind, count = column.type, len(column)
    if pa.types.is_fixed_size_list(kind):
        ends = [(column.offset + at) * kind.list_size for at in range(count + 1)]
    else:
        ends = column.offsets.to_pylist()
    first = ends[0] if ends else 0
    size = ends[-1] - first if ends else 0
    items = named_values(column.values.slice(first, size), tree, id_path)
    nothing = column.is_null().to_pylist()
    return [None if nothing[at] else items[ends[at] - first : ends[at + 1] - first]
            for at in range(count)]  # fmt: skip


def plain_values(column: Any) -> list[Any]:
    """Return the values of *column*; dates, times, decimals and UUIDs become text.

    Bytes that are valid UTF-8 become text, because older writers do not mark strings. A string
    that is not UTF-8 becomes `Faulty`. Bytes of a fixed size become hexadecimal, like digests.
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        values = plain_values(column.storage)
        if kind.extension_name != "arrow.uuid":
            return values
        return [None if digits is None else str(UUID(hex=digits)) for digits in values]
    if pa.types.is_dictionary(kind):
        # Each text is created once, even if many rows share it.
        values = plain_values(column.dictionary)
        return [None if at is None else values[at] for at in column.indices.to_pylist()]
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    elif pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_string(each) for each in column.cast(pa.large_binary()).to_pylist()]
    if pa.types.is_fixed_size_binary(kind):
        return [None if each is None else each.hex() for each in found]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [*map(_text_or_bytes, found)]
    return found


def _string(raw: bytes | None) -> str | None:
    """Return one string of a column that has strings that are not UTF-8."""
    found = _text_or_bytes(raw)
    if isinstance(found, bytes):
        faulty = Faulty()
        faulty.code, faulty.why = ErrorCode.BAD_UTF8, "is not UTF-8"
        return faulty
    return found


def _text_or_bytes(raw: bytes | None) -> str | bytes | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return raw


def _as_id(value: Any) -> Any:
    """Return *value* as an id: pandas turns a column of integers with nulls into floats.

    ``17.0`` becomes 17 and ``0.5`` becomes the text ``0.5``; NaN and infinities stay.
    """
    if not isinstance(value, float) or not isfinite(value):
        return value
    return int(value) if value.is_integer() else repr(value)
