"""One seed with edges and judges, from its start to its judgement."""

import random
from collections.abc import Sequence
from functools import partial

from tests.simulator import oracle, story
from tests.simulator.cluster.broker import Partition
from tests.simulator.cluster.log import CHANGELOG, INPUT
from tests.simulator.edges.forgery import forged
from tests.simulator.edges.process import EdgeProcess, JudgeProcess
from tests.simulator.edges.world import EDGES, SKETCHES, VERDICTS, EdgeWorld
from tests.simulator.process import Process
from tests.simulator.story import CALM_ROUNDS, Story
from tests.truth.changelog import Failure, windows_at
from tests.truth.history import DEAD, Input

TURNS_ALONE = 20
"""Of judges without an edge."""
ROUNDS_AFTER = 60
"""In which judges forget what was refused last: no position says when they have."""


class EdgeStory(Story):
    """A world with edges and judges in it, and what befalls them."""

    world: EdgeWorld
    world_type = EdgeWorld

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        super().__init__(seed, trace=trace)
        self.chance = random.Random(seed ^ (1 << 52))
        self.intruder = random.Random(seed ^ (1 << 53))
        self.forging = self.intruder.choice((0.0, 0.0, 0.05))
        judges = "AB"[: self.chance.choice((1, 2))]
        edges = "XYZ"[: self.chance.choice((1, 2, 3))]
        self.judges: list[Process] = [JudgeProcess(self.world, name) for name in judges]
        self.edges: list[Process] = [EdgeProcess(self.world, name) for name in edges]
        self.processes = self.judges

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
        # Each refused record takes an edge some transactions, and new producers.
        for _ in range(self.shape.steps * (9 if self.shape.strict else 3)):
            self.step()
            if self.chance.random() < 0.02:
                self.chance.choice((self._retention, self._evict, self._rebalance, self._fence))()
            if self.chance.random() < 0.01:
                self._compact()
            if self.intruder.random() < self.forging:
                self._forge()
            if self.shape.corrections == "both" and self.chance.random() < 0.01:
                self._mend()
        self.finish()
        self.judge()

    def may_start(self, process: Process) -> bool:
        """Return whether it could begin: until there is a changelog, an edge waits for it."""
        return process in self.judges or CHANGELOG in self.world.broker.topics

    # What befalls edges alone; `events` has what befalls a judge.

    def _retention(self) -> None:
        """Sketch ranges expire, read or not."""
        partition: Partition = self.chance.choice(self.world.broker.topics[SKETCHES])
        number = self.world.broker.topics[SKETCHES].index(partition)
        if not partition.open and not self.world.retractions(number):
            self.world.tell("broker", f"removes all of {partition.name}")
            partition.start = partition.end
            self.world.drops["lost"] += 1

    def _forge(self) -> None:
        """Someone writes a sketch range that lies; edges may sign again for it."""
        p = self.intruder.randrange(self.shape.partitions)
        partition = self.world.broker.topics[SKETCHES][p]
        signed = [each for _, each in partition.committed(partition.start)]
        if signed:
            # What ends behind the input must do so when it is read, with all that comes until then.
            end = self.world.broker.topics[INPUT][p].end + self.left + self.shape.documents
            judged = self.world.broker.offsets.get(p, 0)
            self.world.tell("intruder", f"forges a sketch range of {p}")
            honest = self.intruder.choice(signed)
            partition.append(forged(self.intruder, honest, judged=judged, end=end))
            self.world.drops["lost"] += 1

    def _mend(self) -> None:
        """The cause of dead letters is mended: no range is under way that was signed before."""
        self.world.calm = True
        for _ in range(CALM_ROUNDS):
            self.round()
            if self.done:
                break
        else:
            raise Failure("stuck", "not all is forwarded before the cause is mended")
        self.world.calm = False
        self.all_down()
        self._kill(self.edges)
        self.people.mend()

    def _kill(self, processes: Sequence[Process]) -> None:
        for process in processes:
            if process.life is not None:
                self.world.kill(process.life)
                process.life = process.service = None

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

    def _compact(self) -> None:
        """All edges are away; records that the judge has decided on are removed meanwhile."""
        self.world.tell("operator", "kills all edges")
        self._kill(self.edges)
        for _ in range(TURNS_ALONE):
            if free := [judge for judge in self.judges if judge.free]:
                self.chance.choice(free).turn()
        broker = self.world.broker
        for p, known in self.inputs.items():
            begin, end = self.position(p), broker.offsets.get(p, 0)
            for each in known:
                offset = each.place[1]
                if begin <= offset < end and self.chance.random() < 0.5:
                    self.world.tell("broker", f"removes {offset} of {INPUT}/{p}")
                    broker.topics[INPUT][p].cells[offset].marker = True
                    self.gone.add(each.name)

    def _let_standbys_catch_up(self) -> None:
        for _ in range(ROUNDS_AFTER if self.refused else 0):
            self.round()
        super()._let_standbys_catch_up()

    # Positions.

    def position(self, p: int) -> int:
        """Return where the edges stand: what lies before was forwarded."""
        return self.world.broker.offsets.get((EDGES, INPUT, p), 0)

    @property
    def refused(self) -> frozenset[str]:
        known = super()._judged().values()
        return frozenset(one.name for each in known for one in each if one.kind == "refused")

    def _judged(self) -> dict[int, list[Input]]:
        """Return the inputs as the judge knows them: an output's refusal comes later."""
        return self.inputs | self.world.seeds

    def judge(self) -> None:
        super().judge()
        self._judge_refused()
        counts = self.world.drops
        if counts["edge_signed_again_total"] > counts["lost"]:
            raise Failure("again", f"more is signed again than was lost: {dict(counts)}")

    def _judge_refused(self) -> None:
        """Check that nothing is remembered of what was refused, and so not forwarded."""
        history, out = self.history, set[str]()
        oldest, *_ = windows_at(history.batches)
        for p in self.inputs:
            out |= {oracle.name_of(each) for each in oracle.filtered(self.world, DEAD, p)}
        for ordinal, document in history.law.documents.items():
            if ordinal >= oldest.first_ordinal and document.id in self.refused & out:
                raise Failure("kept", f"{document.id} was refused, and is document {ordinal}")


run = partial(story.run, kind=EdgeStory)
