"""The broker of a demo, with its topics: an embedded one, or a Kafka that already runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamfilter.config.configuration import Config
from streamfilter.kafka import group_reset
from streamfilter.kafka.brokers import topic_creation, topics
from streamfilter.kafka.connection.clients import admin_client
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.stops import ConfigError, Problem


@contextmanager
def embedded(names: list[str]) -> Iterator[str]:
    """Yield the address of an embedded broker that has the topics *names*."""
    with EmbeddedBroker() as broker:
        broker.create_topics(dict.fromkeys(names, 1))
        yield broker.bootstrap


@contextmanager
def own_topics(config: Config) -> Iterator[None]:
    """Create the topics on a running Kafka; at the end, delete them, the changelog and the group.

    Raises `Stop`: no broker answers, it refuses a request, or a topic exists already.
    """
    admin = admin_client(config)
    cure = "delete the topic if an earlier demo left it there, or use another broker"
    problems = [
        Problem(f"topic {name}", "the demo creates this topic, and it exists already", cure)
        for name in sorted(topics.described(config, admin))
    ]
    if problems:
        raise ConfigError(problems)
    try:
        topic_creation.create_all(config, 1)
        yield
    finally:
        group_reset.delete_topics(config, admin, list(config.topics.values()))
        group_reset.delete_group(config, admin)
