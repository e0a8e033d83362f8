"""Brokers of our own: a real Apache Kafka for tests and measurements, an embedded one to show.

`RealKafka` (real.py) starts Apache Kafka from Maven Central's jars on the machine's Java; what
proves a promise runs against it. `EmbeddedBroker` (embedded.py) is the mock cluster inside
librdkafka: nothing to install, good enough to watch a stream flow, and proof of nothing.
`RealRegistry` (registry.py) is a schema registry from Maven Central, beside the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Broker(Protocol):
    """What both can do: where clients find it, and topics."""

    @property
    def bootstrap(self) -> str:
        """Return ``bootstrap.servers`` for clients."""

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create each topic with its number of partitions."""
