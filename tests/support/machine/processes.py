"""Processes as `/proc` describes them."""

from contextlib import suppress
from pathlib import Path


def state_of(pid: int) -> str:
    """Return the state of a process as `ps` shows it: T stopped, Z ended; empty: there is none."""
    with suppress(OSError):
        return _fields(Path(f"/proc/{pid}/stat"))[0]
    return ""


def children_of(pid: int) -> list[int]:
    """Return the processes that *pid* has begun."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(_fields(status)[1]) == pid:
                found.append(int(status.parent.name))
    return found


def _fields(stat: Path) -> list[str]:
    """Return the fields behind the command's name, which may have spaces and brackets."""
    return stat.read_text().rpartition(")")[2].split()
