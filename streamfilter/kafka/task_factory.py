"""Holds what a process's tasks share, and creates its service, tasks and standbys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.assembly import (
    IndexDirectory,
    backups_for,
    index_for,
    policy_for,
    reader_for,
    retention_for,
    texts_of,
)
from streamfilter.cluster.judge import Received, SketchLog, VerdictWriter
from streamfilter.config.configuration import Config
from streamfilter.engine.batches.batch_preparation import Incoming
from streamfilter.engine.batches.breaker import Breaker
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.batches.pace import Pace
from streamfilter.engine.batches.refusals import Refusals
from streamfilter.engine.clock_and_worker import Aside, ThreadWorker
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.messages.forwarding import Destinations, Forwarder, Style
from streamfilter.engine.observer import Observer
from streamfilter.engine.parts import BatchLimits, Parts
from streamfilter.engine.ports import Changelog, Clock, Member, RecordSource, Sink
from streamfilter.engine.start_checks import Names, refuse_lost_changelog
from streamfilter.engine.trimming import Trimming
from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.index_paths import index_of
from streamfilter.index.input_table import ONE_TOPIC, Seed
from streamfilter.index.protocol import Index
from streamfilter.index.rocks.options import MIB
from streamfilter.kafka.brokers import topic_creation, topics
from streamfilter.kafka.brokers.changelog_topic import refuse_changed
from streamfilter.kafka.brokers.cluster_topics import range_bytes
from streamfilter.kafka.brokers.partition_counts import PartitionCounts, SecondTopic, TaskTopics
from streamfilter.kafka.brokers.topics import MESSAGE_BYTES, Topics
from streamfilter.kafka.brokers.watches import Watches
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.errors import kafka_errors, stops
from streamfilter.kafka.ports.changelog import KafkaChangelog
from streamfilter.kafka.ports.membership import GroupMembership
from streamfilter.kafka.ports.sink import KafkaSink
from streamfilter.kafka.ports.source import KafkaSource
from streamfilter.kafka.ports.unowned_partitions import UnownedPartitions
from streamfilter.kafka.predecessor import TakeOver
from streamfilter.matching.batch import Rules
from streamfilter.quality.live.audit import Rates
from streamfilter.tasks.index_backups import BackupObserver, IndexBackups
from streamfilter.tasks.plan import Plan
from streamfilter.tasks.service import Service
from streamfilter.tasks.standby import Standby, Standbys
from streamfilter.tasks.task import Task
from streamfilter.workers.crew import Crew

BATCH_BYTES_MAX = 1_000_000  # librdkafka's own default for batch.size
TASK_BATCH_MIN = MIB // 4
NO_PROPERTIES: Mapping[str, str] = {}
RESETS = {"auto.offset.reset": "earliest"}  # of a topic whose records come again if they are lost


class TaskFactory(Struct, frozen=True):
    """The objects that all tasks of a process share."""

    config: Config
    admin: AdminClient
    topics: Topics
    seed: bytes | None
    clock: Clock
    observer: FilterObserver
    destinations: Destinations
    partitions: PartitionCounts
    input_id: str  # the input's topic id, or the empty string
    crew: Crew  # worker processes that compute sketches for all tasks
    backups: BackupObserver
    worker: ThreadWorker = field(default_factory=ThreadWorker)
    seeds: tuple[Seed, ...] = ()  # what the task reads instead of its input (`seeding.py`)
    adapted: Callable[[Parts], Parts] = lambda parts: parts
    hashes: bytes | None = None  # the secret of a new index without a seed file; None: random
    take_over: TakeOver | None = None  # of another group (`input.take_over`)

    @property
    def tasks(self) -> int:
        """Return how many tasks the group has: so many share the limits of a process."""
        return self.partitions.layout.tasks

    def create_changelog(self) -> None:
        """Create the changelog; raise `Refusal` if the group has used one, or `LogError`."""
        names, layout = self._names(0), self.partitions.layout
        inputs = names.inputs
        numbers = inputs.take(ONE_TOPIC, layout, 0) if inputs.several else layout.partitions
        everything = self.source(self.topics_of(0, inputs))
        try:
            committed = everything.committed(numbers)
        finally:
            everything.close()
        # Checked again, after the offsets: another process may have created it meanwhile.
        if self.config.changelog_topic in topics.describe(self.config, self.admin):
            return
        refuse_lost_changelog(names, committed)
        largest = self.destinations.changelog_limit or MESSAGE_BYTES
        topic_creation.create_changelog(self.config, self.admin, self.tasks, message_bytes=largest)

    def service(self, *, accept_positions: bool, rewrite_changelog: bool) -> Service:
        """Return the service; it joins the group here."""
        config, tasks = self.config, range(self.tasks)
        cold = config.index.standby == "cold" or bool(self.seeds)
        membership = joined(self, config.kafka.group, config.changelog_topic, self.tasks)
        watches = self.watches()
        return Service(
            membership,
            lambda number, index: self._task(
                self.plan(
                    number, accept_positions=accept_positions, rewrite_changelog=rewrite_changelog
                ),
                index,
                membership,
            ),
            self.observer.process,
            self.clock,
            latency=config.batch.latency.total_seconds(),
            standbys=None if cold else Standbys(tasks, self._standby),
            tasks=len(tasks),
            look=watches.look,
            away=watches.reach.detail,
            hindered=watches.weak.__str__,
        )

    def watches(self) -> Watches:
        """Return what the process watches beside its tasks."""
        return Watches(
            self.config, self.admin, self.partitions, self.clock, self.observer, self.input_id
        )

    def _standby(self, number: int) -> Standby:
        plan = self.plan(number)
        changelog, store = self.changelog(number), self.store(number)
        backups = self._backups(plan)
        return Standby(plan, changelog, store, self.observer, self.clock, backups)

    def _backups(self, plan: Plan) -> IndexBackups | None:
        """Return the backups of a task's index; each has a thread for itself, which may hang."""
        path = self.store(plan.number).path
        name = "index" if path == self.config.index.path else path.name
        target = backups_for(self.config, path, name)
        return None if target is None else IndexBackups(plan, target, self.backups, Aside())

    def plan(
        self, number: int, *, accept_positions: bool = False, rewrite_changelog: bool = False
    ) -> Plan:
        return Plan(
            number=number,
            names=self._names(number),
            scheme=self.config.scheme(),
            bucket_cap=self.config.index.bucket_cap,
            start=self.config.input.start,
            accept_positions=accept_positions,
            new_identity=self._new_identity,
            rewrite_changelog=rewrite_changelog,
            rewinds=not self.config.cluster.enabled,
        )

    def _task(self, plan: Plan, index: Index | None, membership: GroupMembership) -> Task:
        topics = self.topics_of(plan.number, plan.names.inputs)
        changelog = self.changelog(plan.number)
        if (taking := self.take_over) is not None and not taking.done:
            theirs = self.sink(topics, changelog, taking.old.name)
            plan = replace(plan, predecessor=taking.of(plan.names.inputs, theirs))
        if self.config.cluster.enabled and not self.seeds:
            parts = self._judging(plan, topics, changelog, membership.member)
        else:
            source = self.source(topics)
            sink = self.sink(with_notes(self.config, topics, source), changelog)
            parts = self.parts(plan, source, sink, changelog, membership.member)
        backups = self._backups(plan)
        return Task(plan, self.adapted(parts), self.store(plan.number), index, backups)

    def _judging(
        self,
        plan: Plan,
        topics: TaskTopics,
        changelog: KafkaChangelog,
        member: Callable[[], Member],
    ) -> Parts:
        """Return the components of a judge: it reads sketch ranges, and writes verdict ranges."""
        config, inputs = self.config, self.source(topics)
        shadow = config.output.mode == "shadow"
        sketches = replace(topics, inputs=Inputs(config.sketches_topic))
        log = SketchLog(
            inputs,
            self.source(sketches, RESETS),
            topic=config.input.topic,
            scheme=config.scheme(),
            dropped=partial(note_dropped, self.observer.process),
            noted=inputs.noted,
        )
        sink = self.sink(
            replace(topics, beside=SecondTopic(config.sketches_topic, log.beside)), changelog
        )
        return replace(
            self.parts(plan, log, sink, changelog, member),
            incoming=Received(),
            breaker=Breaker(1.0),  # each edge has its own: one that fails must not stop the others
            forwarder=VerdictWriter(
                log, config.verdicts_topic, own_ids=shadow, largest=range_bytes(config, self.topics)
            ),
        )

    def parts(
        self,
        plan: Plan,
        source: RecordSource,
        sink: Sink,
        changelog: Changelog,
        member: Callable[[], Member],
    ) -> Parts:
        config, inputs = self.config, plan.names.inputs
        return Parts(
            source=source,
            sink=sink,
            changelog=changelog,
            layout=lambda: self.partitions.ask(self.admin),
            member=member,
            clock=self.clock,
            observer=self.observer,
            incoming=Incoming(
                reader_for(config, settle=True),
                self.destinations,
                config.output.mode == "shadow",
                Refusals(self.destinations.compacted),
                self.crew,
            ),
            forwarder=self._forwarder(),
            rules=Rules(policy_for(config), inputs.locate),
            bounds=_bounds(config, self.tasks),
            breaker=Breaker(config.limits.dead_letter_share),
            pace=Pace(self.clock, config.kafka.transaction_timeout.total_seconds()),
            worker=self.worker,
            inputs=inputs,
            rates=Rates(config.audit.arrivals, config.audit.time),
            retention=retention_for(config),
            trimming=Trimming(changelog, self.clock, self.observer, plan.names.changelog),
        )

    def _names(self, number: int) -> Names:
        config = self.config
        changelog = f"{config.changelog_topic}/{number}"
        where = str(self.store(number).path)
        inputs = Inputs(config.input.name, several=config.input.several, seeds=self.seeds)
        return Names(config.kafka.group, config.input.name, changelog, where, inputs)

    def store(self, number: int) -> IndexDirectory:
        path = index_of(self.config.index.path, number, whole=self.partitions.layout.whole)
        found = index_for(self.config, path, seed=self.seed, share=self.tasks)
        return found if self.seeds else replace(found, texts=texts_of(self.config))

    def topics_of(self, number: int, inputs: Inputs) -> TaskTopics:
        return TaskTopics(inputs, self.config.changelog_topic, number, self.input_id)

    def changelog(self, number: int, own: Mapping[str, str] = NO_PROPERTIES) -> KafkaChangelog:
        """Return the changelog of a task; its readers have some properties of their *own*."""
        config, to = self.config, self.destinations
        limits = {config.changelog_topic: to.changelog_limit or 0, **to.limits}
        return KafkaChangelog(
            self.topics_of(number, Inputs(config.input.name)),
            self.admin,
            lambda: self._reader(own),
            lambda: refuse_changed(config, self.admin, limits),
        )

    def _reader(self, own: Mapping[str, str]) -> Consumer:
        properties = self._watched(clients.reader_properties, "restore")
        return clients.consumer(self.config, {**properties, **own})

    def source(self, topics: TaskTopics, own: Mapping[str, str] = NO_PROPERTIES) -> KafkaSource:
        """Return a source of records of *topics*; its consumer has some properties of its *own*."""
        config, share = self.config, self.tasks

        def properties(config: Config) -> dict[str, Any]:
            return {**clients.data_properties(config, share=share), **own}

        with stops(), kafka_errors("making a task's consumer"):
            return KafkaSource(
                topics,
                self.admin,
                data=lambda: clients.consumer(config, self._watched(properties, "data")),
                reader=lambda: self._reader(own),
                seconds=config.kafka.transaction_timeout.total_seconds(),
                spare=own == RESETS,
            )

    def sink(self, topics: TaskTopics, changelog: KafkaChangelog, group: str = "") -> KafkaSink:
        """Return the transactions of a task under its id in *group*, by default in ours."""
        config = self.config
        made = [self.topics[each] for each in config.made_topics if each in self.topics]
        own = [each.message_bytes for each in made] or [MESSAGE_BYTES]
        limits = [*self.destinations.limits.values(), *own]
        most = max(*limits, self.destinations.changelog_limit or 0)
        sizes = clients.Sizes(message=most, batch=min(BATCH_BYTES_MAX, *limits))
        watched = self.observer.process.statistics.watched
        own_id = clients.transactional_id(group or config.kafka.group, topics.task)
        properties = clients.producer_properties(config, transactional_id=own_id, sizes=sizes)
        return KafkaSink(
            topics,
            self.admin,
            changelog,
            lambda careful: clients.producer(
                config, watched({**properties, **(clients.CAREFUL if careful else {})}, "producer")
            ),
            seconds=config.kafka.transaction_timeout.total_seconds(),
        )

    def _watched(self, properties: Callable[[Config], dict[str, Any]], role: str) -> dict[str, Any]:
        return self.observer.process.statistics.watched(properties(self.config), role)

    def _forwarder(self) -> Forwarder:
        config = self.config
        style = Style(
            shadow=config.output.mode == "shadow",
            duplicates_mode=config.output.duplicates_mode,
            scheme=config.scheme().fingerprint,
            threshold=config.similarity.threshold,
        )
        return Forwarder(self.destinations, style, self.partitions.layout)

    def _new_identity(self) -> Identity:
        scheme = self.config.scheme()
        identity = Identity.new(
            scheme=scheme.as_json(),
            fingerprint=scheme.fingerprint,
            created=self.clock.wall_milliseconds(),
            seed=self.seed,
        )
        own = self.hashes if self.seed is None else None
        return identity if own is None else replace(identity, seed=own)


