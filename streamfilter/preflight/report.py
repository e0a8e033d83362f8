"""All checks of a configuration, cheap ones first, and their report.

The order is: settings, state directory, properties as librdkafka takes them, format and schemas.
Only if asked for: brokers, topics, rights, records, and the changelog.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct, field, to_builtins

from streamfilter.assembly import policy_for, reader_for, require_telemetry, retention_for
from streamfilter.backup.targets import probe, store_at
from streamfilter.config import boilerplate
from streamfilter.config.checks import announced
from streamfilter.config.configuration import Config
from streamfilter.config.loading import Reading
from streamfilter.documents.codecs.schemas import SchemasAway
from streamfilter.index.directory.index_paths import index_of
from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import IndexFault, IndexUnavailable
from streamfilter.preflight.disk import check_disk
from streamfilter.preflight.filters import Filters, check_filters
from streamfilter.preflight.records import check_records
from streamfilter.preflight.schemas import check_schemas
from streamfilter.process.cures import CURES
from streamfilter.process.limits import small_limits
from streamfilter.similarity.kernel.choice import choice
from streamfilter.stops import ConfigError, MissingExtra, Problem, Refused, Temporary, counted

if TYPE_CHECKING:
    from streamfilter.kafka.brokers.topics import Topics


class Kept(Struct, frozen=True):
    """The offsets of one partition of the changelog."""

    changelog: str
    start: int
    end: int
    needed: int | None
    """First offset that this host's index needs; None: no index, or it cannot be read."""

    def __str__(self) -> str:
        keeps = f"{self.changelog} keeps the offsets {self.start} to {self.end}"
        if self.needed is None:
            return f"{keeps}; this host has no index that shows which of them are needed"
        if self.needed <= self.start:
            return f"{keeps}; all belong to windows that still exist"
        return f"{keeps}; those before {self.needed} belong to dropped windows and are cut off"


def check_changelog(config: Config, found: Topics) -> tuple[list[Problem], list[Kept]]:
    """Return why the changelog of an index that forgets is kept, and what each partition holds.

    The brokers report its start and our rights on it. The index in this host's directory shows from
    which offset on it is needed.

    Raises `Stop`: the cluster does not answer (`Temporary`), or refuses us.
    """
    from streamfilter.kafka.brokers import changelog_topic, topics
    from streamfilter.kafka.connection.clients import admin_client

    changelog = found.get(config.changelog_topic)
    if changelog is None or not topics.inputs_of(config, found):
        return [], []
    admin = admin_client(config)
    layout, name = topics.layout_of(config, found), config.changelog_topic
    used = min(changelog.partitions, layout.tasks)
    bounds = changelog_topic.changelog_bounds(config, admin, used)
    kept = [
        Kept(f"{name}/{task}", each.start, each.end, _needed(config, task, layout.whole))
        for task, each in enumerate(bounds)
    ]
    return changelog_topic.warnings_of_rights(config, admin), kept


def _needed(config: Config, task: int, whole: bool) -> int | None:
    index = config.index
    path = index_of(index.path, task, whole=whole)
    try:
        with viewed(path, seed=seed_at(index.seed_file)) as view:
            return view.windows[0].offset
    except IndexFault:
        return None


_JUDGES = ("input", "index.scope_field", "similarity", "verify")
"""Settings of the reader and of the policy, which are not made where one of them is wrong."""
BROKERS = ("bootstrap.servers", "metadata.broker.list", "test.mock.num.brokers")


class RightsAsked(Struct, frozen=True):
    """Whose rights are checked."""

    roles: tuple[str | None, ...] = (None,)
    principal: str | None = None  # None: the user of kafka.common


UNASKED = RightsAsked()


