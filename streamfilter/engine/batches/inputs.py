"""The numbers of one task's input partitions (`index.input_table`): of several topics, of seeds."""

from collections.abc import Mapping, Sequence

from streamfilter.engine.ports import Layout
from streamfilter.index.input_table import ONE_TOPIC, InputTable, Seed, Spot
from streamfilter.model import SEEDS_FROM, Positions, Source


class Inputs:
    """The numbers of one task. They change with each start of the task."""

    def __init__(self, topic: str, *, several: bool = False, seeds: Sequence[Seed] = ()) -> None:
        """Begin without numbers; with one *topic* they are its partitions. *seeds* are read now."""
        self.topic, self.several, self._seeds = topic, several, seeds
        self._seeded: Mapping[int, Seed] = {}
        self.table = ONE_TOPIC
        self.present: frozenset[int] = frozenset()  # of several topics: numbers that exist now
        self._spots: list[Spot] = []
        self._numbers: Mapping[Spot, int] = {}

    def take(self, table: InputTable, layout: Layout, task: int) -> tuple[int, ...]:
        """Number the partitions of *layout* by *table*; return those that *task* reads."""
        self.table = table.extended(layout.topics if self.several else ()).seeded(self._seeds)
        self._seeded = self.table.by_number
        if not self.several:
            return layout.read_by(task)
        self._spots = self.table.spots
        self._numbers = {spot: number for number, spot in enumerate(self._spots)}
        self.present = frozenset(
            self._numbers[each.name, partition]
            for each in layout.topics
            for partition in range(each.partitions)
        )
        return tuple(sorted(self.present))

    def spot(self, number: int) -> Spot:
        """Return topic and partition of a *number*; of a seed, its name and that number."""
        if number >= SEEDS_FROM:
            return self._seeded[number].name, number
        return self._spots[number] if self.several else (self.topic, number)

    def renumbered(self, positions: Positions, before: InputTable) -> Positions:
        """Return *positions* that were numbered by another table."""
        if not self.several or before.runs == self.table.runs:
            return positions
        spots = before.spots
        return {self._numbers[spots[number]]: offset for number, offset in positions.items()}

    def number(self, topic: str, partition: int) -> int:
        return self._numbers[topic, partition] if self.several else partition

    @property
    def reserved(self) -> range:
        """Return all numbers of several topics, also of those that are gone."""
        return range(len(self._spots))

    def of_new_topics(self, positions: Positions, judged: Positions) -> Positions:
        """Return those of *positions* whose topic has no *judged* position yet."""
        known = {self.spot(number)[0] for number in judged} if self.several else set()
        return {n: o for n, o in positions.items() if self.several and self.spot(n)[0] not in known}

    def only_present(self, positions: Positions) -> Positions:
        """Return those of *positions* whose partitions exist now."""
        return {number: offset for number, offset in positions.items() if self.exists(number)}

    def exists(self, number: int) -> bool:
        """Return whether the partition with this *number* exists now; a seed is none."""
        return number < SEEDS_FROM and (not self.several or number in self.present)

    def locate(self, number: int, offset: int) -> Source:
        """Return the source of a document, as its evidence spells it."""
        return Source(*self.spot(number), offset)
