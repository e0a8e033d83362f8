"""What a test needs besides Python, found by the names that its code reaches.

A test is marked by the names in its own code, its fixtures and the helpers of `tests` that they
call. `kafka`: one of them starts a real broker. `tools`: one looks for a program of Debian. So no
mark is set by hand or forgotten. What is left and starts a Python is `slow`. All others are
`quick`, the inner loop, unless they say by hand that they are `slow` or `long`.
"""

import inspect
import os
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}
"""There a missing program or broker is a failure; elsewhere it is a skip."""
NAMES = {
    "kafka": {"RealKafka", "RealRegistry", "require_kafka"},
    "tools": {"tool", "chromium", "ShiftedClock"},
}
NOT_QUICK = {*NAMES, "slow", "long"}
STARTS = {"executable", "Forge", "FilterProcess"}
"""Names of what starts a Python. That takes .3 to 1 s of processor time before the first line."""


def mark(items: Iterable[pytest.Item]) -> None:
    """Add the markers to the tests among *items*."""
    seen: dict[object, set[str]] = {}
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        names: set[str] = set()
        for function in (item.function, *_fixtures(item)):
            if function not in seen:
                seen[function] = reached(function)
            names |= seen[function]
        for marker, needed in NAMES.items():
            if names & needed:
                item.add_marker(marker)
        if not NOT_QUICK & {marker.name for marker in item.iter_markers()}:
            item.add_marker("slow" if names & STARTS else "quick")


def is_long(item: pytest.Item) -> bool:
    """Return whether a test is of the long run."""
    return item.get_closest_marker("long") is not None


def _fixtures(item: pytest.Function) -> Iterator[Any]:
    """Yield the functions of all fixtures of a test, those of fixtures too."""
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        yield definitions[-1].func


def reached(start: Any) -> set[str]:
    """Return the global names that *start* uses, and the functions of `tests` behind them."""
    names: set[str] = set()
    todo, done = [start], set()
    while todo:
        function = inspect.unwrap(todo.pop())
        if not isinstance(function, FunctionType) or function in done:
            continue
        done.add(function)
        found = set(_names(function.__code__))
        names |= found
        for name in found & function.__globals__.keys():
            target = function.__globals__[name]
            if getattr(target, "__module__", "").startswith("tests."):
                todo.append(target)
    return names


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
