"""Joins `engine.corrections` to Kafka: a side topic, the input, and a producer that fences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

from confluent_kafka.admin import AdminClient
from msgspec import Struct

from streamfilter.assembly import reader_for
from streamfilter.config.configuration import Config
from streamfilter.documents.codecs.schemas import SchemasAway, SchemasWithheld
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.clock_and_worker import SystemClock
from streamfilter.engine.correction_verbs import LetterReplay, Surroundings, WithheldRelease
from streamfilter.engine.corrections import Bounds, Correction, Seen, Verb
from streamfilter.engine.ports import Denied, LogError, ProducerFenced, Retriable, as_stop
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.brokers.topics import Topics, described, inputs_of, layout_of
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.one_shot_calls import asked_once
from streamfilter.kafka.ports.changelog import KafkaChangelog
from streamfilter.kafka.ports.sink import KafkaSink
from streamfilter.kafka.topic_reader import Shown, TopicReaders, no_topic
from streamfilter.matching.verdict.side_records import CorrectionCounts, SideRecord
from streamfilter.model import Reading, Record
from streamfilter.process.broker_wait import Waiting
from streamfilter.process.signals import Interrupted
from streamfilter.stops import ConfigError, Fenced, Temporary, counted

BATCH_BYTES_MAX = 1_000_000  # librdkafka's own default for batch.size
QUIET_SECONDS = 5.0  # a coordinator that has just loaded takes a second or two
AGAIN = "run it again for the rest: nothing is sent twice"

MakeVerb = Callable[[Surroundings], Verb]


class SideTopic(Struct, frozen=True):
    """Implements `corrections.SideLog`."""

    admin: AdminClient
    topic: str
    since: datetime | None
    write: bool
    shown: Shown
    readers: TopicReaders

    def bounds(self) -> Bounds:
        """Return the records from the time on, to the end that a fence leaves.

        A preview opens no fence. It would wait for the transaction of a command that was killed.
        """
        reader = self.readers.of(self.topic)
        return reader.bounds(self.admin, self.since, stable=not self.write)

    def records(self, bounds: Bounds) -> Iterator[Record]:
        length = sum(end - start for start, end in bounds.values())
        with self.shown(f"reading {self.topic}", length) as advanced:
            yield from self.readers.of(self.topic).records(bounds, advanced)

    def original_of(self, side: SideRecord) -> Record | None:
        found = self.readers.at(side.source)
        return found if found is not None and side.is_source(found) else None


def releasing(
    config: Config,
    *,
    id: str | None,
    matched: str | None,
    place: tuple[str | None, int, int] | None,
) -> MakeVerb:
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    return lambda around: WithheldRelease(around, config.output.unique, time, id, matched, place)


def replaying(codes: Collection[str], attempts: int) -> MakeVerb:
    return lambda around: LetterReplay(around, codes, attempts)


def correct(
    config: Config,
    topic: str,
    verb: MakeVerb,
    *,
    since: datetime | None,
    write: bool,
    seen: Seen,
    shown: Shown,
) -> CorrectionCounts:
    """Send the records of the side *topic* that the verb chooses; without *write*, only count.

    Raises `Stop`; what was sent before stays, with its notes.
    """
    admin = clients.admin_client(config)
    found = described(config, admin)
    _refuse_missing(config, found, topic)
    layout = layout_of(config, found)
    patience, read = Waiting(config.kafka.start_timeout.total_seconds()), reader_for(config).read

    def reading(record: Record) -> Reading:
        return patience.awaited(
            lambda: read(record),
            SchemasAway,
            hopeless=lambda error: isinstance(error, SchemasWithheld),
        )

    around = Surroundings(
        layout,
        {name: each.message_bytes for name, each in found.items()},
        {name: each.partitions for name, each in inputs_of(config, found).items()},
        {name for name, each in found.items() if each.compacted},
        reading,
    )
    with asked_once(cure=AGAIN), ExitStack() as stack:
        readers = stack.enter_context(TopicReaders(config))
        log = SideTopic(admin, topic, since, write, shown, readers)
        correction = Correction(log, verb(around), seen)
        if not write:
            correction.preview()
            return correction.tally
        sink = _sink(config, admin, found)
        stack.callback(sink.close)
        _run(config, correction, sink)
        return correction.tally


def _run(config: Config, correction: Correction, sink: KafkaSink) -> None:
    def fence() -> None:
        patience = Waiting(config.kafka.start_timeout.total_seconds(), quiet=QUIET_SECONDS)
        patience.awaited(lambda: sink.open(watched=True), Retriable)

    seconds = config.kafka.transaction_timeout.total_seconds()
    try:
        correction.run(sink, fence, SystemClock(), min(60.0, seconds))
        return
    except (Interrupted, LogError) as error:
        ended = error
    sent = counted(correction.tally.sent.total(), "record")
    so_far = f"{sent} had been sent\n    cure: {AGAIN}"
    if isinstance(ended, Interrupted):
        raise Interrupted(f"stopped; {so_far}", exit_code=ended.exit_code)
    if isinstance(ended, ProducerFenced):
        raise Fenced(f"another release or replay of this group began; {so_far}")
    raise as_stop(ended) if isinstance(ended, Denied) else Temporary(f"{ended}; {so_far}")


def _refuse_missing(config: Config, found: Topics, topic: str) -> None:
    lacking = [each for each in (topic, config.output.unique) if each not in found]
    if lacking:
        raise ConfigError([no_topic("output", each, found) for each in lacking])
    if not inputs_of(config, found):
        raise ConfigError([no_topic("input.topic", config.input.name, found)])


def _sink(config: Config, admin: AdminClient, found: Topics) -> KafkaSink:
    """Return the producer of the group's corrections: one id, so that any two fence each other."""
    limits = [each.message_bytes for each in found.values()]
    sizes = clients.Sizes(message=max(limits), batch=min(BATCH_BYTES_MAX, *limits))
    properties = clients.producer_properties(
        config, transactional_id=f"{config.kafka.group}.corrections", sizes=sizes
    )
    topics = TaskTopics(Inputs(config.input.name), config.changelog_topic, 0)
    return KafkaSink(
        topics,
        admin,
        KafkaChangelog(topics, admin, lambda: clients.consumer(config, {}), lambda: None),
        lambda careful: clients.producer(
            config, {**properties, **(clients.CAREFUL if careful else {})}
        ),
        seconds=config.kafka.transaction_timeout.total_seconds(),
    )
