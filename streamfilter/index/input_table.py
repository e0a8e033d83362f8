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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from streamfilter.index.errors import FormatError
from streamfilter.model import SEEDS_FROM, InputTopic, Origins, Record
from streamfilter.stops import ExitCode, Stop

FACT = "inputs"  # the name of the table among an index's facts
NUMBERS_MAX = 1 << 16  # a stored document has 16 bits for the number
SEED_NAME_BYTES_MAX = 400  # as JSON, so that a header with all seeds fits into a record of 1 MB

Spot = tuple[str, int]  # a topic and one of its partitions; a seed's name and its number


class Seed(Struct, frozen=True):
    """One input of `streamfilter seed`, and how far it was read."""

    name: str
    id: str = ""  # of the topic or the index that it is; empty: a file
    position: int = 1  # the next line
    lines: int = 0  # how many of its first lines have the digest
    digest: str = ""


class Piece(Struct, frozen=True):
    """Consecutive records of one seed or several."""

    records: Sequence[Record]  # their sources need the seed's name as topic, and the right offsets
    ends: Mapping[str, int]  # by name, the position after it
    digest: str = ""  # of everything before the only end; empty: none


class InputTable(Struct, frozen=True):
    """The partitions in the order of their numbers, as runs of one topic's next partitions."""

    runs: tuple[InputTopic, ...] = ()
    seeds: tuple[Seed, ...] = ()
    """The first has the number 65,535, the next one 65,534. Their positions are only here: a batch
    of the running service has none of them."""

    def __bool__(self) -> bool:
        return bool(self.runs or self.seeds)

    @property
    def by_number(self) -> dict[int, Seed]:
        return {NUMBERS_MAX - 1 - n: seed for n, seed in enumerate(self.seeds)}

    def seeded(self, seeds: Iterable[Seed]) -> InputTable:
        """Return the table with further *seeds*; one that is known by its name keeps its position.

        Raises `Stop`: a name is too long or stands for something else, or there are too many.
        """
        known = {seed.name: seed for seed in self.seeds}
        for seed in seeds:
            old = known.setdefault(seed.name, seed)
            if old.id != seed.id:
                raise Stop(
                    f"the seed {seed.name!r} is known, and it was another one: {old.id or 'a file'}"
                    f", not {seed.id or 'a file'}. Give this one another name (--name). "
                    "input.take_over reads the whole topic under its own name: for that, "
                    "`streamfilter reset --yes`, and seed it without --from",
                    exit_code=ExitCode.CONFIG,
                )
            if not 0 < len(json.dumps(seed.name)) <= SEED_NAME_BYTES_MAX:
                raise Stop(
                    f"the seed's name {seed.name[:40]!r}… has more than {SEED_NAME_BYTES_MAX} "
                    "bytes as JSON; give it a shorter one (--name)",
                    exit_code=ExitCode.USAGE,
                )
        if len(known) > NUMBERS_MAX - SEEDS_FROM:
            raise Stop(
                f"an index takes {NUMBERS_MAX - SEEDS_FROM} seeds, and has {len(self.seeds)}; put "
                "several files together into one",
                exit_code=ExitCode.CONFIG,
            )
        return replace(self, seeds=tuple(known.values()))

    @property
    def spots(self) -> list[Spot]:
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
        if sum(run.partitions for run in runs) > SEEDS_FROM:
            raise Stop(
                f"input.topics has more than {SEEDS_FROM} partitions, with those of topics that "
                "are gone: an index has no numbers for them; split the topics between two groups",
                exit_code=ExitCode.CONFIG,
            )
        return replace(self, runs=tuple(runs))

    def as_json(self) -> Any:
        """Return the table as JSON: a list of topics, or an object if there are seeds."""
        runs = [[run.name, run.id, run.partitions] for run in self.runs]
        return (
            {"topics": runs, "seeds": [[*astuple(each)] for each in self.seeds]}
            if (self.seeds)
            else runs
        )

    def encode(self) -> bytes:
        return json.dumps(self.as_json(), separators=(",", ":")).encode()


ONE_TOPIC = InputTable()  # no table: numbers are partitions


def decode_table(field: object) -> InputTable:
    """Return the table that `InputTable.as_json` returned. Raises `FormatError`: it is no table."""
    runs: list[InputTopic] = []
    seeds: tuple[Seed, ...] = ()
    if isinstance(field, dict):
        seeds, field = _decoded_seeds(field.get("seeds")), field.get("topics")
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
    return InputTable(tuple(runs), seeds)


def _decoded_seeds(field: object) -> tuple[Seed, ...]:
    seeds = []
    for each in field if isinstance(field, list) else [None]:
        match each:
            case [str(name), str(id_), int(position), int(lines), str(digest)] if (
                name and lines >= 0 and 0 <= position < 1 << 63
            ):
                seeds.append(Seed(name, id_, position, lines, digest))
            case _:
                raise FormatError(f"a table of input topics has the seed {each!r}")
    names = {seed.name for seed in seeds}
    if len(names) != len(seeds) or not 0 < len(seeds) <= NUMBERS_MAX - SEEDS_FROM:
        raise FormatError("a table of input topics has too many seeds, or one twice")
    return tuple(seeds)


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
    table = table_of(fact)
    seeds = {number: (seed.name, number) for number, seed in table.by_number.items()}
    return Origins(spots=dict(enumerate(table.spots)) | seeds)
