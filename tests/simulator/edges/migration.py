"""One seed: a group gets roles, loses them, reads seeds, and is taken over by one that gets roles.

Combinations of roles, seeds and a takeover that a user can have:

| what                                             | what happens                              |
|--------------------------------------------------|-------------------------------------------|
| roles, then one process, then roles again        | edges go on behind what it has forwarded  |
| a seed between two judges                        | it keeps what the judges have noted       |
| one process, or a successor, while edges owe     | refused by name, until they have forwarded|
| a group with roles is taken over                 | its edges may live; its judges are refused|
| the successor gets roles once it has taken over  | its edges begin where it stands           |
| a successor that has roles when it takes over    | `config.checks` refuses it                |

The successor has another scheme. The oracle holds each record to the changelog that judged it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from streamfilter.engine import start_checks
from streamfilter.engine.messages.changelog_header import SUCCESSOR
from streamfilter.engine.parts import Parts
from streamfilter.engine.ports import Membership
from streamfilter.engine.start_checks import Names
from streamfilter.index.rocks.options import Memory
from streamfilter.matching.blocking.retention import UNLIMITED
from streamfilter.model import Positions
from streamfilter.similarity.scheme import Scheme
from streamfilter.stops import Temporary
from streamfilter.tasks.plan import Plan
from tests.simulator import oracle
from tests.simulator.cluster.group import Group
from tests.simulator.cluster.log import CHANGELOG, INPUT
from tests.simulator.cluster.membership import SimClock
from tests.simulator.disk import Disk
from tests.simulator.edges.process import EdgeProcess, judging, noting
from tests.simulator.edges.story import EdgeStory
from tests.simulator.edges.world import ONE_GROUP, EdgeWorld, Roles
from tests.simulator.process import Process
from tests.simulator.story import CALM_ROUNDS, truth
from tests.simulator.successor.process import (
    NEW,
    NEW_CHANGELOG,
    NewChangelog,
    NewProcess,
    SimPredecessor,
)
from tests.simulator.successor.story import REFUSED, TRIES, SuccessorStory
from tests.simulator.texts import scheme
from tests.simulator.world import Life
from tests.support.values import replace
from tests.truth.changelog import Failure, read_batches

NEW_ROLES = Roles(NEW, f"{NEW}.edge", f"{NEW}.judge", f"{NEW}.sketches", f"{NEW}.verdicts")
NEW_DIGESTS = ("also /url",)
OWED = "those records would be lost"
EXPECTED = REFUSED, OWED


@dataclass(slots=True)
class MigrationWorld(EdgeWorld):
    """A world with both groups, and their edges."""

    def __post_init__(self) -> None:
        EdgeWorld.__post_init__(self)
        self.shape = replace(
            self.shape, forgets=0.0, updates=False, strict=(), odd=0.0, hot=False, digests=(),
            retentions=(UNLIMITED,), corrections="", backups=False,
            seeds=self.losses.choice((0, 4)),
        )  # fmt: skip
        self.groups |= {
            NEW: Group(self.rng, 1, eager=self.shape.eager),
            NEW_ROLES.edges: Group(self.rng, self.partitions, eager=self.shape.eager),
        }


def refuse_owed(world: Any, names: Names) -> None:
    """Raise `Refusal` while edges of the old group owe records, as starts do."""
    if world.broker.unstable((*range(world.partitions),)):
        raise Temporary("a transaction holds offsets")
    if owed := ONE_GROUP.owed(world):
        raise start_checks.refuse_owed(names, owed)


def without_notes(parts: Parts, roles: Roles) -> None:
    """Let transactions commit the input's offsets without a note, as one process does."""
    noting(parts, lambda positions: dict.fromkeys(map(roles.note, positions)))


class AloneProcess(Process):
    """One process of the old group, without a role."""

    def _begin(self, life: Life) -> None:
        refuse_owed(self.world, self._names(0))
        super()._begin(life)

    def _parts(self, *args: Any) -> Parts:
        parts = super()._parts(*args)
        without_notes(parts, ONE_GROUP)
        return parts


class RolesPredecessor(SimPredecessor):
    """The old group, whose edges may owe records."""

    def positions(self, partitions: Sequence[int]) -> Positions | None:
        found = super().positions(partitions)
        if found is not None:
            refuse_owed(self._world, Names("group", INPUT, CHANGELOG, ""))
        return found


class _NewScheme(Process):
    """A process of the new group, with another scheme."""

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.world.shape
        memory = Memory(run_keys=shape.run_keys, fan=shape.fan)
        widths = self._scheme.widths
        self.disks = [Disk(f"{self.name}/0", widths=widths, cap=shape.cap, memory=memory)]

    def _begin(self, life: Life) -> None:
        life.reads_seeds = False  # a line of a seed is in one of the two changelogs only
        super()._begin(life)

    @property
    def _scheme(self) -> Scheme:
        return scheme(NEW_DIGESTS)


class NewAlone(_NewScheme, NewProcess):
    """One process of the new group: it takes over."""

    predecessor_type = RolesPredecessor

    def _parts(self, *args: Any) -> Parts:
        parts = super()._parts(*args)
        without_notes(parts, NEW_ROLES)
        return parts


class NewJudge(_NewScheme, NewProcess):
    """A judge of the new group, once it has taken over."""

    def _plan(self, life: Life, number: int) -> Plan:
        return replace(super()._plan(life, number), predecessor=None, rewinds=False)

    def _parts(self, life: Life, *args: Any) -> Parts:
        return judging(self, life, super()._parts(life, *args), NEW_ROLES)


