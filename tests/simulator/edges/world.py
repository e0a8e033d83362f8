"""A world of two groups: judges that own the changelog, and edges that own the verdicts."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from streamfilter.engine import start_checks
from streamfilter.model import Positions
from tests.simulator.cluster.group import Group
from tests.simulator.world import OUTPUTS, World
from tests.support.values import replace

SKETCHES, VERDICTS, EDGES = "sketches", "verdicts", "edge"
LOSSES = (0.0, 0.0, 0.05, 0.15)
"""Share of sketch ranges that never arrive."""


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of a group with edges and a judge: of its members, offsets and topics."""

    group: str = ""
    edges: str = EDGES
    judge: str = "judge"
    sketches: str = SKETCHES
    verdicts: str = VERDICTS

    def input_of(self, p: int) -> Any:
        """Return the key of the group's offset of an input partition."""
        return (self.group, "input", p) if self.group else p

    def note(self, p: int) -> Any:
        """Return the key of what a judge notes with that offset."""
        return "note", self.group, p

    def noted(self, world: World, partitions: Iterable[int]) -> Positions:
        """Return the offsets of the sketches that judges have noted last."""
        found = {p: world.broker.offsets.get(self.note(p)) for p in partitions}
        return {p: at for p, at in found.items() if at is not None}

    def kept(self, offsets: Positions) -> dict[Any, int]:
        """Return what a transaction commits beside the input's offsets."""
        return {
            key: at
            for p, at in offsets.items()
            for key in ((self.judge, self.sketches, p), self.note(p))
        }

    def owed(self, world: World) -> Positions:
        """Return up to where edges have forwarded, where a judge has decided more."""
        offsets, every = world.broker.offsets, range(world.partitions)
        forwarded = {p: offsets[key] for p in every if (key := (self.edges, "input", p)) in offsets}
        judged = {p: offsets.get(self.input_of(p), 0) for p in every}
        return start_checks.owed_by_edges(judged, forwarded, self.noted(world, every))


ONE_GROUP = Roles()


@dataclass(slots=True)
class EdgeWorld(World):
    """One seed's world."""

    losses: random.Random = field(init=False)
    loss: float = field(init=False)
    drops: Counter[str] = field(default_factory=Counter)
    """Sketch ranges that judges did not use, by reason."""

    def __post_init__(self) -> None:
        World.__post_init__(self)
        self.losses = random.Random(self.seed ^ (1 << 51))
        self.loss = self.losses.choice(LOSSES)
        strict = OUTPUTS if self.losses.random() < 0.3 else ()
        odd = self.losses.choice((0.1, 0.3))
        days = random.Random(self.seed ^ (1 << 57))
        plain = self.shape.digests or self.shape.dated
        self.shape = replace(
            self.shape,
            corrections="" if strict else days.choice(("", "", "release", "both")),
            backups=days.random() < 0.3,
            tasks=1,
            several=False,
            seeds=0 if plain else days.choice((0, 0, 4)),
            strict=strict,
            odd=odd,
            thin=None,
            template=False,
            dated=False,
        )
        self.group = Group(self.rng, 1, eager=self.shape.eager)
        edges = Group(self.rng, self.partitions, eager=self.shape.eager)
        self.groups = {"": self.group, EDGES: edges}

    def loses_range(self) -> bool:
        """Return whether the next sketch range never arrives."""
        lost = not self.calm and self.losses.random() < self.loss
        self.drops["lost"] += lost
        return lost

    def retractions(self, p: int) -> bool:
        """Return whether the judge has still to read a retraction of partition *p*."""
        partition = self.broker.topics[SKETCHES][p]
        begin = max(partition.start, self.broker.offsets.get(("judge", SKETCHES, p), 0))
        return any(retracts(each) for _, each in partition.committed(begin))

    def counted(self, name: str, count: int) -> None:
        """Count what edges count."""
        self.drops[name] += count

    def dropped(self, who: str, reason: str) -> None:
        """Count a sketch range that a judge did not use."""
        self.drops[reason] += 1
        if self.trace:
            self.tell(who, f"  drops a range: {reason}")


def retracts(message: bytes) -> bool:
    """Return whether a sketch range asks to forget what was refused: its last field says so."""
    return bool(msgspec.msgpack.decode(message[2:])[-1])
