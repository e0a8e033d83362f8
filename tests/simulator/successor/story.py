"""One seed: a group works, another one takes over, and the first is started again in between."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from streamfilter.matching.blocking.retention import UNLIMITED
from tests.simulator.cluster.group import Group
from tests.simulator.cluster.log import CHANGELOG
from tests.simulator.oracle import outputs
from tests.simulator.story import CALM_ROUNDS, Story, truth
from tests.simulator.successor.process import NEW, NEW_CHANGELOG, NewProcess
from tests.simulator.world import World
from tests.support.values import replace
from tests.truth.changelog import Failure, read_batches
from tests.truth.history import DEAD, DUPLICATES, UNIQUE

TRIES, REFUSAL_ROUNDS = 6, 60
REFUSED = "took over the input of the group"


@dataclass(slots=True)
class TwoGroups(World):
    """A world with a group for its successor; the shape has what a takeover needs."""

    def __post_init__(self) -> None:
        World.__post_init__(self)
        self.shape = replace(
            self.shape, tasks=1, seeds=0, several=False, forgets=0.0, updates=False, strict=(),
            odd=0.0, thin=None, retentions=(UNLIMITED,), template=False, hot=False,
            corrections="", backups=False,
        )  # fmt: skip
        self.group = Group(self.rng, 1, eager=self.shape.eager)
        self.groups = {"": self.group, NEW: Group(self.rng, 1, eager=self.shape.eager)}


class SuccessorStory(Story):
    """The new group of two tries until it has the input."""

    world_type = TwoGroups

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        super().__init__(seed, trace=trace)
        self.watcher.written = lambda where, changes: None  # type: ignore[method-assign]
        self.watcher.refusals = []
        self.new = NewProcess(self.world, "N")

    def run(self) -> None:
        self._open()
        self._old_works(self.shape.steps)
        self._begin()
        for _ in range(TRIES):
            self._stop_old()
            self._new_works(self.rng.randint(1, 60))
            if self.rng.random() < 0.5:
                self._old_works(10)
        self._stop_old()
        self.world.calm = True
        while self.left:
            self.append()
        for _ in range(CALM_ROUNDS):
            self._new_works(1, kill=False)
            if self.taken and self._reached():
                break
        else:
            raise Failure("stuck", f"the new group has {self.world.broker.offsets}")
        before = len(self.watcher.refusals or ())
        for number in range(CALM_ROUNDS):  # a transaction of a stranger may be open for long
            self.round()
            refused = len(self.watcher.refusals or ()) > before
            if refused and number >= REFUSAL_ROUNDS:
                break
        self.judge()
        if not refused:
            raise Failure("refusal", "the old group does not refuse to start")

    def _begin(self) -> None:
        """Let the old group judge something: one that has never begun is refused by its name."""
        self.world.calm = True
        while not (
            CHANGELOG in (topics := self.world.broker.topics) and read_batches(topics[CHANGELOG][0])
        ):
            self.round()
        self.world.calm = False

    def _old_works(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def _stop_old(self) -> None:
        """Kill what lives of it: its last transaction may be open, and be decided late."""
        for process in self.processes:
            if process.life is not None:
                self.world.kill(process.life)
                process.life = process.service = None

    def _new_works(self, turns: int, *, kill: bool = True) -> None:
        new = self.new
        for _ in range(turns):
            if new.life is None:
                new.start()
            if new.free:
                new.turn()
            self.world.advance(0.05)
        if kill and new.life is not None:
            self.world.kill(new.life)
            new.life = new.service = None

    @property
    def taken(self) -> bool:
        topics = self.world.broker.topics
        return NEW_CHANGELOG in topics and bool(read_batches(topics[NEW_CHANGELOG][0]))

    def _reached(self) -> bool:
        offsets = self.world.broker.offsets
        ends = self._ends().items()
        return all(offsets.get((NEW, "input", p), 0) >= end for p, end in ends)

    def judge(self) -> None:
        """Each record is in the outputs once, and both changelogs are those of the law."""
        for message in self.watcher.refusals or ():
            if REFUSED not in message:
                raise Failure("stop", message)
        for p, known in self.inputs.items():
            found = [dict(r.headers)["h"] for t in (UNIQUE, DUPLICATES, DEAD)
                     for r in outputs(self.world, t, p)]  # fmt: skip
            have = Counter((name or b"").decode() for name in found)
            for each in known:
                if have[each.name] != 1:
                    check = "doubled" if have[each.name] else "lost"
                    raise Failure(check, f"{each.name} came out {have[each.name]} times")
        topics = self.world.broker.topics
        old, new = (topics[name][0] for name in (CHANGELOG, NEW_CHANGELOG))
        for p in self.inputs:
            spans = [*self._spans(old, p), *self._spans(new, p)]
            if any(a[1] != b[0] for a, b in pairwise(spans)):
                raise Failure("changelog", f"partition {p} was judged in {spans}")
        truth(self.shape, {}).follow(old, self._judged())

    @staticmethod
    def _spans(changelog: object, p: int) -> Iterator[tuple[int, int]]:
        for batch in read_batches(changelog):  # type: ignore[arg-type]
            if p in batch.spans and batch.spans[p][0] < batch.spans[p][1]:
                yield batch.spans[p]
