"""What can happen to one broker, or to the way to it: begun, and undone after some seconds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deploy.local.node import Node
from deploy.local.real import RealKafka
from tests.faults.proxy import CLEAR, HOLE, Proxy, Weather
from tests.long.roles import ROLES, node_with
from tests.support.stage import Stage

Undo = Callable[[], object]


@dataclass(slots=True)
class Cluster:
    """Nodes, the proxies before them, and whose roles are looked for."""

    kafka: RealKafka
    proxies: Sequence[Proxy]
    rng: random.Random
    stages: list[Stage] = field(default_factory=list)

    def node(self, role: str) -> Node:
        """Return who has *role* for one of the stages; any node for the empty role."""
        if not role:
            return self.rng.choice(self.kafka.nodes)
        return node_with(role, self.kafka, self.rng.choice(self.stages))


@dataclass(frozen=True, slots=True)
class Outage:
    """One kind."""

    name: str
    seconds: float
    begin: Callable[[Cluster], tuple[bool, Undo]]
    """Does it; returns whether it was seen to happen, and what ends it."""


def killed(role: str = "") -> Callable[[Cluster], tuple[bool, Undo]]:
    def begin(cluster: Cluster) -> tuple[bool, Undo]:
        node = cluster.node(role)
        node.kill()
        return node.pid is None, node.start

    return begin


def bounced(role: str = "") -> Callable[[Cluster], tuple[bool, Undo]]:
    def begin(cluster: Cluster) -> tuple[bool, Undo]:
        node = cluster.node(role)
        node.stop()
        return node.pid is None, node.start

    return begin


def paused(role: str = "") -> Callable[[Cluster], tuple[bool, Undo]]:
    def begin(cluster: Cluster) -> tuple[bool, Undo]:
        node = cluster.node(role)
        node.pause()
        return node.pid is not None, node.resume

    return begin


def rolled(cluster: Cluster) -> tuple[bool, Undo]:
    """Bounce one node after the other, each once the one before it is back."""
    for node in cluster.kafka.nodes:
        node.stop()
        node.start()
        cluster.kafka.wait_until_ready(READY_SECONDS)
        time.sleep(CATCH_UP_SECONDS)  # until it is in sync again: two of three must be
    return True, lambda: None


def isolated(weather: Weather) -> Callable[[Cluster], tuple[bool, Undo]]:
    """Return the loss of the clients' way to one node, which the others still see."""

    def begin(cluster: Cluster) -> tuple[bool, Undo]:
        proxy = cluster.rng.choice(cluster.proxies)
        proxy.weather = weather
        links = proxy.connections if weather is HOLE else proxy.cut()

        def end() -> None:
            proxy.weather = CLEAR

        return links > 0, end

    return begin


READY_SECONDS = 240.0
CATCH_UP_SECONDS = 5.0
FREEZES = (5.0, 20.0, 70.0)
OUTAGES: dict[int, dict[int, tuple[Outage, ...]]] = {
    1: {
        14: tuple(Outage(f"killed, back after {s:g} s", s, killed()) for s in (1.0, 4.0, 8.0)),
        16: tuple(Outage(f"frozen for {s:g} s", s, paused()) for s in FREEZES),
    },
    3: {
        15: (
            *(Outage(f"{role} killed", 5.0, killed(role)) for role in ROLES),
            *(Outage(f"{role} bounced", 1.0, bounced(role)) for role in ROLES),
            Outage("all bounced in turn", 0.0, rolled),
        ),
        16: tuple(
            Outage(f"{role} frozen for {seconds:g} s", seconds, paused(role))
            for seconds, role in zip((*FREEZES, 5.0), ROLES, strict=True)
        ),
        18: (
            Outage("one of three unreachable for 6 s: a hole", 6.0, isolated(HOLE)),
            Outage("one of three unreachable for 15 s: a hole", 15.0, isolated(HOLE)),
            Outage("one of three refuses for 6 s", 6.0, isolated(Weather(refusing=True))),
            Outage("one of three refuses for 15 s", 15.0, isolated(Weather(refusing=True))),
        ),
    },
}
"""By the number of nodes, then by row."""
