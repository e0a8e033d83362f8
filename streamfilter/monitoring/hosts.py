"""Whom a request may name as its host: not a domain of somebody who rebinds it to our address.

A page of evil.example may let its own name lead to 127.0.0.1 once it is loaded (DNS rebinding), and
then reads what we answer. The request still names evil.example. Addresses, names without a dot and
names that nobody can register are never such a domain; any other must be allowed by the operator.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable

ANY = "*"
PRIVATE = (".localhost", ".local", ".internal", ".svc")
"""Ends of names that no registrar sells: of this host, a private network, Kubernetes."""


class AllowedHosts:
    """Decides by a request's Host header."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Allow *names* besides what is always allowed; ``*`` allows any."""
        self._names = {*map(str.lower, names), socket.gethostname().lower()}

    def allows(self, header: str | None) -> bool:
        """Return whether a request with this Host *header* is answered: browsers send one."""
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
