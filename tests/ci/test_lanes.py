"""What each of xdist's workers begins with, and what is left to the end."""

from types import SimpleNamespace

import pytest
from xdist.scheduler import WorkStealingScheduling

from tests.support.lanes import arrange, seconds


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


def files(items):
    return list(dict.fromkeys(item.nodeid[0] for item in items))


class Worker:
    """What xdist's scheduler asks of one."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, indices):
        self.given = indices


def slices(items, workers):
    """As xdist deals them out at first."""
    config = SimpleNamespace(getvalue=lambda name: ["popen"] * workers)
    scheduling = WorkStealingScheduling(config)
    nodes = [Worker() for _ in range(workers)]
    for node in nodes:
        scheduling.add_node(node)
    for node in nodes:
        scheduling.add_node_collection(node, [item.nodeid for item in items])
    scheduling.schedule()
    return [[items[index] for index in node.given] for node in nodes]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 200])
def test_nothing_is_lost_or_doubled(workers):
    assert sorted(map(id, arrange(ITEMS, workers))) == sorted(map(id, ITEMS))


def test_each_worker_begins_with_what_takes_longest_and_one_in_four_never_waits():
    lanes = slices(arrange(ITEMS, 4), 4)
    assert [files(lane)[:3] for lane in lanes] == [
        ["f", "b", "h"], ["e", "a"], ["i", "a", "d"], ["c", "g", "d"]
    ]  # fmt: skip
    for lane in lanes:
        assert len(lane) == len(ITEMS) // 4
        assert not any(map(seconds, lane[-5:])), "quick ones are what others take over"
