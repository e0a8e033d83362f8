"""Partitions that cannot be used now: clients wait for them, and report nothing."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from streamfilter.kafka.brokers.weak_partitions import AGAIN, LOOKS, WeakPartitions


class Brokers:
    """They report the replicas that a write needs, of each topic."""

    def __init__(self, needed: int) -> None:
        self.needed = needed

    def describe_configs(self, wanted: list[Any]) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        entry = SimpleNamespace(value=str(self.needed))
        answer.set_result({"min.insync.replicas": entry})
        return dict.fromkeys(wanted, answer)


def partition(number: int, *, leader: str | None = "a", in_sync: str = "abc") -> Any:
    return SimpleNamespace(id=number, leader=leader, replicas=[*"abc"], isr=[*in_sync])


class Watched:
    """An input and an output, and what is said of them."""

    def __init__(self, needed: int = 2) -> None:
        self.said = list[str]()
        self.brokers = Brokers(needed)
        brokers: Any = self.brokers
        self.weak = WeakPartitions(brokers, ["out"], self.said.append)
        self.input, self.output = [partition(0), partition(1)], [partition(0)]

    def look(self, times: int = LOOKS) -> str:
        for _ in range(times):
            self.weak.ask()
            self.weak.hear("in", self.input)
            self.weak.hear("out", self.output)
            self.weak.settle(["in", "out"])
        return str(self.weak)


def test_a_partition_without_a_leader_is_named_until_it_has_one() -> None:
    """A filter was "running" with a lag of 0, while a third of its input could not be read."""
    watched = Watched()
    assert watched.look() == ""
    watched.input[1] = partition(1, leader=None, in_sync="")
    assert watched.look(1) == "", "an election"
    assert watched.look(1) == "in/1 has no leader: start the brokers that hold its replicas"
    watched.input[0] = partition(0, leader=None)
    assert "in/0 has no leader" in watched.look()
    assert "(and 1 more partition)" in str(watched.weak)
    watched.input = [partition(0), partition(1)]
    assert watched.look(1) == ""
    assert watched.said[-1] == AGAIN
    assert len(watched.said) == 3


def test_an_output_with_too_few_replicas_in_sync_is_named_and_an_input_is_not() -> None:
    """It said that the way to the brokers is too slow, and to raise a timeout or a quota."""
    watched = Watched()
    watched.input[0] = watched.output[0] = partition(0, in_sync="a")
    said = watched.look(LOOKS + 1)  # the settings come with the second look
    assert said.startswith("out/0 has 1 replica in sync, and min.insync.replicas is 2, so")
    assert "so brokers refuse what is written: start those that are down" in said
    watched.brokers.needed = 1
    assert watched.look(LOOKS) == ""


def test_a_topic_with_fewer_replicas_than_it_needs_is_written_all_the_same() -> None:
    """Brokers since Kafka 4.0 need no more than there are."""
    watched = Watched(needed=4)
    assert watched.look(LOOKS + 1) == ""
    watched.output[0] = partition(0, in_sync="ab")
    assert "out/0 has 2 replicas in sync" in watched.look(LOOKS)


def test_a_topic_that_is_not_watched_any_more_is_forgotten() -> None:
    watched = Watched()
    watched.input[1] = partition(1, leader=None)
    assert watched.look() != ""
    watched.weak.settle(["out"])
    assert str(watched.weak) == ""
