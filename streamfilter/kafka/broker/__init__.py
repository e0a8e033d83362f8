"""Local brokers: a real Apache Kafka for tests and measurements, an embedded one for demos.

`RealKafka` (real.py) runs Apache Kafka from Maven Central's jars with the machine's Java. Tests of
guarantees run against it. `EmbeddedBroker` (embedded.py) is the mock cluster inside librdkafka. It
needs no installation and suffices for a demo, but it proves no guarantee. `RealRegistry`
(registry.py) is a schema registry from Maven Central, for use with `RealKafka`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Broker(Protocol):
    """The interface of both brokers: the clients' address, and creation of topics."""

    @property
    def bootstrap(self) -> str:
        """Return ``bootstrap.servers`` for clients."""

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create each topic with its number of partitions."""
