"""Outlines: the fields of a schema that a pointer can lead to, to show and to check them.

Schemas may be recursive and fan out. So a list of paths is breadth-first and bounded. The search
for one path is bounded, too: nested unions of many records would multiply.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from streamfilter.documents.fields.pointers import Path

MAP = "a map"  # the kind of an object whose keys are not in the schema
STEPS_MAX = 5_000
LEVELS_MAX = 12


class Outline(Struct, frozen=True):
    """The structure of a value, as a schema describes it."""

    root: Any
    below: Callable[[Any], str | Iterable[tuple[Path, Any]]]
    """Returns the kind of a part of the schema, in JSON's words, or the paths to its own parts."""

    def paths(self) -> dict[Path, str]:
        """Return the path to each value that is not an object or array, and its kind."""
        found: dict[Path, str] = {}
        parts: deque[tuple[Path, Any]] = deque([((), self.root)])
        for _ in range(STEPS_MAX):
            if not parts:
                break
            path, part = parts.popleft()
            inside = self.below(part)
            if isinstance(inside, str):
                found.setdefault(path, inside)
            elif len(path) < LEVELS_MAX and len(parts) < STEPS_MAX:
                parts.extend(((*path, *way), each) for way, each in inside)
        return found

    def keys(self) -> list[str]:
        """Return the keys of the value itself, for all kinds that it may have."""
        found: dict[str, None] = {}
        parts = deque([self.root])
        while parts:
            inside = self.below(parts.popleft())
            for way, each in () if isinstance(inside, str) else inside:
                if way:
                    found[way[0]] = None
                else:
                    parts.append(each)
        return [*found]

    def at(self, path: Path) -> set[str]:
        """Return the kinds that a value at *path* may have; none if the schema lacks the path."""
        found: set[str] = set()
        parts, asked = [(path, self.root)], 0
        while parts and (asked := asked + 1) <= STEPS_MAX:
            left, part = parts.pop()
            inside = self.below(part)
            if isinstance(inside, str):
                if not left or inside == MAP:
                    found.add(inside)
                continue
            for way, each in inside:
                if left[: len(way)] == way:
                    parts.append((left[len(way) :], each))
                elif not left:
                    found.add("an object or array")
        return found
