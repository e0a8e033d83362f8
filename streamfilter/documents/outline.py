"""Outlines: what pointers can lead to in the values of a schema, for whoever looks at it.

Schemas may refer to themselves and fan out; an outline names what stands furthest out first, and
ends somewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from streamfilter.documents.pointers import Path

Outline = dict[Path, str]
"""Where something stands that is no object → what it is, in JSON's words, or ``a map``: an object
whose keys no schema knows."""
MAP = "a map"
STEPS_MAX = 5_000
LEVELS_MAX = 12

Node = TypeVar("Node")


def outline_of(root: Node, below: Callable[[Node], str | Iterable[tuple[Path, Node]]]) -> Outline:
    """Return the outline of *root*; *below* says what a node is, or the way to those below it."""
    found: Outline = {}
    nodes: deque[tuple[Path, Node]] = deque([((), root)])
    for _ in range(STEPS_MAX):
        if not nodes:
            break
        path, node = nodes.popleft()
        inside = below(node)
        if isinstance(inside, str):
            found.setdefault(path, inside)
        elif len(path) < LEVELS_MAX and len(nodes) < STEPS_MAX:
            nodes.extend(((*path, *way), each) for way, each in inside)
    return found
