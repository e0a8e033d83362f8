"""Name of this process: for its brokers, its status page, and its standby processes."""

from __future__ import annotations

import os
import socket


def instance() -> str:
    """Return the host's name and the process's id; a container's host is named after the pod."""
    return f"{socket.gethostname()}-{os.getpid()}"
