"""No pattern of the package means something else to an early Python 3.11 than to a later one."""

import pkgutil
import re
from importlib import import_module
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import streamfilter

REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
SINGLE = (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)


def patterns() -> dict[str, re.Pattern[Any]]:
    """Return the compiled patterns of all modules by name."""
    found = {}
    for module in pkgutil.walk_packages(streamfilter.__path__, "streamfilter."):
        if not module.name.endswith("__main__"):
            values = vars(import_module(module.name)).items()
            found |= {f"{module.name}.{k}": v for k, v in values if isinstance(v, re.Pattern)}
    return found


def unsafe(pattern: str | bytes, flags: int) -> list[Any]:
    """Return the possessive groups that may fail after more than single characters.

    Such a group keeps what it has read before it fails, up to 3.11.4 (python/cpython#106052).
    """
    return [body for body in possessive(_parser.parse(pattern, flags)) if not kept_safe([*body])]


def possessive(part: Any) -> list[Any]:
    """Return the bodies of all possessive repeats in a parsed *part*, and of atomic groups."""
    found: list[Any] = []
    for each in part:
        if isinstance(each, tuple | list | _parser.SubPattern):
            found += possessive(each)
    if isinstance(part, tuple) and part and part[0] is op.POSSESSIVE_REPEAT:
        found.append(part[1][2])
    if isinstance(part, tuple) and part and part[0] is op.ATOMIC_GROUP:
        found.append(part[1])
    return found


def kept_safe(body: list[Any]) -> bool:
    """Return whether single characters come first, and what follows them cannot fail."""
    while body and body[0][0] in SINGLE:
        body = body[1:]
    return all(kind in REPEATS and value[0] == 0 for kind, value in body)


def test_no_possessive_group_depends_on_the_version_of_python():
    found = patterns()
    assert {"streamfilter.cleaning.masks._NUMBER", "streamfilter.similarity.digests._NUMBER"} <= {
        *found
    }
    assert [name for name, each in found.items() if unsafe(each.pattern, each.flags)] == []


@pytest.mark.parametrize("pattern", [r"(?:,\d++)*+", r"(?:\d{2}x)?+", r"(?: ?x)?+", r"(?>\d+x)"])
def test_a_pattern_that_does_is_found(pattern):
    assert unsafe(pattern, 0)
