"""Columns side by side: every array that a value of columns holds, by its name."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct


def columns_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each column of *value*, and of the columns that it is made of."""
    for name in value.__struct_fields__:
        column = getattr(value, name)
        if isinstance(column, Struct):
            yield from columns_of(column)
        else:
            yield name, np.asarray(column)


def same_columns(one: Any, other: Any) -> bool:
    pairs = zip(columns_of(one), columns_of(other), strict=True)
    return all(np.array_equal(ours, theirs) for (_, ours), (_, theirs) in pairs)
