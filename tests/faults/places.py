"""One broker with a way through a proxy for each life, so that each has a network of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deploy.local.node import free_ports
from deploy.local.real import RealKafka
from streamfilter.process.child import Child
from tests.faults.life import SHORT_CLOCKS
from tests.faults.proxy import Proxy
from tests.support.forge import Forge


@dataclass(frozen=True, slots=True)
class Place:
    """Where one life finds its broker."""

    direct: str
    """For who feeds and who watches: no fault of the network reaches them."""
    proxied: str = ""
    proxy: Proxy | None = None
    launch: Callable[..., Child] = Child
    """How its processes are started."""


@contextlib.contextmanager
def places(count: int) -> Iterator[list[Place]]:
    """Start a broker; give a place for each of *count* lives."""
    with contextlib.ExitStack() as stack:
        forge = stack.enter_context(Forge())
        ports = free_ports(2 * count)
        inner, outer = ports[:count], ports[count:]
        kafka = stack.enter_context(RealKafka(properties=_listeners(inner, outer)))
        proxies = [stack.enter_context(Proxy(*pair)) for pair in zip(outer, inner, strict=True)]
        yield [
            Place(kafka.bootstrap, f"127.0.0.1:{port}", proxy, forge.launch)
            for port, proxy in zip(outer, proxies, strict=True)
        ]


def _listeners(inner: list[int], outer: list[int]) -> dict[str, str]:
    names = [f"LIFE{number}" for number in range(len(inner))]
    told = [f"{name}://127.0.0.1:{port}" for name, port in zip(names, inner, strict=True)]
    back = [f"{name}://127.0.0.1:{port}" for name, port in zip(names, outer, strict=True)]
    maps = [f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", *names)]
    own = "PLAINTEXT://127.0.0.1:$port"
    return {
        **SHORT_CLOCKS,
        "listeners": ",".join([own, *told, "CONTROLLER://127.0.0.1:$controller_port"]),
        "advertised.listeners": ",".join([own, *back]),
        "listener.security.protocol.map": ",".join(maps),
    }