class Preflight(Struct):
    """The findings of all checks."""

    config: Config
    connected: bool
    problems: list[Problem] = field(default_factory=list)
    unreachable: list[Problem] = field(default_factory=list)
    """Brokers and registries that did not answer."""
    registry: bool = False  # whether a schema registry answered
    made: list[str] = field(default_factory=list)  # topics that were created just now
    held_back: bool = False  # whether topics were to be created, but something else is wrong
    kept: list[Kept] = field(default_factory=list)
    """What the changelog of an index that forgets holds, if the brokers were asked."""
    filters: list[Filters] = field(default_factory=list)  # of the indexes of this host

    @property
    def wrong(self) -> list[Problem]:
        """Return the problems that are more than warnings."""
        return [each for each in (*self.problems, *self.unreachable) if not each.warning]

    @property
    def only_unreachable(self) -> bool:
        """Return whether a later run may find nothing wrong."""
        return bool(self.unreachable) and len(self.unreachable) == len(self.wrong)

    def as_json(self) -> dict[str, object]:
        """Return it for programs; secrets are masked."""
        answer: dict[str, object] = {
            "ok": not self.wrong,
            "connected": self.connected,
            "created": self.made,
            "problems": [to_builtins(problem) for problem in self._with_commands()],
            "changelog": [to_builtins(each) for each in self.kept],
            "filters": [to_builtins(each) for each in self.filters],
        }
        if not self.wrong:
            scheme = self.config.scheme()
            shape = {"slots": scheme.slots, "bands": scheme.bands, "rows": scheme.rows}
            answer["signing"] = {"kernel": choice().kernel is not None, "why": choice().why}
            answer["scheme"] = {"fingerprint": scheme.fingerprint, **shape}
        return answer | {"settings": self.config.masked()}

    def as_text(self) -> str:
        made = [f"created {', '.join(self.made)}"] if self.made else []
        signing = [] if self.wrong else [f"signing: {choice()}"]
        lines = [
            *made,
            *self._with_commands(),
            *self.kept,
            *self.filters,
            *signing,
            self._summary(),
        ]
        return "\n".join(map(str, lines))

    def _with_commands(self) -> Iterator[Problem]:
        """Yield all problems; the commands in their cures name this configuration's files."""
        for each in (*self.problems, *self.unreachable):
            yield replace(each, cure=CURES.completed(each.cure))

    def _summary(self) -> str:
        if self.wrong:
            nothing = "; no topic was created, because of the others" if self.held_back else ""
            return f"{counted(len(self.wrong), 'problem')} found{nothing}"
        config, scheme = self.config, self.config.scheme()
        agree = "the broker and the registry agree" if self.registry else "the broker agrees"
        asked = agree if self.connected else "the broker was not asked: --connect"
        return (
            f"ok: {config.input.name} → {config.output.unique}, duplicates to "
            f"{config.output.duplicates}; {scheme.bands} bands x {scheme.rows} rows, scheme "
            f"{scheme.fingerprint} ({asked})"
        )

    def has(self, *section: str) -> bool:
        """Return whether a setting of a *section* is wrong; an empty one stands for any setting."""
        return any(each.key.startswith(section) for each in self.problems if not each.warning)


def preflight(
    reading: Reading, *, connect: bool, create: bool, asked: RightsAsked = UNASKED
) -> Preflight:
    """Run all checks, with *connect* also those of the brokers; *create* first creates topics."""
    config = reading.config
    found = Preflight(config, connect or create, list(reading.problems))
    broken = any(problem.key.startswith("similarity") for problem in reading.problems)
    found.problems += boilerplate.warnings(config)
    found.problems += announced(config)
    found.problems += check_disk(config, None if broken else config.scheme())
    if not found.has("index", "memory"):
        small, found.filters = check_filters(config)
        found.problems += small
    found.problems += _properties(config, found.problems)
    if not any(each.key.startswith(_JUDGES) for each in reading.problems):
        with _collected(found, "input.fields"):
            reader_for(config)
            policy_for(config)
    key, target = "index.backup.target", config.index.backup.target
    if target is not None and not found.has(key):
        with _collected(found, key):
            store = store_at(target)
            if found.connected:
                probe(store)
    if not found.has("otel.endpoint"):
        with _collected(found, "otel.endpoint"):
            require_telemetry(config)  # it is not asked, as it may be down
    if _has_schemas(config, found.problems, found.connected):
        try:
            found.problems += check_schemas(config)
            found.registry = config.input.schema_file is None
        except SchemasAway as away:
            found.unreachable.append(Problem("input.registry.url", str(away), ""))
    # With wrong properties no client can connect, so waiting for brokers would be useless.
    if found.connected and not found.has("kafka.common"):
        try:
            _ask_brokers(config, found, asked, create=create)
        except Temporary as stop:
            found.unreachable.append(Problem("kafka.common.bootstrap.servers", str(stop), ""))
        except Refused as stop:
            found.problems.append(Problem("kafka.common", str(stop), ""))
    return found


