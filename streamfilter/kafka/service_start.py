"""Starts the service from a configuration, after one check of the cluster.

`serve` is the entry point. Before the first task starts, it checks the topics, their partition
counts and the changelog, and reports all problems at once. If a broker refuses access, it names the
kind of resource, seldom the resource and never the operation. So the error message lists all
rights that the user needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from confluent_kafka.admin import AdminClient
from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.assembly import backups_for, crew_for, policy_for, reader_for, retention_for
from streamfilter.config.checks import announced
from streamfilter.config.configuration import Config
from streamfilter.engine.clock_and_worker import SystemClock
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.messages.forwarding import Destinations
from streamfilter.engine.observer import Observer
from streamfilter.engine.ports import Clock, Denied, LogError, Retriable, as_stop
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.kafka.brokers import topic_creation, topics
from streamfilter.kafka.brokers.broker_queries import ask_for_id
from streamfilter.kafka.brokers.cluster_topics import (
    problems_of_cluster,
    warnings_of_cluster,
    with_cluster_topics,
)
from streamfilter.kafka.brokers.partition_counts import PartitionCounts
from streamfilter.kafka.brokers.rights import EDGE, JUDGE, rights_of
from streamfilter.kafka.brokers.topics import Topics, outputs_of, sendable
from streamfilter.kafka.brokers.used_outputs import warnings_of_outputs
from streamfilter.kafka.connection import clients
from streamfilter.kafka.connection.one_shot_calls import (
    CALL_SECONDS,
    LOOK_SECONDS_MIN,
    brokers_of,
    unanswered,
)
from streamfilter.kafka.edge_factory import edge_service, refuse_unforwarded
from streamfilter.kafka.predecessor import TakeOver
from streamfilter.kafka.task_factory import TaskFactory
from streamfilter.monitoring.client_statistics import Statistics
from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.web.showcase import Showcase
from streamfilter.process.health import Health, State
from streamfilter.process.limits import Need, refuse_small_limits
from streamfilter.stops import ConfigError, Problem, Refused, Stop, Temporary
from streamfilter.tasks.index_backups import BackupObserver

T = TypeVar("T")

RANGE_OVERHEAD = 512  # bytes of a sketch range of one document beyond its changelog record
ASK_AGAIN_SECONDS = 0.5
MISSING_SECONDS = 3.0  # until a topic counts as missing: brokers learn late of a new one


def needed(config: Config, role: str | None = None) -> list[str]:
    """Return the minimum rights of the user that `run` works as, one per line."""
    return [str(right) for right in rights_of(config, role)]


@contextmanager
def explained(config: Config, role: str | None = None) -> Iterator[None]:
    """Add the needed rights to the message of a `Refused` inside the block."""
    try:
        yield
    except Refused as refused:
        lines = "\n".join(f"    {right}" for right in needed(config, role))
        raise Refused(
            f"{refused}\n    the user of kafka.common needs:\n{lines}\n    cure: as a user with "
            "DESCRIBE on the cluster, see which one is missing, or add --apply: `streamfilter "
            "check --connect --principal User:NAME`"
        ) from refused


def too_late(error: LogError) -> Stop:
    """Return the `Stop` for brokers that did not answer in time, with the reason if known."""
    message = f"the cluster was not ready within kafka.start_timeout: {error}"
    return unanswered(error, message)


def serve(
    config: Config,
    *,
    health: Health,
    metrics: Metrics,
    showcase: Showcase,
    stopping: Callable[[], bool],
    accept_positions: bool = False,
    rewrite_changelog: bool = False,
    role: str | None = None,
    before: Callable[[Start], TakeOver | None] = lambda start: None,
) -> None:
    """Filter between the topics of *config* until *stopping*, or raise `Stop`.

    *before* returns what is taken over from another group (`take_over.prepared`).
    """
    refuse_other_role(config, role)
    if backups_for(config, config.index.path, "index") is not None:  # a missing extra stops here
        metrics.set(backup_every_seconds=config.index.backup.every.total_seconds())
    reader_for(config, settle=True)  # a missing library or schema stops a standby, too
    metrics.describe(
        config.scheme(),
        threshold=config.similarity.threshold,
        mode=config.output.mode,
        duplicates_mode=config.output.duplicates_mode,
        on_sets=policy_for(config).on_sets,
        topics=config.input.topics,
        role=role or "alone",
    )
    health.report(scheme=config.scheme().fingerprint)
    start = Start(config, health, stopping)
    with explained(config, role):
        try:
            take_over = before(start)
            factory = task_factory(config, health, metrics, showcase, start, role)
            factory = replace(factory, take_over=take_over)
            if role != JUDGE:  # which writes no output
                admin, found = factory.admin, factory.topics
                for warning in start.patiently(lambda: warnings_of_outputs(config, admin, found)):
                    clients.logger.warning("%s", warning)
        except StoppedEarly:
            return
        metrics.spent("start")
        try:
            if role == EDGE:
                service = edge_service(factory, accept_positions=accept_positions)
            else:
                service = factory.service(
                    accept_positions=accept_positions, rewrite_changelog=rewrite_changelog
                )
            service.run(stopping)
        finally:
            factory.worker.close()  # before the crew: a batch prepared ahead may still use it
            factory.crew.close()


class StoppedEarly(Exception):
    """The process must stop before the service has started."""


class Start(Struct, frozen=True):
    """Waits up to ``kafka.start_timeout`` for a cluster that does not answer yet."""

    config: Config
    health: Health
    stopping: Callable[[], bool]
    clock: Clock = field(default_factory=SystemClock)

    def patiently(self, call: Callable[[], T]) -> T:
        """Return what *call* returns; repeat it while no broker answers, or raise `Stop`."""
        deadline = self.clock.monotonic() + self.config.kafka.start_timeout.total_seconds()
        while not self.stopping():
            try:
                return call()
            except Retriable as error:
                self.health.enter(State.STARTING, str(error))
                if self.clock.monotonic() > deadline:
                    raise too_late(error) from error
                self.clock.sleep(ASK_AGAIN_SECONDS)
            except LogError as error:
                raise as_stop(error) from error
        raise StoppedEarly


def refuse_other_role(config: Config, role: str | None) -> None:
    """Raise `ConfigError` unless the process has a *role* exactly if ``cluster.enabled``."""
    if config.cluster.enabled is (role is not None):
        return
    if role is None:
        got = "it is true, and the process has no role"
        cure = "start it with --role edge or --role judge, or set cluster.enabled: false"
    else:
        got = f"it is false, and the process was started with --role {role}"
        cure = "set cluster.enabled: true for all processes of the group, or leave out --role"
    raise ConfigError([Problem("cluster.enabled", got, cure)])


def task_factory(
    config: Config,
    health: Health,
    metrics: Metrics,
    showcase: Showcase,
    start: Start,
    role: str | None = None,
    *,
    creates: bool = True,
) -> TaskFactory:
    """Check the cluster, report all problems, and return the parts of the service.

    It *creates* the topics that only the service uses.
    """
    seed = seed_at(config.index.seed_file)
    statistics = Statistics(metrics.kafka)
    admin = clients.admin_client(
        config, statistics.watched(clients.admin_properties(config), "admin")
    )
    found = start.patiently(patient_look(config, admin, start.clock))
    if problems := topics.problems_of(config, found) + problems_of_cluster(config, found):
        raise ConfigError(problems)
    if config.cluster.enabled and creates:
        found = start.patiently(lambda: _cluster_topics(config, admin, role))
    if role == EDGE and config.changelog_topic not in found:
        found = start.patiently(lambda: _with_changelog(config, admin))
    partitions = PartitionCounts(config, found)
    if (tasks := partitions.layout.tasks) > 1:
        refuse_small_limits(Need(tasks, start.patiently(lambda: brokers_of(admin))))
    warnings = topics.warnings_of(config, found) + warnings_of_cluster(config, found)
    for warning in announced(config) + warnings:
        clients.logger.warning("%s", warning)
    destinations = _destinations(config, found)
    observer = FilterObserver(
        Observer(metrics, health, start.clock, statistics, summary=config.log.summary),
        destinations,
        showcase,
        retention=retention_for(config),
        topic_name=config.input.entry_of if config.input.several else None,
        forwards=role != JUDGE,
    )
    input_id = ""  # the ids of several topics are in their table
    if not config.input.several:
        input_id = start.patiently(lambda: ask_for_id(admin, config.input.topic))
    factory = TaskFactory(
        config,
        admin,
        found,
        seed,
        start.clock,
        observer,
        destinations,
        partitions,
        input_id,
        crew_for(config),
        BackupObserver(observer.process),
    )
    if role is None and not config.cluster.enabled:
        start.patiently(lambda: refuse_unforwarded(factory))
    if config.changelog_topic not in found and creates:
        start.patiently(factory.create_changelog)
        start.patiently(lambda: topic_creation.see_changelog(config, admin))
    return factory


def _cluster_topics(config: Config, admin: AdminClient, role: str | None) -> Topics:
    """Return our topics with the two of the cluster; an edge may lack the right to make them."""
    try:
        return with_cluster_topics(config, admin)
    except Denied as denied:
        if role != EDGE:
            raise
        raise Temporary(
            "the topics between edges and judge do not exist yet, and this user may not create "
            f"them: {denied}\n    cure: start a judge that may, or make them with `streamfilter "
            "check --connect --apply`; a supervisor then starts this edge again"
        ) from denied


def _with_changelog(config: Config, admin: AdminClient) -> Topics:
    """Return our topics once the first judge has made the changelog."""
    found = topics.describe(config, admin)
    if config.changelog_topic not in found:
        name = config.changelog_topic
        start = "start one with `streamfilter run --role judge`"
        raise Retriable(f"topic {name} does not exist yet: no judge has begun; {start}")
    return found


def patient_look(config: Config, admin: AdminClient, clock: Clock) -> Callable[[], Topics]:
    """Return a function that describes our topics; for a short time, it awaits a missing topic."""
    patience = config.kafka.start_timeout.total_seconds()
    begun = clock.monotonic()
    believed_at = begun + min(MISSING_SECONDS, patience / 2)

    def look() -> Topics:
        left = begun + patience - clock.monotonic()
        seconds = min(CALL_SECONDS, max(left, LOOK_SECONDS_MIN))
        found = topics.describe(config, admin, seconds=seconds)
        missing = {*config.topics.values()} - found.keys() - config.made_topics
        if missing and clock.monotonic() < believed_at:
            raise Retriable(f"brokers do not know of {', '.join(sorted(missing))}")
        return found

    return look


def _destinations(config: Config, found: Topics) -> Destinations:
    output = config.output
    changelog = found.get(config.changelog_topic)
    remembers = changelog.message_bytes if changelog else topics.largest_output(config, found)
    remembers = sendable(config, remembers)
    if config.cluster.enabled:
        range_ = sendable(config, found[config.sketches_topic].message_bytes)
        remembers = min(remembers, range_ - RANGE_OVERHEAD)
    limits = {name: sendable(config, found[name].message_bytes) for name in outputs_of(config)}
    return Destinations(
        unique=output.unique,
        duplicates=output.duplicates,
        dead_letter=output.dead_letter,
        limits=limits,
        changelog_limit=remembers,
        compacted={name for name in limits if found[name].compacted},
    )
