"""A process of the group that takes over from the one of the story."""

from collections.abc import Sequence

from streamfilter.engine.messages.changelog_header import SUCCESSOR, Successor, encode_successor
from streamfilter.engine.parts import Parts
from streamfilter.engine.ports import Membership, Outgoing, Retriable
from streamfilter.engine.start_checks import Names
from streamfilter.engine.trimming import Trimming
from streamfilter.model import Positions
from streamfilter.tasks.plan import Plan
from streamfilter.tasks.service import Service
from tests.simulator.cluster.broker import Partition
from tests.simulator.cluster.log import CHANGELOG, INPUT, SimChangelog, SimSink, SimSource
from tests.simulator.cluster.membership import SimClock, SimMembership
from tests.simulator.process import LATENCY, Process, Teller
from tests.simulator.world import Life
from tests.support.values import replace

NEW = "new"
NEW_CHANGELOG = f"{NEW}.changelog"


class NewChangelog(SimChangelog):
    """The new group's changelog."""

    def _changelog(self) -> Partition:
        return self._broker.topics[NEW_CHANGELOG][0]


class NewSink(SimSink):
    """Its transactions, under any id."""

    def _changelog(self) -> Partition:
        return self._broker.topics[NEW_CHANGELOG][0]

    def produce(self, records: Sequence[Outgoing]) -> None:
        self._call("produce")
        topics = self._broker.topics
        self._send([(topics[r.topic][r.partition], _stored(r)) for r in records])


def _stored(record: Outgoing) -> Outgoing | bytes:
    return record if record.topic != CHANGELOG or record.value is None else record.value


class SimPredecessor(SimSource):
    """`ports.Predecessor`: the group of the story."""

    group = "group"
    sink: NewSink

    def positions(self, partitions: Sequence[int]) -> Positions | None:
        self._query("old group")
        values = [value for _, value in self._changelog().committed(0)]
        if values[-1][1] == SUCCESSOR:
            return None
        if self._world.group.seats:
            raise Retriable("the old group works")
        return dict.fromkeys(partitions, 0) | self.committed(partitions)

    def farewell(self, index_id: str) -> Outgoing:
        return Outgoing(CHANGELOG, 0, None, encode_successor(Successor(NEW, index_id)))


class NewProcess(Process):
    """It owns the new group's only task."""

    predecessor_type: type[SimPredecessor] = SimPredecessor

    def _names(self, number: int) -> Names:
        return replace(super()._names(number), group=NEW, changelog=f"{NEW_CHANGELOG}/{number}")

    def _begin(self, life: Life) -> None:
        if NEW_CHANGELOG not in self.world.broker.topics:
            self.world.broker.create(NEW_CHANGELOG, 1)
        membership, clock = SimMembership(self.world, life, NEW), SimClock(self.world, life)
        self.service = Service(
            membership,
            lambda number, index: self._task(life, number, index, membership, clock),
            Teller(self.world, life),
            clock,
            latency=LATENCY,
            tasks=1,
            look=lambda: self.world.layout(life),
        )

    def _plan(self, life: Life, number: int) -> Plan:
        old = self.predecessor_type(self.world, life, number)
        old.sink = NewSink(self.world, life, number, None, INPUT, NEW, tid="group.0")
        return replace(super()._plan(life, number), predecessor=old)

    def _parts(self, life: Life, plan: Plan, membership: Membership, clock: SimClock) -> Parts:
        parts, mine = super()._parts(life, plan, membership, clock), (None, INPUT, NEW)
        changelog = NewChangelog(self.world, life, 0)
        return replace(
            parts,
            source=SimSource(self.world, life, 0, *mine),
            sink=NewSink(self.world, life, 0, *mine, tid=f"{NEW}.0"),
            changelog=changelog,
            trimming=Trimming(changelog, clock, parts.observer, NEW_CHANGELOG),
        )
