"""Checks topics: those that must exist, and the changelog that `run` creates.

`run` creates a missing changelog if the group has not worked yet. It never creates inputs or
outputs: a mistyped name must not create a topic. `check --connect` lists all problems with their
cures, and `check --apply` creates missing outputs.
"""

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import admin as _admin
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from streamfilter.config.configuration import Config
from streamfilter.engine.ports import Layout, Retriable
from streamfilter.kafka.connection.clients import admin_client
from streamfilter.kafka.connection.errors import stops, translated
from streamfilter.kafka.connection.one_shot_calls import (
    CALL_SECONDS,
    asked_once,
    awaited,
    brokers_of,
    listed,
)
from streamfilter.model import InputTopic
from streamfilter.process.limits import Need
from streamfilter.stops import Problem

ConfigResource: Any = _admin.ConfigResource  # type: ignore[attr-defined]  # exported without types

SEEN_SECONDS, LOOK_AGAIN_SECONDS = 10.0, 0.2  # for a topic that was just created
MESSAGE_BYTES = 1_048_588  # Kafka's default for ``max.message.bytes``, if not reported

MESSAGE_LIMIT = "max.message.bytes"

CHANGELOG_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Required settings of the changelog: brokers may never delete from it; only this process does."""
CHANGELOG_BYTES_MIN = 4_096  # below it, hardly any text's record would fit
TIME_TYPE, LOG_APPEND = "message.timestamp.type", "LogAppendTime"
TIMESTAMP_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
BROKERS_TIME = {TIME_TYPE: LOG_APPEND}
"""An extra setting of a new changelog. Brokers refuse records an hour ahead of their clock: each
transaction of a host whose clock runs ahead would be aborted."""


class Topic(Struct, frozen=True):
    """One topic's partition count and settings, as the cluster reports them."""

    partitions: int
    settings: Mapping[str, str]

    @property
    def message_bytes(self) -> int:
        """Return the size of the largest batch of records that the topic accepts."""
        return int(self.settings.get(MESSAGE_LIMIT, MESSAGE_BYTES))

    @property
    def compacted(self) -> bool:
        """Return whether the topic keeps only the latest record of each key."""
        return is_compacted(self.settings)


Topics = Mapping[str, Topic]


def is_compacted(settings: Mapping[str, str]) -> bool:
    """Return whether a topic with *settings* keeps only the latest record of each key."""
    return "compact" in settings.get("cleanup.policy", "")


def outputs_of(config: Config) -> list[str]:
    return list(dict.fromkeys(config.output.topics.values()))


def describe(
    config: Config, admin: AdminClient, *, seconds: float = CALL_SECONDS
) -> dict[str, Topic]:
    """Return those of our topics that exist, within *seconds*, or raise `LogError`.

    Verdicts are among them without edges, too: a single process must not start while some are owed.
    """
    metadata = listed(config, admin, seconds=seconds)
    ours = [*config.topics.values(), config.verdicts_topic, *config.input.among(metadata)]
    found = {
        topic: count
        for topic in dict.fromkeys(ours)
        if topic in metadata and (count := partitions_of(topic, metadata[topic]))
    }
    return {topic: Topic(n, settings_of(admin, topic, seconds)) for topic, n in found.items()}


def described(config: Config, admin: AdminClient) -> dict[str, Topic]:
    """Return what `describe` returns; wait as long as `run` does, or raise `Stop`."""
    return awaited(config, lambda seconds: describe(config, admin, seconds=seconds))


def partitions_of(topic: str, metadata: Any) -> int:
    """Return a topic's partitions; 0: none, or no right. Raise `Retriable` if not known yet."""
    doing = f"asking the brokers for topic {topic}"
    if metadata.error is not None:
        trouble = translated(metadata.error, doing)
        if isinstance(trouble, Retriable):
            raise trouble
        return 0
    if not metadata.partitions:
        raise Retriable(f"{doing}: it has no partitions yet")
    return len(metadata.partitions)


