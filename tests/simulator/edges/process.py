"""The two kinds of processes: a judge is a process with another log; an edge has no disk."""

from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from streamfilter.assembly import sketcher_for
from streamfilter.cluster.edge import Edge, OneEdge
from streamfilter.cluster.edge_start import EdgeParts
from streamfilter.cluster.judge import Received, SketchLog, VerdictWriter
from streamfilter.cluster.waiting import PendingLimits
from streamfilter.engine.parts import Parts
from streamfilter.engine.ports import Membership
from streamfilter.index.directory.identity import decode_identity
from streamfilter.model import Positions
from streamfilter.tasks.plan import Plan
from streamfilter.tasks.service import Service
from tests.simulator.cluster.log import INPUT, SimSink, SimSource
from tests.simulator.cluster.membership import SimClock, SimMembership
from tests.simulator.edges.world import EDGES, SKETCHES, VERDICTS, EdgeWorld, retracts
from tests.simulator.process import LATENCY, Process, Teller
from tests.simulator.world import Life

PENDING = 12


@dataclass(slots=True)
class SimSigner:
    """`signing.Signer`: sends at once, later, or never; each partition keeps its order."""

    world: EdgeWorld
    life: Life
    queues: dict[int, deque[tuple[int, bytes]]] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    count: int = 0

    def send(self, partition: int, message: bytes) -> int:
        self.world.port(self.life, "sign")
        self.count += 1
        self.queues.setdefault(partition, deque()).append((self.count, message))
        self._work()
        return self.count

    def _work(self) -> None:
        world = self.world
        for p, queue in self.queues.items():
            for _ in range(len(queue) if world.calm else world.rng.randint(0, len(queue))):
                number, message = queue.popleft()
                if world.loses_range():
                    world.tell(self.life.name, f"a sketch range of {p} is lost")
                    # An acknowledged retraction that is lost is a limit: no one can find it out.
                    self.done[number] = -1 if retracts(message) else world.rng.choice((-1, 0))
                    if self.done[number] == 0:  # acknowledged, and lost
                        self.done[number] = world.broker.topics[SKETCHES][p].append(message)
                        world.broker.topics[SKETCHES][p].cells[-1].marker = True
                else:
                    self.done[number] = world.broker.topics[SKETCHES][p].append(message)

    def delivered(self) -> dict[int, int]:
        self.world.port(self.life, "delivered")
        self._work()
        done, self.done = self.done, {}
        return done


@dataclass(slots=True)
class JudgeProcess(Process):
    """A process of the group that owns the changelog."""

    world: EdgeWorld

    def _plan(self, life: Life, number: int) -> Plan:
        return replace(Process._plan(self, life, number), rewinds=False)

    def _parts(self, life: Life, plan: Plan, membership: Membership, clock: SimClock) -> Parts:
        parts = Process._parts(self, life, plan, membership, clock)
        world, task = self.world, plan.number
        sketches = SimSource(world, life, task, None, SKETCHES, "judge")
        sketches.resets = True
        log = SketchLog(
            parts.source,
            sketches,
            topic=INPUT,
            scheme=self._scheme,
            dropped=lambda reason, message: world.dropped(life.name, reason),
        )
        sink = parts.sink
        assert isinstance(sink, SimSink)

        def beside(positions: Positions) -> dict[Any, int]:
            return {("judge", SKETCHES, p): offset for p, offset in log.beside(positions).items()}

        sink.beside = beside
        writer = VerdictWriter(log, VERDICTS, own_ids=False)
        return replace(parts, source=log, incoming=Received(), forwarder=writer)


@dataclass(slots=True)
class EdgeProcess(Process):
    """A process that owns partitions of the verdicts."""

    world: EdgeWorld

    def _begin(self, life: Life) -> None:
        membership = OneEdge(SimMembership(self.world, life, EDGES), lambda: self.world.partitions)
        clock = SimClock(self.world, life)
        self.service = Service(
            membership,
            lambda number, index: self._edge(life, membership, clock),
            Teller(self.world, life),
            clock,
            latency=LATENCY,
            look=lambda: self.world.layout(life),
        )

    def _edge(self, life: Life, membership: OneEdge, clock: SimClock) -> Edge:
        world, scheme = self.world, self._scheme
        plan = self._plan(life, 0)
        parts = self._parts(life, plan, membership, clock)
        verdicts = SimSource(world, life, 0, None, VERDICTS, EDGES)
        offsets = world.broker.offsets

        def noted(partitions: tuple[int, ...]) -> Positions:
            keys = {p: (EDGES, INPUT, p) for p in partitions}
            return {p: offsets[key] for p, key in keys.items() if key in offsets}

        source = SimSource(world, life, 0, None, INPUT, EDGES)
        sink = SimSink(world, life, 0, None, VERDICTS, EDGES, tid=f"group.edge.{self.name}")
        edge_parts = EdgeParts(
            verdicts=verdicts,
            noted=noted,
            signer=SimSigner(world, life),
            owned=lambda: membership.owned,
            identity_of=partial(decode_identity, seed=None),
            sketcher_of=lambda identity: sketcher_for(scheme, seed=identity.seed),
            topic=VERDICTS,
            pending=PendingLimits(PENDING),
            counted=world.counted,
        )
        edge = Edge(plan, replace(parts, source=source, sink=sink), edge_parts)

        def beside(positions: Positions) -> dict[Any, int]:
            return {(EDGES, INPUT, p): offset for p, offset in edge.beside(positions).items()}

        sink.beside = beside
        return edge
