"""A field of a record, as the configuration writes it: its kind, or its kind and its weight."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from streamfilter.config.settings.types import check_pointer
from streamfilter.entities.joined import pointers_of
from streamfilter.entities.kinds import FIELD_KINDS


def _check_place(field: str) -> str:
    for pointer in pointers_of(field):
        check_pointer(pointer)
    return field


FieldPlace = Annotated[
    str, AfterValidator(_check_place), WithJsonSchema({"type": "string", "pattern": "^(/.*)$"})
]
"""JSON Pointer of a field, or several of them: ``/last_name + /first_name``."""

WEIGHTS = (0.1, 10.0)
"""Least and highest weight of a field."""


def _field(value: object) -> object:
    """Return the kind and the weight of a field.

    Raises `ValueError`: *value* is neither a kind nor a mapping of these two.
    """
    given = {"kind": value} if isinstance(value, str) else value
    if isinstance(given, dict) and set(given) <= {"kind", "weight"}:
        kind, weight = given.get("kind"), given.get("weight", 1)
        known = isinstance(kind, str) and kind in FIELD_KINDS
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if known and number and WEIGHTS[0] <= weight <= WEIGHTS[1]:
            return kind, float(weight)
    elif isinstance(value, tuple | list) and len(value) == 2:
        return tuple(value)
    raise ValueError(
        f"expected {', '.join(FIELD_KINDS)}, or {{kind: name, weight: 2}} (weights: 0.1 to 10)"
    )


def _written(field: tuple[str, float]) -> object:
    kind, weight = field
    return kind if weight == 1 else {"kind": kind, "weight": weight}


_KIND = {"enum": [*FIELD_KINDS]}
FieldOfRecord = Annotated[
    tuple[str, float],
    BeforeValidator(_field),
    PlainSerializer(_written),
    WithJsonSchema({
        "anyOf": [
            _KIND,
            {
                "type": "object",
                "required": ["kind"],
                "additionalProperties": False,
                "properties": {
                    "kind": _KIND,
                    "weight": {"type": "number", "minimum": WEIGHTS[0], "maximum": WEIGHTS[1]},
                },
            },
        ]
    }),
]  # fmt: skip
"""How a field is compared: its kind, and its weight in the score."""
