"""One seed from its start to its judgement."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar
from warnings import warn

import pytest

from streamfilter.matching.law import Arrival, Settings
from tests.simulator import chapters, events, oracle
from tests.simulator.cluster.broker import Txn
from tests.simulator.cluster.log import CHANGELOG, INPUT
from tests.simulator.life.backups import Objects
from tests.simulator.life.corrections import People, mendable
from tests.simulator.life.seeds import draw_seeds
from tests.simulator.process import CANDIDATES, Process
from tests.simulator.texts import THRESHOLD, draw, forgetting, scheme, sketch_of, source, valued
from tests.simulator.world import FAR_FUTURE, Shape, World
from tests.support.arrivals import arrival
from tests.support.values import replace
from tests.truth.changelog import Failure, positions
from tests.truth.history import DEAD, DUPLICATES, UNIQUE, History, Input

OBLIVION, LOSSES, HIDES, VALUES = 1 << 42, 1 << 45, 1 << 47, 1 << 50
CALM_ROUNDS = 600
"""Turns of every process in which everything has to be done once all faults are over."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a seed ended."""

    seed: int
    failure: Failure | None
    story: list[tuple[float, str, str]]
    batches: int

    def text(self) -> str:
        lines = [f"seed {self.seed}"]
        lines += [f"{now - 1_000:9.3f}  {who:<8} {what}" for now, who, what in self.story]
        return "\n".join([*lines, str(self.failure or "all is well")])


