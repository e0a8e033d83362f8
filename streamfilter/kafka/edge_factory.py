"""Creates the service of an edge (`run --role edge`) from what all tasks of a process share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from msgspec.structs import replace

from streamfilter.assembly import sketcher_for
from streamfilter.cluster.edge import Edge, OneEdge
from streamfilter.cluster.edge_start import EdgeParts
from streamfilter.cluster.waiting import PendingLimits
from streamfilter.engine import start_checks
from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.ports import Denied, RecordsRefused, as_stop
from streamfilter.index.directory.identity import decode_identity
from streamfilter.kafka.brokers.cluster_topics import range_bytes
from streamfilter.kafka.brokers.partition_counts import SecondTopic
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.errors import classify, translated
from streamfilter.kafka.task_factory import TaskFactory, joined
from streamfilter.process.health import instance
from streamfilter.stops import Temporary
from streamfilter.tasks.service import Service

LOST = -1
FOR_GOOD = Denied, RecordsRefused


class KafkaSigner:
    """An idempotent producer for the topic of sketch ranges, outside of any transaction.

    It never waits. A range that cannot be sent is lost, and the judge's resume brings it again.
    A range that would be refused again ends the process: its records would wait for ever.
    """

    def __init__(self, topic: str, producer: Callable[[], Producer], largest: int) -> None:
        self._topic, self._new, self.largest = topic, producer, largest
        self._refusal: KafkaError | None = None
        self._producer: Producer | None = None
        self._count = 0
        self._done: dict[int, int] = {}

    def send(self, partition: int, message: bytes) -> int:
        self._count += 1
        if self._producer is None:
            self._producer = self._new()
        report = partial(self._note, self._count)
        reason = None
        try:
            self._producer.produce(self._topic, message, None, partition, report)
        except BufferError:
            reason = "the local queue is full"
        except KafkaException as error:
            reason = error.args[0]
        if reason is not None:
            self._lose(self._count, reason)
        if isinstance(reason, KafkaError) and (
            reason.fatal() or reason.code() in (KafkaError._FATAL, KafkaError._STATE)
        ):
            self._drop()
        return self._count

    def _note(self, number: int, error: KafkaError | None, message: Message) -> None:
        """Note a delivery report. A callback must never raise."""
        offset = message.offset()
        if error is not None or offset is None:
            self._lose(number, error)
        else:
            self._done[number] = offset

    def _lose(self, number: int, reason: object) -> None:
        self._done[number] = LOST
        if isinstance(reason, KafkaError) and classify(reason) in FOR_GOOD:
            self._refusal = reason

    def delivered(self) -> Mapping[int, int]:
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.poll(0)
        if self._refusal is not None:
            self._refuse(self._refusal)
        done, self._done = self._done, {}
        return done

    def _refuse(self, refusal: KafkaError) -> None:
        error = translated(refusal, f"sending a sketch range to {self._topic}")
        if isinstance(error, Denied):
            raise as_stop(error)
        raise Temporary(
            f"{error}\n    cure: raise the topic's max.message.bytes; or start again, since a "
            "start reads the limit, and cuts the ranges to it"
        )

    def _drop(self) -> None:
        """Drop a producer that cannot go on; what it has not delivered is lost."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()
                producer.close()


def edge_service(factory: TaskFactory, *, accept_positions: bool) -> Service:
    """Return the service of an edge; it joins the edges' group here."""
    config, observer = factory.config, factory.observer.process
    partitions = factory.partitions.layout.inputs
    group = joined(factory, config.edge_group, config.verdicts_topic, partitions)
    membership = OneEdge(group, lambda: factory.partitions.layout.inputs)
    statistics = observer.statistics

    def producer() -> Producer:
        size = factory.topics[config.sketches_topic].message_bytes
        properties = clients.signer_properties(config, size=size)
        return clients.producer(config, statistics.watched(properties, "signer"))

    largest = range_bytes(config, factory.topics)
    signer = KafkaSigner(config.sketches_topic, producer, largest)
    watches = factory.watches()
    return Service(
        membership,
        lambda number, index: _edge(factory, membership, signer, accept=accept_positions),
        observer,
        factory.clock,
        latency=config.batch.latency.total_seconds(),
        look=watches.look,
        away=watches.reach.detail,
        hindered=watches.weak.__str__,
    )


def _edge(factory: TaskFactory, membership: OneEdge, signer: KafkaSigner, *, accept: bool) -> Edge:
    config, plan = factory.config, factory.plan(0, accept_positions=accept)
    topics = factory.topics_of(0, plan.names.inputs)
    group = {"group.id": config.edge_group}  # an edge has no right on the judge's group
    changelog = factory.changelog(0, group)
    verdicts = replace(topics, inputs=Inputs(config.verdicts_topic))
    source = factory.source(verdicts, group)
    beside = SecondTopic(config.input.topic, lambda positions: edge.beside(positions))
    member = config.kafka.properties("consumer").get("group.instance.id") or instance()
    sink = factory.sink(
        replace(verdicts, beside=beside), changelog, f"{config.edge_group}.{member}"
    )
    parts = factory.parts(plan, factory.source(topics, group), sink, changelog, membership.member)
    memory, metrics = config.memory, factory.observer.process.metrics
    edge = Edge(
        plan,
        parts,
        EdgeParts(
            verdicts=source,
            noted=source.noted,
            signer=signer,
            owned=lambda: membership.owned,
            identity_of=lambda encoded: decode_identity(encoded, seed=factory.seed),
            sketcher_of=lambda identity: sketcher_for(config.scheme(), seed=identity.seed),
            topic=config.verdicts_topic,
            counted=lambda name, count: metrics.count(name, by=count),
            shown=lambda name, number: metrics.set(**{name: number}),
            pending=PendingLimits(config.cluster.pending, memory.index_cache + memory.memtable),
        ),
    )
    return edge


def refuse_unforwarded(factory: TaskFactory) -> None:
    """Refuse a single process while edges of the group have not forwarded all verdicts.

    Raises `Refusal`, or `LogError`.
    """
    config, plan = factory.config, factory.plan(0)
    if config.input.several or config.verdicts_topic not in factory.topics:
        return
    topics = factory.topics_of(0, plan.names.inputs)
    groups = [factory.source(topics), factory.source(topics, {"group.id": config.edge_group})]
    try:
        partitions = factory.partitions.layout.partitions
        judged, forwarded = (each.committed(partitions) for each in groups)
        by_judge = groups[0].noted(partitions)  # the others: one process went on since
    finally:
        for each in groups:
            each.close()
    if owed := start_checks.owed_by_edges(judged, forwarded, by_judge):
        raise start_checks.refuse_owed(plan.names, owed)
    if by_judge:
        clients.logger.warning(
            "a judge worked in group %s last, and this process has no role. While judges and edges "
            "run, it is on standby, and takes all records from them if the judge ends. To go back "
            "to one process, stop them first; else set cluster.enabled: true and start it with "
            "--role",
            config.kafka.group,
        )
