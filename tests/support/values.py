"""Changed copies of values: the package's are Structs, the tests' own are dataclasses."""

import dataclasses
from typing import TypeVar

from msgspec import Struct, structs

Value = TypeVar("Value")


def replace(value: Value, /, **changes: object) -> Value:
    """Return a copy of *value* with these *changes*."""
    if isinstance(value, Struct):
        return structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]
