"""What each of xdist's workers begins with, and what is left to the end."""

from types import SimpleNamespace

import pytest

from tests.support.cases import cases
from tests.support.session.lanes import arrange


def item(name, *marks):
    """A test as far as its order asks for it."""
    marked = {mark.name: mark for mark in (getattr(pytest.mark, name).mark for name in marks)}
    return SimpleNamespace(
        nodeid=name, iter_markers=lambda: iter(marked.values()), get_closest_marker=marked.get
    )


def some(file, count, *marks):
    return [item(f"{file}::test_{number}", *marks) for number in range(count)]


ITEMS = [
    *some("a", 40), *some("b", 4, "slow"), *some("c", 3, "kafka"), *some("d", 30),
    *some("e", 7, "kafka"), *some("f", 9, "slow"), *some("g", 2, "kafka"), *some("g", 2),
    *some("h", 5, "tools"), *some("i", 6, "kafka"),
]  # fmt: skip


@cases("workers", [1, 2, 3, 4, 8, 200])
def test_nothing_is_lost_or_doubled(workers):
    assert sorted(map(id, arrange(ITEMS, workers))) == sorted(map(id, ITEMS))
