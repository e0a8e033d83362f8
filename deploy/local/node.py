"""Runs one Kafka node as a process: format, start, stop, kill, pause, restart.

A node keeps its ports and its data, so it restarts as the same broker.
"""

from __future__ import annotations

import contextlib
import random
import socket
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from deploy.local.owned import Restarted

FORMAT_TIMEOUT_SECONDS = 240
HEAP = ("-Xms512m", "-Xmx512m")

# Below Linux's ephemeral range (from 32768): no outgoing connection can take a node's port while
# the node is down.
PORTS = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Return whether nothing listens on loopback *port* now."""
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        probe.bind(("127.0.0.1", port))
        return True
    return False


RESERVED_MAX = 256
"""Maximum of ports that one process reserves; each needs a file descriptor."""

_reserved: deque[socket.socket] = deque()


def free_ports(count: int) -> list[int]:
    """Return *count* different loopback ports on which nothing listens now.

    On Linux, `free_ports` in another process does not return them while this process runs. A node
    does not listen between a kill and a restart, and could otherwise lose its port.
    """
    ports: set[int] = set()
    while len(ports) < count:
        port = random.SystemRandom().choice(PORTS)
        if is_free(port) and _reserve(port):
            ports.add(port)
    return list(ports)


def _reserve(port: int) -> bool:
    """Bind a name that only one process can have; the kernel frees it when the process ends."""
    if sys.platform != "linux":
        return True
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(f"\0streamfilter-port-{port}")
    except OSError:
        held.close()
        return False
    _reserved.append(held)
    if len(_reserved) > RESERVED_MAX:
        _reserved.popleft().close()
    return True


@dataclass(frozen=True, slots=True)
class Ports:
    """The loopback ports of one node."""

    client: int
    proxied: int
    """A second listener for clients; it advertises ``proxy``."""
    proxy: int
    """Port of a test's TCP proxy, which forwards to ``proxied``. By default nothing listens."""
    controller: int


class Node(Restarted):
    """One broker. The constructor does not start it."""

    def __init__(self, number: int, ports: Ports, directory: Path, *, java: Path, jars: Path):
        super().__init__(f"Kafka node {number}", directory / "broker.log")
        self.number = number
        """The node's id, from 1."""
        self.ports = ports
        self.directory = directory
        self._java = [str(java), *HEAP, "-cp", f"{jars}/*"]

    @property
    def address(self) -> str:
        """Return host:port of the client listener."""
        return f"127.0.0.1:{self.ports.client}"

    def format(self, cluster_id: str, properties: str) -> None:
        """Write *properties* and prepare the data directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._settings.write_text(properties, encoding="utf-8")
        logging = (resources.files(__package__) / "log4j2.xml").read_text(encoding="utf-8")
        (self.directory / "log4j2.xml").write_text(logging, encoding="utf-8")
        command = [*self._java, "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        # With "=": one random id in 64 begins with a dash and would be parsed as an option.
        command += [f"--cluster-id={cluster_id}", "--config", str(self._settings)]
        with self.log.open("ab") as log:
            subprocess.run(
                command, stdout=log, stderr=log, check=True, timeout=FORMAT_TIMEOUT_SECONDS
            )

    @property
    def _settings(self) -> Path:
        return self.directory / "server.properties"

    def start(self) -> None:
        """Start the process and return at once; `RealKafka.wait_until_ready` waits."""
        java, *options = self._java
        logging = f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}"
        command = [java, logging, *options, "kafka.Kafka", str(self._settings)]
        self.run(command)
