"""What an operator may change of the changelog while we work, and what becomes of it.

A compacted topic refuses whatever has no key, and a lowered limit refuses whole batches. That is
no verdict on the records in them: looked for one by one, each would cost a transaction.
"""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.ports import LogError
from streamfilter.kafka.questions import POLICY_SECONDS
from streamfilter.kafka.topics import MESSAGE_LIMIT, Topic, problems_of_changelog, settings_of
from streamfilter.stops import ConfigError, Temporary


def refuse_changed(config: Config, admin: AdminClient, limit: int) -> None:
    """End the process if the changelog's settings are why it refuses records.

    Args:
        config: names the changelog.
        admin: asks the brokers; who does not answer says nothing.
        limit: the largest record that it took at the start.

    Raises:
        ConfigError: nobody could work with the settings that it has now.
        Temporary: the next start can.
    """
    settings: dict[str, str] = {}
    with suppress(LogError):
        settings = settings_of(admin, config.changelog_topic, POLICY_SECONDS)
    changelog = Topic(0, settings)
    if problems := problems_of_changelog(config, changelog, 0):
        raise ConfigError(problems)
    if changelog.message_bytes < limit:
        name = config.changelog_topic
        raise Temporary(
            f"index.changelog: topic {name!r} has {MESSAGE_LIMIT}={changelog.message_bytes} now, "
            f"and had {limit}: it refuses larger batches of records\n"
            f"    ways out: kafka-configs.sh --alter --topic {name} --add-config "
            f"{MESSAGE_LIMIT}={limit}; or start again: batches are then smaller, and a document "
            "whose record is larger becomes a dead letter"
        )