class Story:
    """A world with processes in it, and what befalls them."""

    world_type: ClassVar[type[World]] = World

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.world = self.world_type(seed, trace)
        self.shape = self.world.shape
        self.watcher = oracle.Watcher(self.world)
        self.world.checks, self.world.others = self.watcher, self._others
        self.processes = [Process(self.world, name) for name in "ABC"[: self.shape.processes]]
        self.inputs: dict[int, list[Input]] = {p: [] for p in range(self.shape.partitions)}
        self.turns: dict[int, list[tuple[int, int]]] = {p: [] for p in self.inputs}
        """Where an operator moved the group, from and to, by partition."""
        self.skipped: dict[tuple[int, int], int] = {}
        """(partition, from) → to: jumps that an operator accepted."""
        self.gone: set[str] = set()
        """Names of records that were removed from the input after their verdict."""
        self.accept = self._ending = False
        self.left = self.shape.documents
        self._drawn: Counter[int] = Counter()
        """Records of each partition so far, without those that came back."""
        self._families = self.world.rng.choice((1, 2, 4, 10))
        if self.shape.template:
            self._families = 0
        if self.shape.seeds:
            drawn = draw_seeds(
                self.world.seeding, self._families, self.shape.seeds, dated=self.shape.dated
            )
            self.world.seeds = drawn
            self.skipped |= {(number, 0): 1 for number in drawn}  # lines begin at 1
        # Of its own: what else befalls a seed stays as it was without it.
        self._oblivion = random.Random(seed ^ OBLIVION)
        self.losses = random.Random(seed ^ LOSSES)
        self.hides = random.Random(seed ^ HIDES)
        self._values = random.Random(seed ^ VALUES)
        self.people = People(self, seed)
        self.world.objects = Objects(seed) if self.shape.backups else None

    @property
    def rng(self) -> random.Random:
        return self.world.rng

    @property
    def everybody(self) -> list[Process]:
        """Return who takes turns: those that own the changelog's tasks, and edges if any."""
        return self.processes

    def may_start(self, process: Process) -> bool:
        """Return whether the process could begin."""
        return True

    def run(self) -> None:
        """Live the story, and judge it."""
        self._open()
        self.world.tell("world", str(self.shape))
        stops = sorted(self.rng.randrange(self.shape.steps) for _ in range(self.rng.randrange(4)))
        growths = self.world.growths
        grows_at = growths.randrange(self.shape.steps) if growths.random() < 0.3 else None
        for step in range(self.shape.steps):
            self.step()
            if self.hides.random() < 0.05:
                events.hide_or_show(self)
            if step == grows_at:
                events.grow(self)
            if stops and stops[0] == step:
                stops.pop(0)
                chapters.next_one(self)
        self.finish()
        self.judge()

    def _open(self) -> None:
        broker = self.world.broker
        for topic in (INPUT, UNIQUE, DUPLICATES, DEAD):
            broker.create(topic, self.shape.partitions)
        for _ in range(self.left // 2):
            self.append()

    def append(self, into: int | None = None) -> None:
        """Let another record come in; some offsets hold nothing that a reader gets."""
        p = self.rng.randrange(self.world.partitions) if into is None else into
        partition = self.world.broker.topics[INPUT][p]
        if self.rng.random() < 0.1:
            self.abort_upstream(p)
        known = self.inputs[p]
        odd = self.shape.odd > 0 and self.rng.random() < self.shape.odd
        timestamp = FAR_FUTURE if odd else self.world.timestamp()
        place = source(p, partition.end)
        one = draw(self.rng, self._families, place, self._drawn[p], timestamp=timestamp)
        self._drawn[p] += 1
        if self.shape.corrections == "both":
            one = self.people.received(mendable(self.people.rng, one))
        if self.shape.forgets:
            ids = [each.id for q in self.partitions_of(self.task_of(p)) for each in self.inputs[q]]
            ids += [each.id for lines in self.world.seeds.values() for each in lines]
            one = forgetting(self._oblivion, one, ids, self.shape.forgets)
        one = valued(self._values, one, scheme(self.shape.digests))
        known.append(one)
        partition.append(one.record)
        self.left -= 1

    def abort_upstream(self, p: int) -> None:
        """Let a transaction end in an input partition that leaves offsets and no record."""
        partition = self.world.broker.topics[INPUT][p]
        lost = Txn("upstream", self.world.now, committed=False)
        partition.append(None, lost)
        partition.mark(lost)

    # Steps.

    def step(self) -> None:
        """Let a little happen: an event perhaps, and a turn of a process."""
        world, rng = self.world, self.rng
        world.advance(rng.choice((0.0, 0.01, 0.1)))
        if not world.calm:
            events.befall(self)
            if self.shape.corrections and self.people.rng.random() < 0.15:
                self.people.begin_one()
        if self.left and rng.random() < 0.3:
            self.append()
        for process in self.everybody:
            if process.life is None and self.may_start(process) and rng.random() < 0.3:
                process.start(accept_positions=self.accept)
        if free := [process for process in self.everybody if process.free]:
            rng.choice(free).turn()
        if rng.random() < 0.2:
            self.watcher.read()

    def _others(self, count: int) -> None:
        """Let the others work while one is paused; not while all are being stopped."""
        if self._ending:
            return
        for _ in range(count):
            self.step()

    def all_down(self) -> None:
        """Stop everybody, gently or not, and let the broker find that out."""
        self._ending = True
        for process in self.processes:
            if process.up and self.rng.random() < 0.5:
                process.stop()
            if process.life is not None:
                self.world.kill(process.life)
                process.life = process.service = None
        self._ending = False
        broker = self.world.broker
        self.world.flights.clear()
        for member in list(self.world.group.seats):
            self.world.group.leave(member)
        for txn in broker.undecided:
            broker.expire(txn)
        for txn in list(broker.unfinished):
            broker.finish(txn)

    def finish(self) -> None:
        """End all faults, and wait until everything is done."""
        self.world.calm = True
        self.world.tell("world", "is calm")
        while self.left:
            self.append()
        back = True
        while back:  # letters came back
            for _ in range(CALM_ROUNDS):
                self.round()
                if self.done:
                    break
            else:
                raise Failure("stuck", f"at {self.world.broker.offsets} of {self._ends()}")
            back = bool(self.shape.corrections) and self.people.finish()
        self._let_standbys_catch_up()
        for process in self.everybody:
            if process.up:
                process.stop()

    def _let_standbys_catch_up(self) -> None:
        """Give the standbys as many rounds; each must then have the whole changelog."""
        if not self.shape.hot:
            return
        for _ in range(CALM_ROUNDS):
            if not (behind := list(self._standbys_behind())):
                return
            self.round()
        raise Failure("stuck", f"{behind} are behind the changelog")

    def _standbys_behind(self) -> Iterator[str]:
        """Yield the disks of processes without a task that lack something committed."""
        owners = set(self.world.group.owner.values())
        for process in self.processes:
            life = process.life
            if life is None or any(owner.startswith(life.name + "-") for owner in owners):
                continue
            for task, disk in enumerate(process.disks):
                changelog = self.world.broker.topics[CHANGELOG][task]
                there = (offset for offset, _ in changelog.committed(changelog.start))
                last = max(there, default=-1)  # its first transaction may never have got through
                if disk.index.progress.changelog_offset < last:
                    yield disk.name

    def round(self) -> None:
        """Let every process take a turn; start those that are down."""
        self.world.advance(0.01)
        for process in self.everybody:
            if process.life is None and self.may_start(process):
                process.start(accept_positions=self.accept)
            if process.free:
                process.turn()

    # Positions.

    def position(self, p: int) -> int:
        """Return where the group stands in an input partition, once nothing is open."""
        offsets = self.world.broker.offsets
        return offsets[p] if p in offsets else self.known(self.task_of(p)).get(p, 0)

    def task_of(self, p: int) -> int:
        return 0 if self.shape.tasks == 1 else p

    def partitions_of(self, task: int) -> list[int]:
        return [p for p in self.inputs if self.task_of(p) == task]

    def known(self, task: int) -> dict[int, int]:
        topics = self.world.broker.topics
        return positions(topics[CHANGELOG][task]) if CHANGELOG in topics else {}

    def _ends(self) -> dict[int, int]:
        return {p: known[-1].place[1] + 1 if known else 0 for p, known in self.inputs.items()}

    @property
    def done(self) -> bool:
        broker = self.world.broker
        self.people.take_up()
        if broker.unfinished or broker.undecided or CHANGELOG not in broker.topics:
            return False
        return all(self.position(p) >= end for p, end in self._ends().items())

    # Judgement.

    def judge(self) -> None:
        """Hold everything that is left against the model."""
        self.watcher.read()
        self.watcher.check_prefix()
        self.people.judge()
        for task in range(self.shape.tasks):
            changelog = self.world.broker.topics[CHANGELOG][task]
            history = truth(self.shape, self.skipped, self.refused)
            self.history = history.follow(changelog, self._judged())
            for p in self.partitions_of(task):
                segments = list(self._segments(p))
                oracle.judge_outputs(self.world, history, p, segments, self.gone)
            for process in self.processes:
                disk = process.disks[task]
                then = history.standing_at(disk.index.progress.next_batch)
                oracle.judge_disk(disk, then, changelog.start)

    @property
    def refused(self) -> frozenset[str]:
        """Return the names of records that outputs refuse after their verdict."""
        return frozenset()

    def _judged(self) -> dict[int, list[Input]]:
        """Return the inputs; some outputs refuse records of the far future, and so their kind."""
        forwarded, strict = ("document", "passthrough", "tombstone"), self.shape.strict
        return {
            p: [
                replace(each, kind="refused")
                if each.record.timestamp == FAR_FUTURE
                and (UNIQUE if each.kind in forwarded else DEAD) in strict
                else each
                for each in known
            ]
            for p, known in (self.inputs | self.world.seeds).items()
        }

    def _segments(self, p: int) -> Iterator[tuple[int, int]]:
        begin = 0
        for reached, turned in self.turns[p]:
            yield begin, reached
            begin = turned
        yield begin, self.position(p)


def truth(
    shape: Shape, skipped: Mapping[tuple[int, int], int], refused: frozenset[str] = frozenset()
) -> History:
    """Return the history of a task in a world of this *shape*."""
    settings = Settings(
        threshold=THRESHOLD,
        max_candidates=CANDIDATES,
        bucket_cap=shape.cap,
        known_id="update" if shape.updates else "judge",
    )
    retention = shape.retentions[0] if len(shape.retentions) == 1 else None
    arrivals = partial(_arrivals, shape.digests)
    return History(arrivals, settings, retention, skipped, refused)


def _arrivals(digests: tuple[str, ...], inputs: Sequence[Input]) -> Iterator[Arrival]:
    for each in inputs:
        yield arrival(each.name, sketch_of(each.text, each.values, digests))


def run(seed: int, *, trace: bool = False, kind: type[Story] = Story) -> Result:
    """Return how *seed* ends in a world of this *kind*."""
    story = kind(seed, trace=trace)
    failure = None
    try:
        story.run()
    except Failure as found:
        failure = found
    world = story.world
    changelogs = world.broker.topics.get(CHANGELOG, [])
    batches = sum(
        isinstance(c.value, bytes) and c.value[1] == 3 for t in changelogs for c in t.cells
    )
    return Result(seed, failure, world.story, batches)


SEEDS_MAX = 600
"""A bug that these seeds do not show, in its own kind of world, would live for long."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, the checks (`oracle.py`) that may find it, and the stories that it is planted into."""

    plant: Callable[[pytest.MonkeyPatch], None]
    checks: tuple[str, ...]
    seed: int
    """The first one to try: it meets the bug, as long as the worlds stay as they are."""
    kind: type[Story] = Story

    @property
    def name(self) -> str:
        return self.plant.__name__

    def assert_caught(self, patch: pytest.MonkeyPatch) -> None:
        """Plant it, and assert that a story fails in one of its checks."""
        self.plant(patch)
        found: dict[str, int] = {}
        for seed in (self.seed, *range(SEEDS_MAX)):
            failure = run(seed, kind=self.kind).failure
            if failure is not None:
                found.setdefault(failure.check, seed)
                if failure.check in self.checks:
                    if seed != self.seed:
                        warn(f"{self.name}: not seed {self.seed} but {seed} meets it", stacklevel=2)
                    return
        raise AssertionError(f"not caught by {self.checks}, but by {found} (check: first seed)")
