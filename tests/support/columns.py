"""Columns side by side: every array that a value of columns holds, by its name."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def columns_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each column of *value*, and of the columns that it is made of."""
    for field in fields(value):
        column = getattr(value, field.name)
        if is_dataclass(column):
            yield from columns_of(column)
        else:
            yield field.name, np.asarray(column)


def same_columns(one: Any, other: Any) -> bool:
    pairs = zip(columns_of(one), columns_of(other), strict=True)
    return all(np.array_equal(ours, theirs) for (_, ours), (_, theirs) in pairs)
