"""One seed with edges and judges, from its start to its judgement."""

import random
from functools import partial

from tests.simulator import oracle, story
from tests.simulator.cluster.broker import Partition
from tests.simulator.cluster.log import CHANGELOG, INPUT
from tests.simulator.edges.process import EdgeProcess, JudgeProcess
from tests.simulator.edges.world import EDGES, SKETCHES, VERDICTS, EdgeWorld
from tests.simulator.process import Process
from tests.simulator.story import Story
from tests.truth.changelog import Failure


class EdgeStory(Story):
    """A world with edges and judges in it, and what befalls them."""

    world: EdgeWorld

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        super().__init__(seed, trace=trace)
        self.world = EdgeWorld(seed, trace)
        self.shape = self.world.shape
        self.watcher = oracle.Watcher(self.world)
        self.world.checks, self.world.others = self.watcher, self._others
        self.chance = random.Random(seed ^ (1 << 52))
        judges = "AB"[: self.chance.choice((1, 2))]
        edges = "XYZ"[: self.chance.choice((1, 2, 3))]
        self.judges: list[Process] = [JudgeProcess(self.world, name) for name in judges]
        self.edges: list[Process] = [EdgeProcess(self.world, name) for name in edges]
        self.processes = self.judges
        self.inputs = {p: [] for p in range(self.shape.partitions)}
        self.turns = {p: [] for p in self.inputs}

    @property
    def everybody(self) -> list[Process]:
        return [*self.judges, *self.edges]

    def _open(self) -> None:
        for topic in (SKETCHES, VERDICTS):
            self.world.broker.create(topic, self.shape.partitions)
        super()._open()

    def run(self) -> None:
        """Live the story, and judge it."""
        self._open()
        self.world.tell("world", f"{self.shape}, {self.world.loss} of ranges lost")
        for _ in range(self.shape.steps * 3):
            self.step()
            if self.chance.random() < 0.02:
                self.chance.choice((self._retention, self._evict, self._rebalance, self._fence))()
        self.finish()
        self.judge()

    def may_start(self, process: Process) -> bool:
        """Return whether it could begin: until there is a changelog, an edge waits for it."""
        return process in self.judges or CHANGELOG in self.world.broker.topics

    # What befalls edges alone; `events` has what befalls a judge.

    def _retention(self) -> None:
        """Sketch ranges expire, read or not."""
        partition: Partition = self.chance.choice(self.world.broker.topics[SKETCHES])
        if not partition.open:
            self.world.tell("broker", f"removes all of {partition.name}")
            partition.start = partition.end
            self.world.drops["lost"] += 1

    def _evict(self) -> None:
        group = self.world.groups[EDGES]
        if group.seats:
            group.leave(self.chance.choice(list(group.seats)))

    def _rebalance(self) -> None:
        self.world.tell("group", "moves an edge's partition")
        if self.world.groups[EDGES].owner:
            self.world.groups[EDGES].rebalance(move=True)

    def _fence(self) -> None:
        tid = f"group.edge.{self.chance.choice(self.edges).name}"
        if tid in self.world.broker.ids:
            self.world.tell("broker", f"fences {tid} for a stranger")
            self.world.broker.init(tid)

    # Positions.

    def position(self, p: int) -> int:
        """Return where the edges stand: what lies before was forwarded."""
        return self.world.broker.offsets.get((EDGES, INPUT, p), 0)

    def judge(self) -> None:
        super().judge()
        counts = self.world.drops
        if counts["edge_signed_again_total"] > counts["lost"]:
            raise Failure("again", f"more is signed again than was lost: {dict(counts)}")


run = partial(story.run, kind=EdgeStory)
