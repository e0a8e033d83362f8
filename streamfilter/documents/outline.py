"""Outlines: what pointers can lead to in the values of a schema, for whoever looks at it.

Schemas may refer to themselves and fan out: a list of all that there is names what stands furthest
out first, and ends somewhere. So does the search for one path: unions of many records below each
other would multiply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from streamfilter.documents.pointers import Path

MAP = "a map"
"""What an object is whose keys no schema knows."""
STEPS_MAX = 5_000
LEVELS_MAX = 12


@dataclass(frozen=True, slots=True)
class Outline:
    """What a schema says of a value."""

    root: Any
    below: Callable[[Any], str | Iterable[tuple[Path, Any]]]
    """Says what a part of the schema is, in JSON's words, or the ways to the parts inside of it."""

    def paths(self) -> dict[Path, str]:
        """Return the ways to all that is no object or array, and what it is."""
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
        """Return the keys of the value itself, whichever of its kinds it is of."""
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
        """Return what may be at *path*: nothing if the schema does not have it."""
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