def settings_of(admin: AdminClient, topic: str, seconds: float = CALL_SECONDS) -> dict[str, str]:
    """Return a topic's settings; empty if they are not reported (no right). Raise `Retriable`."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        futures = admin.describe_configs([resource], request_timeout=seconds)
        entries = futures[resource].result()
    except KafkaException as error:
        # If a busy broker did not report a limit, assuming the default could be wrong.
        trouble = translated(error.args[0], f"asking for the settings of {topic}")
        if isinstance(trouble, Retriable):
            raise trouble from error
        return {}
    return {name: str(entry.value) for name, entry in entries.items() if entry.value is not None}


def inputs_of(config: Config, topics: Topics) -> dict[str, Topic]:
    return {name: topics[name] for name in config.input.among(topics)}


def layout_of(config: Config, topics: Topics) -> Layout:
    """Return how many tasks there are, and on which partitions; the input must exist."""
    outputs = {name: topics[name].partitions for name in outputs_of(config) if name in topics}
    counts = {name: each.partitions for name, each in inputs_of(config, topics).items()}
    several = [InputTopic(name, "", count) for name, count in counts.items()]
    return Layout(
        sum(counts.values()),
        outputs,
        config.index.scope == "topic",
        tuple(several) if config.input.several else (),
    )


def need_of(config: Config, found: Topics) -> Need:
    """Return the needs of a process that owns all tasks of *config*, or raise `Stop`."""
    if not inputs_of(config, found):
        return Need()
    with asked_once():
        return Need(layout_of(config, found).tasks, brokers_of(admin_client(config)))


def largest_output(config: Config, topics: Topics) -> int:
    """Return the largest record size that any output accepts, at least Kafka's default.

    The changelog should accept as much: for a record with fields it stores all compared values.
    """
    found = [topics[name].message_bytes for name in outputs_of(config) if name in topics]
    return max([MESSAGE_BYTES, *found])


def sendable(config: Config, size: int) -> int:
    """Return the most bytes of a record for a topic that takes *size*: ours may take less."""
    own = config.kafka.properties("producer").get("message.max.bytes")
    return min(size, int(own)) if own else size


def problems_of(config: Config, topics: Topics) -> list[Problem]:
    """Return the problems that keep `run` from starting. A missing changelog is not one."""
    source = next(iter(inputs_of(config, topics)), None)
    problems = [
        Problem(role, f"topic {topic!r} does not exist", _cure_of_missing(role, topic, source))
        for role, topic in config.topics.items()
        if topic not in topics and topic not in config.made_topics
    ]
    changelog = topics.get(config.changelog_topic)
    if source is None and not config.input.exact:
        cure = "create one of them, or check the names and the right to READ them"
        problems.append(Problem("input.topics", f"no topic fits {config.input.name}", cure))
    if changelog is not None and source is not None:
        problems += problems_of_changelog(config, changelog, layout_of(config, topics).tasks)
    return problems


def _cure_of_missing(role: str, topic: str, source: str | None) -> str:
    if role.startswith("input.topic"):
        return "check the name, and the right to READ it; streamfilter never creates its input"
    if source is None:
        return (
            "the input first, for an output gets as many partitions; then `streamfilter check "
            "--connect --apply`"
        )
    return (
        f"`streamfilter check --connect --apply` creates it, or create {topic!r} yourself; "
        "brokers also hide a topic from a user without the right to WRITE it"
    )


def problems_of_changelog(config: Config, changelog: Topic, tasks: int) -> list[Problem]:
    """Return the changelog's settings with which `run` cannot work."""
    name, key = config.changelog_topic, "index.changelog"
    problems = [
        Problem(
            key,
            f"topic {name!r} has {setting}={changelog.settings[setting]}; expected {value}",
            f"kafka-configs.sh --alter --topic {name} --add-config {setting}={value}",
        )
        for setting, value in CHANGELOG_SETTINGS.items()
        if changelog.settings.get(setting, value) != value
    ]
    if changelog.message_bytes < CHANGELOG_BYTES_MIN:
        got = f"{MESSAGE_LIMIT}={changelog.message_bytes}; expected at least {CHANGELOG_BYTES_MIN}"
        cure = f"{MESSAGE_LIMIT}={largest_output(config, {})}"
        cure = f"kafka-configs.sh --alter --topic {name} --add-config {cure}"
        problems.append(Problem(key, f"topic {name!r} has {got}", cure))
    if changelog.partitions < tasks:
        problems.append(
            Problem(
                key,
                f"topic {name!r} has {changelog.partitions} partitions; expected {tasks} "
                f"(index.scope {config.index.scope})",
                f"{widening(name, tasks)} if the input got more partitions; if index.scope was "
                "changed, set it back, or name another kafka.group to begin anew",
            )
        )
    return problems


