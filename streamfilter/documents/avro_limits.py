"""Limits of an Avro schema: how many decoding steps a byte of its values may cost in any decoder.

A null, a fixed of size 0 and a record of such fields take no bytes. If such a record holds the next
one twice, 40 levels are 2^40 steps for a value of zero bytes, in any decoder. So the steps are
counted in the schema, before a value is read. Each named type is counted once.

Every other part of a value has at least one byte: a union its branch, an array and a map their
end. So the number of steps in a run without a byte depends on the schema alone:

    {"name": "A", "fields": [{"name": "n", "type": "null"}, {"name": "s", "type": "string"}]}
    A itself, n, s: 3 steps before a byte is read

An array may claim any number of zero-byte elements. A decoder must read only one of them, as ours
does, or refuse the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamfilter.documents.schemas import Broken

STEPS_PER_BYTE_MAX = 1_000
"""A schema that needs more steps is refused. A record with 20 columns of type null needs 21."""
STEPS_MAX = 1_000_000_000
"""Steps of a value at most: bounds the length of values if a byte may cost many steps."""

Resolve = Callable[[Any, str], tuple[Any, str, str]]
"""(schema, its namespace) → (the schema that it refers to, its kind, its full name)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of decoding a value of a type."""

    steps: int
    """The most steps before a byte is read."""
    empty: bool
    """Whether its values have no bytes."""


class Costs:
    """The costs of types, each named type counted once."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._known: dict[str, Cost | None] = {}
        """Cost by type name; None while it is being counted."""

    def of(self, schema: Any, space: str) -> Cost:
        """Return the cost of a value.

        Raises:
            Broken: it needs too many steps, or contains itself without a byte between: it never
                ends.
        """
        schema, kind, name = self._resolve(schema, space)
        if kind not in ("record", "error"):
            empty = kind == "null" or (kind == "fixed" and int(schema["size"]) == 0)
            return Cost(1, empty)
        if name not in self._known:
            self._known[name] = None
            self._known[name] = self._of_record(schema, name.rpartition(".")[0])
        found = self._known[name]
        if found is None:
            raise Broken("the schema is none: a record holds itself, and no value of it ends")
        return found

    def _of_record(self, schema: Any, space: str) -> Cost:
        fields = [self.of(each["type"], space) for each in schema["fields"]]
        steps = 1 + sum(each.steps for each in fields if each.empty)
        steps += max((each.steps for each in fields if not each.empty), default=0)
        if steps > STEPS_PER_BYTE_MAX:
            raise Broken(
                f"the schema costs too much: a byte of its values may take more than "
                f"{STEPS_PER_BYTE_MAX:,} steps, for parts without bytes"
            )
        return Cost(steps, all(each.empty for each in fields))

    def longest_value(self) -> int:
        """Return how many bytes a value may have, given the types counted so far."""
        return STEPS_MAX // max((each.steps for each in self._known.values() if each), default=1)
