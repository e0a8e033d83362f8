"""Processes as the kernel tells of them."""

from contextlib import suppress
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Return the processes that *pid* has begun."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(status.parent.name))
    return found
