"""A static member that is killed between the two steps of a rebalance, and comes back at once."""

import random
from types import SimpleNamespace
from unittest.mock import Mock

from streamfilter.kafka.ports.membership import GroupMembership
from streamfilter.kafka.ports.unowned_partitions import LOOK_SECONDS, UnownedPartitions, assigned
from streamfilter.killpoints import VARIABLE
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage

SEED = 20_261_126
PARTITIONS, DOCUMENTS = 4, 40
SESSION = "40s"  # longer than the dead member is away: nothing else begins a rebalance


def member(stage: Stage, name: str, *, dies_at: str = "") -> FilterProcess:
    kafka = {"session_timeout": SESSION, "consumer": {"group.instance.id": name}}
    environment = {VARIABLE: dies_at} if dies_at else {}
    scope = {"scope": "partition", "path": str(stage.directory / name)}
    index = scope | {"seed_file": str(stage.directory / "seed")}
    return stage.start(state=name, environment=environment, kafka=kafka, index=index)


def test_what_it_had_revoked_gets_an_owner_though_it_returns_without_a_rebalance(make_stage):
    """Its partitions had no owner until the next rebalance, which nothing began."""
    stage = make_stage(partitions=PARTITIONS)
    first = member(stage, "a", dies_at="close.revoked:1")
    stage.produce(records(texts(random.Random(SEED), DOCUMENTS), partitions=PARTITIONS))
    stage.drain(first)
    other = member(stage, "b")
    assert first.wait_for_exit() == -9, first.with_log("did not die as it revoked")
    again = member(stage, "a")
    both = (again, other)
    again.wait_for(lambda _: _owned(both) == PARTITIONS, what="owners of all partitions")
    assert any("have no owner" in each.log.read_text() for each in both)
    more = texts(random.Random(SEED + 1), DOCUMENTS)
    stage.produce(records(more, partitions=PARTITIONS, first=DOCUMENTS))
    again.wait_for(lambda _: len(verdicts(stage)) == 2 * DOCUMENTS, what="all verdicts")


def test_a_member_that_lost_its_partition_looks_again_whether_it_has_an_owner(monkeypatch):
    """It looked once, after its start. A broker that came back gave the partition to no member."""
    consumer, admin, now = Mock(), Mock(), [0.0]
    consumer.poll.return_value, consumer.assignment.return_value = None, []
    clock = SimpleNamespace(monotonic=lambda: now[0])
    unowned = UnownedPartitions(admin, clock, "g", "t", 1)
    monkeypatch.setattr(unowned._aside, "begin", lambda ask: ask)  # at once
    owner = b"\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0\0\0"

    def assigns(assignment: bytes) -> None:
        group = SimpleNamespace(state="Stable", members=[SimpleNamespace(assignment=assignment)])
        admin.list_groups.return_value = [group]

    def polled() -> int:
        for _ in range(6):
            now[0] += LOOK_SECONDS
            membership.poll(0)
        return int(consumer.unsubscribe.call_count)

    membership = GroupMembership(consumer, "t", unowned)
    called = consumer.subscribe.call_args.kwargs
    assigns(owner)
    called["on_assign"](consumer, [SimpleNamespace(partition=0)])
    assert polled() == 0
    called["on_lost"](consumer, [SimpleNamespace(partition=0)])
    assigns(b"")
    assert polled() == 1, "it leaves the group and joins again, once"


def _owned(processes: tuple[FilterProcess, ...]) -> int:
    return sum(len(process.status().get("positions", {})) for process in processes)


def test_an_assignment_names_the_partitions_of_each_topic() -> None:
    encoded = b"\0\1\0\0\0\2\0\1t\0\0\0\2\0\0\0\5\0\0\0\7\0\1u\0\0\0\1\0\0\0\3\0\0\0\0"
    assert list(assigned(encoded, "t")) == [5, 7]
    assert list(assigned(encoded, "u")) == [3]
    assert not list(assigned(encoded, "v"))
    assert not list(assigned(b"", "t"))
