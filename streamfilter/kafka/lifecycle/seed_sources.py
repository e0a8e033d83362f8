"""Seeds that are no files: the partitions of a topic, and the documents of another index."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby, islice
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
from msgspec import Struct

from streamfilter.config.configuration import Config
from streamfilter.documents.reader import Reader
from streamfilter.engine.batches.batch_preparation import Incoming
from streamfilter.engine.batches.micro_batches import bytes_of
from streamfilter.engine.batches.refusals import Refusals
from streamfilter.engine.ports import Clock
from streamfilter.index.directory.identity import Identity, differences
from streamfilter.index.directory.opening import read_identity
from streamfilter.index.directory.read_only_view import IndexView, viewed
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import IndexMismatch
from streamfilter.index.format import names_of
from streamfilter.index.input_table import FACT, Piece, Seed, table_of
from streamfilter.index.protocol import Documents
from streamfilter.kafka.brokers.broker_queries import ask_for_id
from streamfilter.kafka.connection.clients import admin_client
from streamfilter.kafka.connection.one_shot_calls import awaited
from streamfilter.kafka.topic_reader import (
    Advanced,
    Bounds,
    Shown,
    TopicReader,
    no_progress,
    opened,
)
from streamfilter.matching.batch import Prepared
from streamfilter.model import Document, Record, Source, noun
from streamfilter.similarity.columns import I64, Contents
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.stops import ConfigError, ExitCode, Problem, Stop
from streamfilter.workers.frames import Drawn
from streamfilter.workers.preparing import Preparing, Read

logger = logging.getLogger("streamfilter.seed")
PIECE_RECORDS = 1_000
BLOCK_RECORDS, BLOCK_BYTES = 20_000, 64 << 20  # held of all partitions together
BLOCK_RECORDS_MIN = 500
_OF_KAFKA = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
LISTED = 100  # most ids in both indexes that are listed; all are counted


class SeedTopic(Struct, frozen=True):
    """A topic as seeds: each partition is one, and its lines are its offsets.

    The partitions are merged by the timestamps of their next records. So none is read ahead of the
    others, and the order depends only on the positions.
    """

    reader: TopicReader
    bounds: Bounds
    name: str
    id: str
    advanced: Advanced
    _passed: dict[int, int] = msgspec.field(default_factory=dict)

    @property
    def seeds(self) -> tuple[Seed, ...]:
        return tuple(
            Seed(f"{self.name}/{p}", f"topic {self.id}", start)
            for p, (start, _) in self.bounds.items()
        )

    def pieces(self, seeds: Mapping[str, Seed]) -> Iterator[Piece]:
        """Yield the records from the positions of *seeds* on. Raises `Stop`: it cannot be read."""
        streams = []
        for p, first in zip(self.bounds, self.seeds, strict=True):
            at = seeds[first.name].position
            _warn_of_deleted(first.name, at, first.position)
            streams.append(self._records(first.name, p, max(at, first.position)))
        merged = merge(*streams, key=lambda record: record.timestamp)
        while records := list(islice(merged, PIECE_RECORDS)):
            yield Piece(records, {each.source.topic: each.source.offset + 1 for each in records})

    def _records(self, name: str, p: int, at: int) -> Iterator[Record]:
        end, count = self.bounds[p][1], len(self.bounds)
        most = max(BLOCK_RECORDS_MIN, BLOCK_RECORDS // count)
        self._show(p, min(at, end))
        while at < end:
            begun = at
            block, at = self._block(p, at, min(end, at + most), BLOCK_BYTES // count)
            if begun < (block[0].source.offset if block else at):  # compacted, or deleted just now
                _warn_of_deleted(name, begun, self.reader.begins(p))
            for each in block:
                yield dataclasses.replace(each, source=Source(name, p, each.source.offset))
            self._show(p, at)

    def _block(self, p: int, at: int, end: int, size: int) -> tuple[list[Record], int]:
        """Return the records from *at* on, up to *end* or *size* bytes, and where they end."""
        block: list[Record] = []
        for record in self.reader.records({p: (at, end)}):
            block.append(record)
            size -= bytes_of(record)
            if size < 0:
                return block, record.source.offset + 1
        return block, end

    def _show(self, p: int, at: int) -> None:
        before = self._passed.get(p, self.bounds[p][0])
        self.advanced(max(0, at - before))
        self._passed[p] = max(at, before)


def _warn_of_deleted(name: str, at: int, begins: int) -> None:
    if at < begins:
        said = f"offsets {at} to {begins - 1} were deleted before they were read"
        logger.warning("%s: %s: copies of them are new", name, said)


@contextmanager
def topic_seed(
    config: Config,
    topic: str,
    name: str | None,
    partition: int | None,
    offsets: tuple[int | None, int | None],
    shown: Shown,
) -> Iterator[SeedTopic]:
    """Yield what is committed of *topic* now, or of one *partition* between two *offsets*.

    Raises `Stop`: it cannot be read, or it belongs to the service and is not its unique topic.
    """
    _refuse_own(config, topic)
    first, last = offsets
    with opened(config, topic, None, key="--topic") as (reader, bounds):
        if partition is not None:
            if partition not in bounds:
                raise Stop(
                    f"--partition: {topic} has no partition {partition}; it has {len(bounds)}",
                    exit_code=ExitCode.USAGE,
                )
            start, end = bounds[partition]
            end = end if last is None else min(end, last)
            bounds = {partition: (min(max(start, first or 0), end), end)}
        admin = admin_client(config)
        id_ = awaited(config, lambda _: ask_for_id(admin, topic))
        if first:
            id_ += f" from {first}"  # under one name, nothing before it would ever be read
        length = sum(end - start for start, end in bounds.values())
        with shown("seeding", length) as advanced:
            yield SeedTopic(reader, bounds, name or topic, id_, advanced)


def _refuse_own(config: Config, topic: str) -> None:
    """Refuse (`ConfigError`) the topics of the service whose records are no forwarded ones."""
    if config.input.among([topic]):
        got = f"{topic} is the input: each of its records would be withheld as a copy of itself"
    elif topic in {config.changelog_topic, config.output.duplicates, *config.output.dead_letters}:
        got = f"{topic} holds records that were not forwarded, or none of the input"
    elif topic in _OF_KAFKA or topic in {config.sketches_topic, config.verdicts_topic}:
        got = f"{topic} is internal: it holds no documents"
    else:
        return
    cure = f"name a topic of forwarded documents, such as {config.output.unique}"
    raise ConfigError([Problem("--topic", got, cure)])


@noun()
class Remembered(Record):
    """A document of another index: a row of its stored columns."""

    documents: Documents = field(kw_only=True)
    row: int = field(kw_only=True)


@dataclass(slots=True)
class SeedIndex:
    """Another index as a seed: its lines are its ordinals.

    `shared` counts its documents whose ids the target had before, from `LISTED` on unlisted.
    """

    path: Path
    name: str
    config: Config
    advanced: Advanced = no_progress
    identity: Identity = field(init=False)
    documents: int = 0  # that it has now
    shared: int = 0
    listed: list[str] = field(default_factory=list)
    _passed: int = 0

    def __post_init__(self) -> None:
        """Read whose index it is. Raises `Stop` or `IndexFault`: its documents do not fit."""
        if self.path.resolve() == self.config.index.path.resolve():
            raise Stop(f"{self.path}: is the index itself", exit_code=ExitCode.USAGE)
        try:
            identity = read_identity(self.path, seed=seed_at(self.config.index.seed_file))
        except IndexMismatch as error:
            raise error.with_ways(_OTHERS) from None
        if identity is None:
            raise Stop(f"{self.path}: there is no index", exit_code=ExitCode.USAGE)
        scheme = self.config.scheme()
        wanted = Identity.new(
            scheme=scheme.as_json(), fingerprint=scheme.fingerprint, created=0, seed=identity.seed
        )
        named = [one for one in differences(identity, wanted) if not one.startswith("index_id:")]
        if named:
            raise self._unlike(named)
        self.identity = identity
        with self._view(self.path) as view:
            self.documents = len(view)

    def _view(self, path: Path) -> AbstractContextManager[IndexView]:
        return viewed(path, seed=seed_at(self.config.index.seed_file))

    def _unlike(self, named: Sequence[str]) -> IndexMismatch:
        lines = "".join(f"\n    {each}" for each in named)
        return IndexMismatch(
            f"the documents of {self.path} cannot enter this index:{lines}", ways=_OTHERS
        )

    def into(self, config: Config) -> list[SeedIndex]:
        self.config = config
        return [self]

    @property
    def seeds(self) -> tuple[Seed, ...]:
        return (Seed(self.name, f"index {self.identity.index_id}", 0),)

    def pieces(self, seeds: Mapping[str, Seed]) -> Iterator[Piece]:
        """Yield its documents from the seed's position on. Raises `IndexMismatch`: other hashes."""
        (seed,) = seeds.values()
        with self._view(self.config.index.path) as target:
            if target.identity.seed != self.identity.seed:
                raise self._unlike([_HASHES])
            known = _names_but_for(target, self.name)
        with self._view(self.path) as view:
            for documents in view.scan():
                rows = np.flatnonzero(documents.ordinals >= seed.position)
                self._count(documents, rows, known)
                ordinals, times = documents.ordinals.tolist(), documents.timestamps.tolist()
                records = [
                    Remembered(
                        Source(self.name, 0, ordinals[row]), None, None, (), times[row],
                        documents=documents, row=row,
                    )
                    for row in rows.tolist()
                ]  # fmt: skip
                yield Piece(records, {self.name: ordinals[-1] + 1})

    def _count(self, documents: Documents, rows: I64, known: I64) -> None:
        rows = rows[documents.ordinals[rows] >= self._passed]
        self._passed = max(self._passed, int(documents.ordinals[-1]) + 1)
        self.advanced(len(rows))
        hits = rows[np.isin(_hashes(documents)[rows], known)].tolist()
        self.shared += len(hits)
        self.listed += [documents.ids[row] for row in hits[: LISTED - len(self.listed)]]