def widening(topic: str, partitions: int) -> str:
    return f"kafka-topics.sh --alter --topic {topic} --partitions {partitions}"


def warnings_of(config: Config, topics: Topics) -> list[Problem]:
    """Return settings that work, but not as a reader of the manual may expect."""
    warnings = _warnings_of_changelog(config, topics)
    sources = inputs_of(config, topics)
    for role, topic in config.topics.items():
        known = topics.get(topic)
        if known is None or not sources or not role.startswith("output."):
            continue
        if known.settings.get(TIME_TYPE) == LOG_APPEND:
            got = f"topic {topic!r} has message.timestamp.type=LogAppendTime"
            cure = "use CreateTime to keep the records' timestamps"
            warnings.append(Problem(role, got, cure, warning=True))
        for source in sources.values():
            warnings += _warnings_of_refusals(role, topic, known, source)
        counts = sorted({source.partitions for source in sources.values()})
        if [known.partitions] != counts:
            has = " or ".join(map(str, counts))
            got = f"{topic!r} has {known.partitions} partitions, the input {has}"
            cure = "records are placed by key (murmur2); equal counts keep the partition number"
            warnings.append(Problem(role, got, cure, warning=True))
    return warnings


def _warnings_of_refusals(role: str, name: str, topic: Topic, source: Topic) -> list[Problem]:
    """Return the settings of an output for which brokers refuse records of the input."""
    found: list[tuple[str, str, str]] = []
    if topic.compacted:
        why = "it refuses records without a key, and keeps only the latest of each key"
        found.append(("cleanup.policy", why, "delete"))
    brokers_time = {topic.settings.get(TIME_TYPE), source.settings.get(TIME_TYPE)}
    for setting in TIMESTAMP_LIMITS if LOG_APPEND not in brokers_time else ():
        ours, theirs = topic.settings.get(setting), source.settings.get(setting)
        if ours is not None and theirs is not None and int(ours) < int(theirs):
            why = f"the input has {theirs}, and what it takes beyond that is refused here"
            found.append((setting, why, theirs))
    return [
        Problem(
            role,
            f"topic {name!r} has {setting}={topic.settings[setting]}: {why}; such records become "
            "dead letters",
            f"kafka-configs.sh --alter --topic {name} --add-config {setting}={wanted}",
            warning=True,
        )
        for setting, why, wanted in found
    ]


def _warnings_of_changelog(config: Config, topics: Topics) -> list[Problem]:
    name = config.changelog_topic
    changelog = topics.get(name)
    if changelog is None:
        return []
    found: list[tuple[str, str, str]] = []
    ((setting, wanted),) = BROKERS_TIME.items()
    if (is_ := changelog.settings.get(setting, wanted)) != wanted:
        why = (
            f"{setting}={is_}: while this host's clock is more than an hour ahead of the brokers', "
            "they refuse every record of it"
        )
        found.append((setting, wanted, why))
    unused, has = [], changelog.partitions
    if inputs_of(config, topics) and has > (used := layout_of(config, topics).tasks):
        got = f"topic {name!r} has {has} partitions, and {used} of them are used"
        cure = "nothing to do: the others stay empty"
        unused = [Problem("index.changelog", got, cure, warning=True)]
    largest = largest_output(config, topics)
    if config.input.records and changelog.message_bytes < largest:
        why = (
            f"{MESSAGE_LIMIT}={changelog.message_bytes}: the outputs take {largest}, and a record "
            "that is too large for it becomes a dead letter"
        )
        found.append((MESSAGE_LIMIT, str(largest), why))
    return unused + [
        Problem(
            "index.changelog",
            f"topic {name!r} has {why}",
            f"kafka-configs.sh --alter --topic {name} --add-config {setting}={wanted}",
            warning=True,
        )
        for setting, wanted, why in found
    ]


def seen(config: Config, admin: AdminClient, made: Collection[str]) -> dict[str, Topic]:
    """Return our topics once brokers list those just *made*: a new topic takes a moment."""
    deadline = time.monotonic() + SEEN_SECONDS
    while made and time.monotonic() < deadline:
        with stops(), suppress(Retriable):  # a new topic has no leader yet
            found = describe(config, admin)
            if found.keys() >= set(made):
                return found
        time.sleep(LOOK_AGAIN_SECONDS)
    return described(config, admin)
