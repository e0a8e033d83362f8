"""Who runs what under xdist: long tests first, some that wait beside some that work.

`--dist worksteal` cuts the collection into a slice of equal count for each worker. A worker that
has nothing left takes the later half of another's remaining tests. So each slice is a lane:
it begins with the files that take longest, and ends with quick tests, which are what is taken over.
Tests with a broker wait most of their time, those marked `slow` never do: one lane in four works
while the others wait. In the order of their names all lanes worked at once, and then all waited.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby

import pytest

SECONDS = {"kafka": 15.0, "slow": 1.5, "tools": 2.0}
"""Of an average test with this marker; `slow(60)` says its own. All others are quick."""
LANES_TO_ONE_THAT_WORKS = 4

File = list[pytest.Item]


def arrange(items: Sequence[pytest.Item], lanes: int) -> list[pytest.Item]:
    """Return *items* in an order such that each of *lanes* slices is as above.

    It follows from the items alone: all workers must collect the same order.
    """
    if lanes == 1:
        return list(items)
    kinds: dict[str, list[File]] = defaultdict(list)
    for _, tests in groupby(items, lambda item: item.nodeid.partition("::")[0]):
        kinds[_kind(file := list(tests))].append(file)
    working = _working(lanes, kinds)
    long = _spread(kinds["works"], working) + _spread(kinds["waits"], lanes - working)
    quick = [item for file in kinds["quick"] for item in file]
    arranged: list[pytest.Item] = []
    for left, lane in zip(range(lanes, 0, -1), long, strict=True):
        size = (len(items) - len(arranged)) // left  # as worksteal cuts
        fill = max(0, size - len(lane))
        arranged += lane + quick[:fill]
        del quick[:fill]
    return arranged + quick


def seconds(item: pytest.Item) -> float:
    """Return about how long *item* takes, 0 for a quick one."""
    marks = [mark for mark in item.iter_markers() if mark.name in SECONDS]
    own = [mark.args[0] for mark in marks if mark.args]
    return max(own or [SECONDS[mark.name] for mark in marks], default=0)


def _kind(file: File) -> str:
    if any(item.get_closest_marker("kafka") for item in file):
        return "waits"
    return "works" if any(map(seconds, file)) else "quick"


def _working(lanes: int, kinds: dict[str, list[File]]) -> int:
    """Return how many of *lanes* begin with work: all, if nothing waits, and the other way."""
    if not kinds["waits"]:
        return lanes
    return max(1, lanes // LANES_TO_ONE_THAT_WORKS) if kinds["works"] else 0


def _spread(files: Iterable[File], lanes: int) -> list[File]:
    """Give each file, the longest first, to the lane that has least to do."""
    spread: list[File] = [[] for _ in range(lanes)]
    todo = [0.0] * lanes
    for file in sorted(files, key=lambda file: -sum(map(seconds, file))):
        least = todo.index(min(todo))
        spread[least] += file
        todo[least] += sum(map(seconds, file))
    return spread