def _hashes(documents: Documents) -> I64:
    """Return (n,) hashes of the ids, in their scopes; equal only within this process."""
    hashes = (hash(names[0]) for names in names_of(documents))
    return np.fromiter(hashes, np.int64, len(documents))


def _names_but_for(target: IndexView, seed: str) -> I64:
    """Return the hashes of all ids in *target*, except for documents of a *seed*."""
    table = table_of(target.fact(FACT)).by_number
    number = next((n for n, each in table.items() if each.name == seed), -1)
    found = [_hashes(each)[each.partitions != number] for each in target.scan()]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))


_OTHERS = (
    "\n    ways out: set what differs as that index has it; or seed the texts themselves, from a "
    "file or by --topic: they are sketched anew"
)
_HASHES = (
    "seed: the hashes of the two differ; two indexes have the same one if both were made with one "
    "index.seed_file, or if this one began with the other as its seed"
)


class StoredSketches(Struct, frozen=True):
    """`parts.Preparer` of documents of another index: their columns are there already."""

    incoming: Incoming

    @property
    def refusals(self) -> Refusals:
        return self.incoming.refusals

    def prepare(self, records: Sequence[Record], sketcher: Sketcher, clock: Clock) -> Prepared:
        stored = cast(Sequence[Remembered], records)
        runs = [[*run] for _, run in groupby(stored, key=lambda each: id(each.documents))]
        contents = Contents.joined([
            run[0].documents.contents.at(np.array([each.row for each in run], np.int64))
            for run in runs
        ])  # fmt: skip
        sketches = Sketches(contents, sketcher.keys_of(contents))
        drawn = Drawn(np.arange(len(records)), [], sketches)
        read = Read(records, [Document(each.documents.ids[each.row], "") for each in stored], drawn)
        return self.incoming.fitting(read, Preparing(Reader(), sketcher))
