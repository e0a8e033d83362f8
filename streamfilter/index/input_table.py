"""The table that numbers the input's partitions, if an index has several topics.

Positions, spans and stored documents hold one number for the place of a record. With one topic the
number is the partition. With several topics a table gives each partition a number. The table only
grows: partitions that are found later get the next numbers, and a topic that is gone keeps its
numbers. The changelog's header holds the table, and each index repeats it as a fact.

Example: at first, `a` has two partitions and `b` has one. Later `a` gets a third one.

| run           | numbers      |
|---------------|--------------|
| ("a", id, 2)  | 0: a/0, 1: a/1 |
| ("b", id, 1)  | 2: b/0       |
| ("a", id, 1)  | 3: a/2       |
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from streamfilter.index.errors import FormatError
from streamfilter.model import InputTopic, Origins
from streamfilter.stops import ExitCode, Stop

FACT = "inputs"  # the name of the table among an index's facts
NUMBERS_MAX = 1 << 16  # a stored document has 16 bits for the number

Spot = tuple[str, int]  # a topic and one of its partitions


@dataclass(frozen=True, slots=True)
class InputTable:
    """The partitions in the order of their numbers, as runs of one topic's next partitions."""

    runs: tuple[InputTopic, ...] = ()

    @property
    def spots(self) -> list[Spot]:
        """Return the topic and partition of each number."""
        met: Counter[str] = Counter()
        spots: list[Spot] = []
        for run in self.runs:
            spots += [(run.name, met[run.name] + each) for each in range(run.partitions)]
            met[run.name] += run.partitions
        return spots

    @property
    def topics(self) -> dict[str, InputTopic]:
        """Return each topic with its latest id and all its numbered partitions."""
        counts = self._counts
        return {run.name: replace(run, partitions=counts[run.name]) for run in self.runs}

    @property
    def _counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for run in self.runs:
            counts[run.name] += run.partitions
        return counts

    def extended(self, topics: Iterable[InputTopic]) -> InputTable:
        """Return the table with numbers for all of *topics*; raise `Stop` if there are too many."""
        counts, topics = self._counts, sorted(topics, key=lambda each: each.name)
        ids = {each.name: each.id for each in topics if each.id}
        runs = [replace(run, id=ids.get(run.name, run.id)) for run in self.runs]
        new = [replace(each, partitions=each.partitions - counts[each.name]) for each in topics]
        runs += [each for each in new if each.partitions > 0]
        if sum(run.partitions for run in runs) > NUMBERS_MAX:
            raise Stop(
                f"input.topics has more than {NUMBERS_MAX} partitions, with those of topics that "
                "are gone: an index has no numbers for them; split the topics between two groups",
                exit_code=ExitCode.CONFIG,
            )
        return InputTable(tuple(runs))

    def as_json(self) -> list[list[str | int]]:
        """Return the table as JSON."""
        return [[run.name, run.id, run.partitions] for run in self.runs]

    def encode(self) -> bytes:
        """Return the bytes of the fact."""
        return json.dumps(self.as_json(), separators=(",", ":")).encode()


ONE_TOPIC = InputTable()  # no table: numbers are partitions


def decode_table(field: object) -> InputTable:
    """Return the table that `InputTable.as_json` returned. Raises `FormatError`: it is no table."""
    runs = []
    for run in field if isinstance(field, list) else [None]:
        match run:
            case [_, _, bool()]:
                raise FormatError(f"a table of input topics has the run {run!r}")
            case [str(name), str(id_), int(count)] if (
                name and 0 < count <= NUMBERS_MAX and type(count) is int
            ):
                runs.append(InputTopic(name, id_, count))
            case _:
                raise FormatError(f"a table of input topics has the run {run!r}")
    if sum(run.partitions for run in runs) > NUMBERS_MAX:
        raise FormatError(f"a table of input topics has more than {NUMBERS_MAX} numbers")
    return InputTable(tuple(runs))


def table_of(fact: bytes | None) -> InputTable:
    """Return the table in an index's *fact* (empty: one topic), or raise `FormatError`."""
    if fact is None:
        return ONE_TOPIC
    try:
        return decode_table(json.loads(fact))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the index's fact {FACT!r}: {error}") from None


def origins_of(fact: bytes | None) -> Origins:
    """Return where an index's documents came from, by the table in its *fact*."""
    return Origins(spots=dict(enumerate(table_of(fact).spots)))
