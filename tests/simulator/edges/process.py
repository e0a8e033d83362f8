"""The two kinds of processes: a judge is a process with another log; an edge has no disk."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from streamfilter.assembly import sketcher_for
from streamfilter.cluster.edge import Edge, OneEdge
from streamfilter.cluster.edge_start import EdgeParts
from streamfilter.cluster.judge import Received, SketchLog, VerdictWriter
from streamfilter.cluster.ranges import RANGE_BYTES
from streamfilter.cluster.waiting import PendingLimits
from streamfilter.engine.parts import Parts
from streamfilter.engine.ports import Membership
from streamfilter.index.directory.identity import decode_identity
from streamfilter.model import Positions
from streamfilter.tasks.plan import Plan
from streamfilter.tasks.service import Service
from tests.simulator.cluster.log import INPUT, SimSink, SimSource
from tests.simulator.cluster.membership import SimClock, SimMembership
from tests.simulator.edges.world import ONE_GROUP, SKETCHES, EdgeWorld, Roles, retracts
from tests.simulator.process import LATENCY, Process, Teller
from tests.simulator.world import Life
from tests.support.values import replace

PENDING = 12


@dataclass(slots=True)
class SimSigner:
    """`signing.Signer`: sends at once, later, or never; each partition keeps its order."""

    world: EdgeWorld
    life: Life
    topic: str = SKETCHES
    queues: dict[int, deque[tuple[int, bytes]]] = field(default_factory=dict)
    done: dict[int, int] = field(default_factory=dict)
    count: int = 0
    largest: int = RANGE_BYTES

    def send(self, partition: int, message: bytes) -> int:
        self.world.port(self.life, "sign")
        self.count += 1
        self.queues.setdefault(partition, deque()).append((self.count, message))
        self._work()
        return self.count

    def _work(self) -> None:
        world = self.world
        topics = world.broker.topics[self.topic]
        for p, queue in self.queues.items():
            for _ in range(len(queue) if world.calm else world.rng.randint(0, len(queue))):
                number, message = queue.popleft()
                if world.loses_range():
                    world.tell(self.life.name, f"a sketch range of {p} is lost")
                    # An acknowledged retraction that is lost is a limit: no one can find it out.
                    self.done[number] = -1 if retracts(message) else world.rng.choice((-1, 0))
                    if self.done[number] == 0:  # acknowledged, and lost
                        self.done[number] = topics[p].append(message)
                        topics[p].cells[-1].marker = True
                else:
                    self.done[number] = topics[p].append(message)

    def delivered(self) -> dict[int, int]:
        self.world.port(self.life, "delivered")
        self._work()
        done, self.done = self.done, {}
        return done


def judging(process: Process, life: Life, parts: Parts, roles: Roles) -> Parts:
    """Return *parts* of a task that reads sketch ranges, and writes verdicts; or reads seeds."""
    world: Any = process.world
    if life.reads_seeds:
        noting(parts, lambda positions: kept_by_seed(world, roles, positions))
        return parts
    sketches = SimSource(world, life, 0, None, roles.sketches, roles.judge)
    sketches.resets = True
    log = SketchLog(
        parts.source,
        sketches,
        topic=INPUT,
        scheme=process._scheme,
        dropped=lambda reason, message: world.dropped(life.name, reason),
        noted=partial(roles.noted, world),
    )
    noting(parts, lambda positions: roles.kept(log.beside(positions)))
    writer = VerdictWriter(log, roles.verdicts, own_ids=False)
    return replace(parts, source=log, incoming=Received(), forwarder=writer)


def noting(parts: Parts, beside: Callable[[Positions], dict[Any, Any]]) -> None:
    """Let transactions commit *beside* the input's offsets."""
    assert isinstance(parts.sink, SimSink)
    parts.sink.beside = beside


def kept_by_seed(world: EdgeWorld, roles: Roles, positions: Positions) -> dict[Any, int]:
    """Return what a seed commits beside the input's offsets: the notes of the last judge."""
    return roles.kept(roles.noted(world, positions))


@dataclass(slots=True)
class JudgeProcess(Process):
    """A process of the group that owns the changelog."""

    world: EdgeWorld
    roles: Roles = ONE_GROUP

    def _plan(self, life: Life, number: int) -> Plan:
        return replace(Process._plan(self, life, number), rewinds=False)

    def _parts(self, life: Life, plan: Plan, membership: Membership, clock: SimClock) -> Parts:
        parts = Process._parts(self, life, plan, membership, clock)
        return judging(self, life, parts, self.roles)


@dataclass(slots=True)
class EdgeProcess(Process):
    """A process that owns partitions of the verdicts."""

    world: EdgeWorld
    roles: Roles = ONE_GROUP

    def _begin(self, life: Life) -> None:
        group = SimMembership(self.world, life, self.roles.edges)
        membership = OneEdge(group, lambda: self.world.partitions)
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
        edges, topic = self.roles.edges, self.roles.verdicts
        verdicts = SimSource(world, life, 0, None, topic, edges)
        offsets = world.broker.offsets

        def noted(partitions: tuple[int, ...]) -> Positions:
            keys = {p: (edges, INPUT, p) for p in partitions}
            return {p: offsets[key] for p, key in keys.items() if key in offsets}

        source = SimSource(world, life, 0, None, INPUT, edges)
        sink = SimSink(world, life, 0, None, topic, edges, tid=f"group.edge.{self.name}")
        edge_parts = EdgeParts(
            verdicts=verdicts,
            noted=noted,
            signer=SimSigner(world, life, self.roles.sketches),
            owned=lambda: membership.owned,
            identity_of=partial(decode_identity, seed=None),
            sketcher_of=lambda identity: sketcher_for(scheme, seed=identity.seed),
            topic=topic,
            pending=PendingLimits(PENDING),
            counted=world.counted,
        )
        edge = Edge(plan, replace(parts, source=source, sink=sink), edge_parts)

        def beside(positions: Positions) -> dict[Any, int]:
            return {(edges, INPUT, p): offset for p, offset in edge.beside(positions).items()}

        sink.beside = beside
        return edge
