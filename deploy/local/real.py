"""Runs a real Apache Kafka on this machine: one KRaft node or three, on free loopback ports.

    with RealKafka() as kafka:
        Producer({"bootstrap.servers": kafka.bootstrap})

Tests of streamfilter's guarantees run against it. A node starts in about five seconds and uses
0.2 to 0.45 GB of memory. Its data is deleted at the end.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from string import Template

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deploy.local.jars import BrokerUnavailableError, find_java, kafka_jars
from deploy.local.node import Node, Ports, free_ports
from deploy.local.owned import Owned

READY_TIMEOUT_SECONDS = 240
CREATE_TIMEOUT_SECONDS = 30


class RealKafka(Owned):
    """A cluster of Apache Kafka nodes, each a broker and a controller in one process."""

    def __init__(
        self,
        nodes: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        """Prepare a cluster; nothing runs yet.

        Args:
            nodes: 1, or 3 (replication factor 3, two in sync).
            properties: broker settings that override server.properties, with the same
                placeholders (``$proxied_port``).
            port: the first node's port for clients; a free one by default.

        Raises:
            BrokerUnavailableError: no Java or no Maven; the message names the cure.
        """
        java, jars = find_java(), kafka_jars()
        self._temporary = tempfile.TemporaryDirectory(prefix="streamfilter-kafka-")
        root = Path(self._temporary.name)
        ports = free_ports(4 * nodes)
        ports[0] = ports[0] if port is None else port
        self.nodes = [
            Node(n + 1, Ports(*ports[4 * n : 4 * n + 4]), root / f"{n + 1}", java=java, jars=jars)
            for n in range(nodes)
        ]
        self._properties = dict(properties or {})

    @property
    def bootstrap(self) -> str:
        """Return ``bootstrap.servers`` for clients."""
        return ",".join(node.address for node in self.nodes)

    @property
    def bootstrap_proxied(self) -> str:
        """Return ``bootstrap.servers`` for clients behind the tests' TCP proxies."""
        return ",".join(f"127.0.0.1:{node.ports.proxy}" for node in self.nodes)

    def start(self) -> None:
        """Format the nodes, start them, and return when the cluster answers."""
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for node in self.nodes:
            try:
                node.format(cluster_id, self._server_properties(node))
            except subprocess.SubprocessError as error:
                raise BrokerUnavailableError(node.why("could not be formatted")) from error
        for node in self.nodes:
            node.start()
        self.wait_until_ready()

    def create_topics(self, partitions: Mapping[str, int]) -> None:
        """Create each topic with its number of partitions and the broker's replication."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = [NewTopic(topic, num_partitions=count) for topic, count in partitions.items()]
        for future in admin.create_topics(wanted).values():
            future.result(CREATE_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Kill the nodes and delete their data; so a clean stop would have no benefit."""
        for node in self.nodes:
            node.kill()
        self._temporary.cleanup()

    def wait_until_ready(self, timeout_seconds: float = READY_TIMEOUT_SECONDS) -> None:
        """Return when the metadata lists every running node: an open port alone is not enough.

        Raises:
            BrokerUnavailableError: a node died or did not answer in time. The message contains the
                end of its log.
        """
        deadline = time.monotonic() + timeout_seconds
        expected = {node.number for node in self.nodes if node.pid}
        for node in [node for node in self.nodes if node.number in expected]:
            node.wait_until(partial(_knows, node, expected), deadline)

    def _server_properties(self, node: Node) -> str:
        template = (resources.files(__package__) / "server.properties").read_text(encoding="utf-8")
        voters = (f"{n.number}@127.0.0.1:{n.ports.controller}" for n in self.nodes)
        # In a properties file the last line of a key wins.
        text = template + "".join(f"{key}={value}\n" for key, value in self._properties.items())
        return Template(text).substitute(
            node_id=node.number,
            voters=",".join(voters),
            port=node.ports.client,
            proxied_port=node.ports.proxied,
            proxy_port=node.ports.proxy,
            controller_port=node.ports.controller,
            log_dir=node.directory / "data",
            replication=min(3, len(self.nodes)),
            in_sync=min(2, len(self.nodes)),
        )


def _knows(node: Node, expected: set[int]) -> bool:
    return _accepts(node) and expected <= _known_to(node)


def _accepts(node: Node) -> bool:
    """Return whether the port is open. Checked first, because librdkafka logs each refusal."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", node.ports.client)) == 0


def _known_to(node: Node) -> set[int]:
    """Return the ids of the live brokers that *node* knows; empty: no answer."""
    admin = AdminClient({"bootstrap.servers": node.address, "log_level": 0})
    with contextlib.suppress(KafkaException):
        return set(admin.list_topics(timeout=2).brokers)
    return set()