class NewEdge(_NewScheme, EdgeProcess):
    """An edge of the new group."""

    def _names(self, number: int) -> Names:
        return replace(super()._names(number), group=NEW, changelog=f"{NEW_CHANGELOG}/{number}")

    def _parts(self, life: Life, plan: Plan, membership: Membership, clock: SimClock) -> Parts:
        parts = super()._parts(life, plan, membership, clock)
        return replace(parts, changelog=NewChangelog(self.world, life, 0))


class MigrationStory(EdgeStory):
    """The old group changes its form, until the new one has the input, and changes its own."""

    world_type = MigrationWorld

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        super().__init__(seed, trace=trace)
        self.watcher.written = lambda where, changes: None  # type: ignore[method-assign]
        self.watcher.refusals = []
        self.alone = AloneProcess(self.world, "O")
        self.processes = [*self.judges, self.alone]
        self.new = NewAlone(self.world, "N")
        self.new_judges: list[Process] = [NewJudge(self.world, name) for name in "ST"]
        self.new_edges: list[Process] = [
            NewEdge(self.world, name, roles=NEW_ROLES) for name in "UV"
        ]
        self._working: list[Process] = self.judges
        self._edges = self.edges

    @property
    def everybody(self) -> list[Process]:
        return [*self._working, *self._edges]

    def may_start(self, process: Process) -> bool:
        return process not in self.edges or CHANGELOG in self.world.broker.topics

    def run(self) -> None:
        broker = self.world.broker
        for topic in (NEW_ROLES.sketches, NEW_ROLES.verdicts):
            broker.create(topic, self.shape.partitions)
        self._open()
        steps = self.shape.steps
        self._work(self.judges, steps)
        self._calmly(
            lambda: CHANGELOG in broker.topics and read_batches(broker.topics[CHANGELOG][0])
        )
        for _ in range(self.chance.randint(0, 2)):
            self._work([self.alone], steps // 2)
            self._work(self.judges, steps)
        for _ in range(TRIES):
            self._work([self.new], self.chance.randint(1, 60), edges=self.edges)
            if self.chance.random() < 0.6:
                self._work(self.chance.choice(([self.alone], self.judges)), 20)
        self._change([self.new], self.edges)
        self._calmly(lambda: self.taken)
        self._work([self.new], steps // 2, edges=[])
        self._work(self.new_judges, 2 * steps, edges=self.new_edges)
        while self.left:
            self.append()
        self._calmly(lambda: self._reached)
        self.judge()

    def _work(self, processes: list[Process], steps: int, *, edges: Any = None) -> None:
        """Let *processes* own the changelog for so many steps, beside *edges*."""
        self._change(processes, self.edges if edges is None else edges)
        for _ in range(steps):
            self.step()
            if self.chance.random() < 0.02:
                self.chance.choice((self._retention, self._evict, self._rebalance))()

    def _change(self, processes: list[Process], edges: list[Process]) -> None:
        """Kill what works, perhaps the edges, too, and let others work from now on."""
        self._kill(self._working)
        if edges is not self._edges or self.chance.random() < 0.5:
            self._kill(self._edges)
        self._working, self._edges = processes, edges

    def _calmly(self, true: Any) -> None:
        self.world.calm = True
        for _ in range(CALM_ROUNDS):
            if true():
                break
            self.round()
        else:
            raise Failure("stuck", f"{self._working[0].name} at {self.world.broker.offsets}")
        self.world.calm = False

    @property
    def taken(self) -> bool:
        (*_, (_, last)) = self.world.broker.topics[CHANGELOG][0].committed(0)
        return bool(last[1] == SUCCESSOR)

    @property
    def _reached(self) -> bool:
        broker = self.world.broker
        at = {p: broker.offsets.get((NEW_ROLES.edges, INPUT, p), 0) for p in self.inputs}
        quiet = not (broker.unfinished or broker.undecided)
        return quiet and all(at[p] >= end for p, end in self._ends().items())

    def judge(self) -> None:
        """Hold each group to its changelog, and the outputs to both."""
        for message in self.watcher.refusals or ():
            if not any(each in message for each in EXPECTED):
                raise Failure("stop", message)
        self.watcher.read()
        self.watcher.check_prefix()
        topics = self.world.broker.topics
        old, new = (topics[name][0] for name in (CHANGELOG, NEW_CHANGELOG))
        for p in self.inputs:
            spans = [*SuccessorStory._spans(old, p), *SuccessorStory._spans(new, p)]
            if any(a[1] != b[0] for a, b in pairwise(spans)):
                raise Failure("changelog", f"partition {p} was judged in {spans}")
        before = truth(self.shape, self.skipped).follow(old, self._judged())
        anew = replace(self.shape, digests=NEW_DIGESTS)
        taken = {(p, 0): at for p, at in self.known(0).items() if p in self.inputs}
        read_anew = {
            p: [replace(each, values=(None,)) for each in known] for p, known in self.inputs.items()
        }
        after = truth(anew, taken).follow(new, read_anew)
        both: Any = SimpleNamespace(
            expected=before.expected | after.expected, batches=after.batches
        )
        for p, end in self._ends().items():
            oracle.judge_outputs(self.world, both, p, [(0, end)], self.gone)
        for processes, history, log in (
            (self.processes, before, old), ([self.new, *self.new_judges], after, new)
        ):  # fmt: skip
            for process in processes:
                (disk,) = process.disks
                then = history.standing_at(disk.index.progress.next_batch)
                oracle.judge_disk(disk, then, log.start)
