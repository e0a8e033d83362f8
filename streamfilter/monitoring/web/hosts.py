"""Allowed Host headers of a request: protects the pages against DNS rebinding.

A page of evil.example may point its own name to 127.0.0.1 after it is loaded, and then read our
answers. The request still has the Host evil.example. Addresses, names without a dot and names that
cannot be registered are never such a domain. The operator must allow any other name.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

ANY = "*"
PRIVATE = (".localhost", ".local", ".internal", ".svc")
"""Suffixes that cannot be registered: this host, private networks, Kubernetes."""


class AllowedHosts:
    """Decides by a request's Host header."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Allow *names* in addition to those that are always allowed; ``*`` allows any."""
        self._names = {*map(str.lower, names), socket.gethostname().lower()}

    def allows(self, header: str | None) -> bool:
        """Return whether to answer a request with this Host *header*.

        A request without one is answered, because browsers always send it.
        """
        if header is None or ANY in self._names:
            return True
        name = _without_port(header.strip().lower()).rstrip(".")
        if "." not in name or name in self._names or name.endswith(PRIVATE):
            return True
        return _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