def _ask_brokers(config: Config, found: Preflight, asked: RightsAsked, *, create: bool) -> None:
    from streamfilter.kafka.brokers import cluster_topics, rights, topic_creation, topics
    from streamfilter.kafka.brokers.used_outputs import warnings_of_outputs
    from streamfilter.kafka.changelog_ends import refuse_other_scheme
    from streamfilter.kafka.connection.clients import admin_client
    from streamfilter.kafka.connection.one_shot_calls import asked_once

    found.held_back = create and found.has("")
    if create and not found.held_back:
        found.made = topic_creation.create_outputs(config) + cluster_topics.create(config)
    known = found.has("input.topic")  # then *config* has a default in its place
    admin = admin_client(config)
    seen = topics.seen(config, admin, found.made)
    topical = topics.problems_of(config, seen) + topics.warnings_of(config, seen)
    found.problems += [p for p in topical if not (known and p.key.startswith("input.topic"))]
    found.problems += cluster_topics.problems_of_cluster(config, seen)
    found.problems += cluster_topics.warnings_of_cluster(config, seen)
    if config.cluster.enabled and config.changelog_topic in seen and not found.has("similarity"):
        with _collected(found, "index.changelog"), asked_once():
            refuse_other_scheme(config, admin, seed=seed_at(config.index.seed_file))
    with asked_once():
        old = {name: topic for name, topic in seen.items() if name not in found.made}
        found.problems += warnings_of_outputs(config, admin, old)
    granted, lacking = rights.check_rights(
        config, asked.roles, asked.principal, existing=seen, apply=create
    )
    found.made += granted
    found.problems += lacking
    if config.index.scope != "topic":
        need = topics.need_of(config, seen)
        found.problems += [replace(each, warning=True) for each in small_limits(need)]
    if not found.has(*_JUDGES):
        found.problems += check_records(config)
    if retention_for(config).limited:
        more, found.kept = check_changelog(config, seen)
        said = asked.principal is None and any(map(rights.is_of_forgetting, lacking))
        found.problems += [] if said else more


def _properties(config: Config, known: list[Problem]) -> list[Problem]:
    """Return the properties that librdkafka refuses and that are not reported yet."""
    from streamfilter.kafka.connection import clients

    said = {problem.key for problem in known}
    found = clients.validate_properties(_without_brokers(config))
    return [problem for problem in found if problem.key not in said]


@contextmanager
def _collected(found: Preflight, key: str) -> Iterator[None]:
    """Add to *found* why the block fails, as a problem of the setting *key*."""
    try:
        yield
    except ConfigError as error:
        found.problems += error.problems
    except MissingExtra as error:
        got, _, cure = str(error).partition("\n    cure: ")
        found.problems.append(Problem(key, got, cure))
    except IndexUnavailable as fault:
        found.unreachable.append(Problem(key, str(fault), ""))
    except IndexFault as fault:
        found.problems.append(Problem(key, str(fault), ""))


def _has_schemas(config: Config, known: list[Problem], connect: bool) -> bool:
    """Return whether there are schemas to check: a file's, or with *connect* the registry's."""
    if not config.input.has_schema or any(each.key.startswith("input") for each in known):
        return False
    # A pattern alone names no subject.
    return config.input.schema_file is not None or (connect and bool(config.input.exact))


def _without_brokers(config: Config) -> Config:
    """Return *config* without brokers, so that a client made from it connects to nothing.

    librdkafka connects in the background as soon as a client is created. Without ``--connect`` no
    connection is allowed.
    """
    common = {k: v for k, v in config.kafka.common.items() if k not in BROKERS}
    kafka = config.kafka.model_copy(update={"common": common | {"log_level": "0"}})
    return config.model_copy(update={"kafka": kafka})
