"""What this process is called: to its brokers, on its page, and by those who stand by for it."""

from __future__ import annotations

import os
import socket


def instance() -> str:
    """Return the host's name and the process's id; a container's host is named after the pod."""
    return f"{socket.gethostname()}-{os.getpid()}"
