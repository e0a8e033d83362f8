"""Reads the committed records of a service's topics, for `evaluate --topics`.

It returns the input's records, their places in the outputs, and the order in which they were
judged. The order comes from the changelog's batch records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from streamfilter.config.configuration import Config
from streamfilter.documents.reader import Reader
from streamfilter.engine.messages import changelog
from streamfilter.engine.messages.changelog_header import BATCH, HEADER, decode_header, kind_of
from streamfilter.index.directory.seed_file import MEASURING
from streamfilter.index.input_table import Spot
from streamfilter.kafka import topic_sample
from streamfilter.kafka.connection.clients import admin_client
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.topic_reader import TopicReader
from streamfilter.matching.verdict.evidence_headers import PREFIX
from streamfilter.matching.verdict.side_records import (
    Note,
    Noted,
    SideRecord,
    read_back,
    released_from,
)
from streamfilter.model import SEEDS_FROM, Record, Source, Verdict
from streamfilter.quality.run import Given, Placed, Run, digest, given_of, placed_of
from streamfilter.similarity.sketch import digester_for
from streamfilter.stops import BrokenInput, counted

UNJUDGED = 1 << 62  # batch number for a record that no batch record covers: such records come last


def read_run(config: Config, reader: Reader) -> Run:
    """Return the committed records of the topics, or raise `Temporary` or `BrokenInput`."""
    order, digester = Order(config), digester_for(config.scheme(), seed=MEASURING)
    short_dropped = config.input.short_text == "drop"
    given = [
        given_of(record, reader, digester, order=order.of(record.source), droppable=short_dropped)
        for topic in _inputs(config)
        for record in _records(config, topic)
    ]
    output, shadow = config.output, config.output.mode == "shadow"
    placed = [
        _set_aside(record, found)
        for topic in output.dead_letters
        for record, found in _side_records(config, topic)
        if not isinstance(found, Note)
    ]
    released = _Released(output.duplicates, {each.source: each.raw for each in given})
    withheld = released.without_notes(_side_records(config, output.duplicates))
    placed += [_set_aside(*each) for each in withheld]
    placed += [
        _forwarded(record, shadow)
        for record in _records(config, output.unique)
        if not released.is_copy(record)
    ]
    notes = (*_notes(config.input.name, given, order), *released.notes(output.unique))
    return Run(sorted(given, key=lambda each: each.order), placed, notes)


def _notes(topic: str, given: Sequence[Given], order: Order) -> Iterator[str]:
    """Yield notes on numbers that look like lost or doubled records, but are not."""
    first: dict[int, int] = {}
    for each in given:
        first.setdefault(order.number(each.source), each.source.offset)
    gone = sum(
        first.get(partition, end) > start for partition, (start, end) in order.judged.items()
    )
    if gone:
        yield (
            f"{topic} no longer holds all that was judged (in {gone} of its partitions): outputs "
            "of what has gone count as too many, and matches of it as not kept"
        )
    ends = {partition: end for partition, (_, end) in order.judged.items()}
    waiting = sum(each.source.offset >= ends.get(order.number(each.source), 0) for each in given)
    if waiting:
        yield (
            f"{waiting:,} records of {topic} are not judged yet, and count as lost: the service "
            "works on them, or is off"
        )


def _inputs(config: Config) -> list[str]:
    """Return the input topics; one that is named exactly must exist."""
    if not config.input.wildcards:
        return list(config.input.exact)
    return config.input.among([*topic_sample.names(config), *config.input.exact])


def _forwarded(record: Record, shadow: bool) -> Placed:
    """Return a record of the unique topic; in shadow mode its headers may mark it as a duplicate.

    In other modes the record is unchanged, and headers with our prefix came with the input.
    """
    if shadow and PREFIX + "match.id" in dict(record.headers):
        return _set_aside(record, read_back(record))
    return Placed("unique", Verdict.UNIQUE, digest(record.value or b""))


def _side_records(config: Config, topic: str) -> Iterator[tuple[Record, SideRecord | Note | None]]:
    return ((record, read_back(record)) for record in _records(config, topic))


def _set_aside(record: Record, found: SideRecord | Note | None) -> Placed:
    """Return a record of the duplicates topic, of any mode, or a dead letter."""
    if not isinstance(found, SideRecord):
        raise BrokenInput(f"{record.source}: it is no record of streamfilter")
    raw = None if found.original is None else digest(found.original.value or b"")
    if found.evidence is None:
        return Placed("dead_letter", Verdict.REJECTED, raw, found.source)
    return replace(placed_of(found.evidence, "duplicates"), raw=raw)


class _Released:
    """The notes of released records, and the copies that belong to them (`engine.corrections`).

    A released record has its verdict and place among the duplicates. Its copy in the unique topic
    is no second output. A copy without a note, or a second copy for one note, is one too many.

    An input record may have the same header: forged, or from the filter before this one. It is no
    copy if the header names another topic, or if its value is not that of the withheld record.
    """

    def __init__(self, topic: str, raws: Mapping[Source, bytes]) -> None:
        self._topic, self._raws = topic, raws
        self._noted, self._count = Noted(), 0
        self._met: set[Source] = set()
        self._withheld: dict[Source, bytes | None] = {}

    def without_notes(
        self, records: Iterable[tuple[Record, SideRecord | Note | None]]
    ) -> Iterator[tuple[Record, SideRecord | None]]:
        for record, found in records:
            if isinstance(found, Note):
                self._count += found.records
                self._noted.add(record.source.partition, found.spans)
                continue
            if found is not None:
                self._withheld[record.source] = self._raws.get(found.source)
            yield record, found

    def is_copy(self, record: Record) -> bool:
        """Return whether a record of the unique topic is the one copy of a noted one."""
        place = released_from(record)
        if (
            place is None
            or place.topic != self._topic
            or place in self._met
            or not self._noted.has(place.partition, place.offset)
            or self._withheld.get(place) not in (None, digest(record.value or b""))
        ):
            return False
        self._met.add(place)
        return True

    def notes(self, topic: str) -> Iterator[str]:
        """Yield how many records were released, and how many copies are not there."""
        if self._count:
            lacking = self._count - len(self._met)
            gone = f"; {lacking:,} of them are not in {topic} (any more)" if lacking else ""
            yield f"{counted(self._count, 'record')} released; each counts once, as withheld{gone}"


class Order:
    """The order in which records were judged, from the changelog's batch records."""

    def __init__(self, config: Config) -> None:
        self._starts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._numbers: dict[Spot, int] = {}  # with several topics, place → number; else {}
        self.judged: dict[int, tuple[int, int]] = {}  # the first judged offset, and the end
        for record in _records(config, config.changelog_topic):
            value = record.value or b""
            if kind_of(value) == HEADER:
                spots = decode_header(value).inputs.spots
                self._numbers |= {spot: number for number, spot in enumerate(spots)}
            if kind_of(value) != BATCH:
                continue
            mark = changelog.decode_batch(value).stored_mark
            for span in mark.spans:
                if span.partition >= SEEDS_FROM:  # a line of a seed, not a record of the input
                    continue
                self._starts[span.partition].append((span.start, mark.number))
                start, end = self.judged.get(span.partition, (span.start, span.end))
                self.judged[span.partition] = min(start, span.start), max(end, span.end)
        for starts in self._starts.values():
            starts.sort()

    def number(self, source: Source) -> int:
        """Return the number of a record's partition; -1: its topic was not read yet."""
        if not self._numbers:
            return source.partition
        return self._numbers.get((source.topic, source.partition), -1)

    def of(self, source: Source) -> tuple[int, ...]:
        """Return the place of a record in the order: batch, partition, offset."""
        partition = self.number(source)
        starts = self._starts[partition]
        at = bisect_right(starts, (source.offset, UNJUDGED)) - 1
        number = starts[at][1] if at >= 0 else UNJUDGED
        return number, partition, source.offset


def _records(config: Config, topic: str) -> Iterator[Record]:
    """Yield the committed records of *topic*, from its beginning to its present end."""
    admin = admin_client(config)
    with kafka_errors(f"reading {topic}"), TopicReader(config, topic) as reader:
        yield from reader.records(reader.bounds(admin, stable=True))
