"""A world of two groups: judges that own the changelog, and edges that own the verdicts."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import msgspec

from tests.simulator.cluster.group import Group
from tests.simulator.world import OUTPUTS, World

SKETCHES, VERDICTS, EDGES = "sketches", "verdicts", "edge"
LOSSES = (0.0, 0.0, 0.05, 0.15)
"""Share of sketch ranges that never arrive."""


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
        self.shape = replace(
            self.shape,
            corrections="",
            backups=False,
            tasks=1,
            several=False,
            seeds=0,
            strict=OUTPUTS if self.losses.random() < 0.3 else (),
            odd=self.losses.choice((0.1, 0.3)),
            thin=None,
            template=False,
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
