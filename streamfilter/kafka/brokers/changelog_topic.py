"""Checks the changelog topic: its bounds, our rights, and settings that an operator changed.

A compacted topic refuses records without a key, and a lowered size limit refuses whole batches, on
an output, too. The records themselves are not at fault then. A search for a bad record would cost
one transaction for each record, or find none and never end. So the process ends instead.
"""

from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import admin as _admin
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.ports import Clock, LogError, Watermarks
from streamfilter.kafka.brokers.broker_queries import CALL_SECONDS, POLICY_SECONDS, topic_bounds
from streamfilter.kafka.brokers.topics import (
    MESSAGE_LIMIT,
    ConfigResource,
    Topic,
    problems_of_changelog,
    settings_of,
)
from streamfilter.kafka.connection.errors import kafka_errors
from streamfilter.kafka.connection.one_shot_calls import asked_once
from streamfilter.stops import ConfigError, Problem, Temporary

ASK_SECONDS = 5.0
AclOperation: Any = _admin.AclOperation  # type: ignore[attr-defined]  # exported without types


def changelog_bounds(config: Config, admin: AdminClient, tasks: int) -> list[Watermarks]:
    """Return the first offset and the end of each changelog partition, or raise `Stop`."""
    with asked_once():
        return topic_bounds(admin, config.changelog_topic, tasks)


def warnings_of_rights(config: Config, admin: AdminClient) -> list[Problem]:
    """Return a warning if DELETE on the changelog is missing; none if brokers do not say."""
    name = config.changelog_topic
    with asked_once(), kafka_errors(f"asking for the rights to topic {name}"):
        answers = admin.describe_topics(
            TopicCollection([name]),
            include_authorized_operations=True,
            request_timeout=CALL_SECONDS,
        )
        rights = answers[name].result().authorized_operations
    if not rights or AclOperation.DELETE in rights:
        return []
    got = f"topic {name!r} grows for ever: DELETE is missing, and what is forgotten stays in it"
    cure = f"kafka-acls.sh --add --allow-principal User:... --operation Delete --topic {name}"
    return [Problem("index.changelog", got, cure, warning=True)]


def refuse_changed(config: Config, admin: AdminClient, limits: Mapping[str, int]) -> None:
    """End the process if a topic's settings are why it refuses records.

    Without an answer it does not end. *limits* has the largest record that the changelog and each
    output accepted at the start. Raises `ConfigError`, or `Temporary` if the next start can work
    with the settings.
    """
    for name, limit in limits.items():
        settings: dict[str, str] = {}
        with suppress(LogError):
            settings = settings_of(admin, name, POLICY_SECONDS)
        topic = Topic(0, settings)
        ours = settings and name == config.changelog_topic
        if ours and (problems := problems_of_changelog(config, topic, 0)):
            raise ConfigError(problems)
        if settings and topic.message_bytes < limit:
            raise Temporary(
                f"topic {name!r} has {MESSAGE_LIMIT}={topic.message_bytes} now, and had {limit}: "
                f"it refuses larger batches of records\n"
                f"    ways out: kafka-configs.sh --alter --topic {name} --add-config "
                f"{MESSAGE_LIMIT}={limit}; or start again: batches are then smaller, and a larger "
                "record, or a document whose record of the changelog is larger, is a dead letter"
            )


class ChangelogWatch:
    """Checks the changelog's settings every `ASK_SECONDS`, and never waits for an answer."""

    def __init__(
        self, config: Config, admin: AdminClient, clock: Clock, observer: FilterObserver
    ) -> None:
        self._config, self._admin = config, admin
        self._clock, self._observer = clock, observer
        self._ask_at = clock.monotonic()
        self._answer: Future[Any] | None = None
        self._said: list[Problem] = []

    def look(self) -> None:
        """Ask the brokers if it is time, and log problems as soon as the answer is there."""
        now = self._clock.monotonic()
        if self._answer is None and now >= self._ask_at:
            self._ask_at = now + ASK_SECONDS
            resource = ConfigResource(ConfigResource.Type.TOPIC, self._config.changelog_topic)
            (self._answer,) = self._admin.describe_configs([resource]).values()
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            with suppress(KafkaException):
                self._hear(answer.result())

    def _hear(self, entries: Mapping[str, Any]) -> None:
        settings = {name: str(each.value) for name, each in entries.items() if each.value}
        problems = problems_of_changelog(self._config, Topic(0, settings), 0)
        if problems == self._said:
            return
        for problem in problems:
            self._observer.process.loudly(
                f"{problem}; nothing is wrong yet, and the next start refuses it"
            )
        name = self._config.changelog_topic
        self._observer.changelog_fault("settings", name, there=bool(problems))
        self._said = problems
