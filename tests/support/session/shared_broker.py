"""One Kafka for all workers of a run: the first that needs it starts it, and ends it last.

Each worker had a broker of its own. Six of them on two cores spent more processor time on their
start and on compiling themselves than on the tests.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.local.jars import BrokerUnavailableError, find_java, kafka_jars
from deploy.local.node import Ports
from tests.support.session.needs import IN_CI

if TYPE_CHECKING:
    from deploy.local.real import RealKafka

SHORT_CLOCKS = {
    # Of the new consumer protocol, in which the broker decides them.
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "500",
}
"""Settings of the shared broker; only `tests.faults.life` uses that protocol."""
LAST_SECONDS = 1_800
"""The starter waits at most so long for the other workers to finish."""


@dataclass(frozen=True)
class SharedNode:
    """The only node, as another worker sees it."""

    ports: Ports
    directory: Path
    """Where its data are."""
    pid: int

    @property
    def address(self) -> str:
        """Return host:port of the client listener."""
        return f"127.0.0.1:{self.ports.client}"


@dataclass(frozen=True)
class SharedKafka:
    """A broker that another worker started."""

    nodes: tuple[SharedNode]

    @property
    def bootstrap(self) -> str:
        """Return ``bootstrap.servers`` for clients."""
        return self.nodes[0].address

    def wait_until_ready(self, timeout_seconds: float) -> None:
        """Do nothing: its starter has waited, and no test stops it."""

    @property
    def bootstrap_proxied(self) -> str:
        """Return ``bootstrap.servers`` for clients behind a proxy."""
        return f"127.0.0.1:{self.nodes[0].ports.proxy}"


@contextlib.contextmanager
def said_if_missing() -> Iterator[None]:
    """Skip a test if Java or Kafka's jars cannot be had here; in CI it fails."""
    try:
        yield
    except BrokerUnavailableError as missing:
        if IN_CI:
            pytest.fail(f"CI must have a real broker. {missing}")
        pytest.skip(str(missing).replace("\n", " "))


def require_kafka() -> None:
    """Skip a test that starts brokers by a program of its own, if they cannot be had."""
    with said_if_missing():
        find_java()
        kafka_jars()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock *path*, which ends with the process that has it."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def shared(directory: Path, make: Callable[[], RealKafka]) -> Iterator[RealKafka | SharedKafka]:
    """Give the broker of the run whose workers share *directory*."""
    users, ports = directory / "users", directory / "ports.json"
    users.mkdir(parents=True, exist_ok=True)
    mine, own = users / str(os.getpid()), None
    with locked(directory / "lock"):
        if not ports.exists():
            own = make()
            own.start()
            node = own.nodes[0]
            ports.write_text(json.dumps([asdict(node.ports), str(node.directory), node.pid]))
        mine.touch()
    try:
        yield own or _of_another(ports)
    finally:
        mine.unlink()
        if own:
            _await_others(directory)
            own.close()


def _of_another(ports: Path) -> SharedKafka:
    numbers, directory, pid = json.loads(ports.read_text())
    return SharedKafka((SharedNode(Ports(**numbers), Path(directory), pid),))


def _await_others(directory: Path) -> None:
    """Return when no other worker uses the broker; one that needs it later starts its own."""
    deadline = time.monotonic() + LAST_SECONDS
    while True:
        with locked(directory / "lock"):
            users = [int(each.name) for each in (directory / "users").iterdir()]
            if time.monotonic() > deadline or not any(map(_lives, users)):
                (directory / "ports.json").unlink()
                return
        time.sleep(0.2)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