def with_notes(config: Config, topics: TaskTopics, source: KafkaSource) -> TaskTopics:
    """Return *topics*; with roles, a transaction commits what judges have noted again.

    A seed between two judges commits offsets. Without the notes, what edges owe would be lost.
    """
    kept = SecondTopic(config.sketches_topic, lambda at: source.noted([*at]))
    return replace(topics, beside=kept) if config.cluster.enabled else topics


def _bounds(config: Config, share: int) -> BatchLimits:
    seconds = config.kafka.transaction_timeout.total_seconds()
    socket = config.kafka.properties("producer").get("socket.timeout.ms")
    return BatchLimits(
        documents=config.batch.documents,
        size=max(TASK_BATCH_MIN, config.batch.bytes // share),
        latency=config.batch.latency.total_seconds(),
        transaction_seconds=seconds,
        socket_seconds=int(socket) / 1000 if socket else min(60.0, seconds),
        stuck_seconds=config.http.stuck_after.total_seconds(),
    )


def note_dropped(observer: Observer, reason: str, message: str) -> None:
    """Count a sketch range that a judge does not use, and log what an operator has to look at."""
    observer.metrics.count("sketch_ranges_dropped_total", reason)
    if message:
        observer.loudly(f"a sketch range is not used: {message}")


def joined(factory: TaskFactory, group: str, topic: str, partitions: int) -> GroupMembership:
    config, statistics = factory.config, factory.observer.process.statistics
    own = clients.ownership_properties(config) | {"group.id": group}
    unowned = None
    if clients.is_static(own) and partitions > 1:
        unowned = UnownedPartitions(factory.admin, factory.clock, group, topic, partitions)
    with stops(), kafka_errors("joining the group"):
        consumer = clients.consumer(config, statistics.watched(own, "owner"))
        return GroupMembership(consumer, topic, unowned)
