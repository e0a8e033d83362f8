"""A world of two groups: judges that own the changelog, and edges that own the verdicts."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from tests.simulator.cluster.group import Group
from tests.simulator.world import World

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
            tasks=1,
            several=False,
            seeds=0,
            strict=(),
            odd=0.0,
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

    def counted(self, name: str, count: int) -> None:
        """Count what edges count."""
        self.drops[name] += count

    def dropped(self, who: str, reason: str) -> None:
        """Count a sketch range that a judge did not use."""
        self.drops[reason] += 1
        if self.trace:
            self.tell(who, f"  drops a range: {reason}")
