"""How much memory a process takes at most, and a limit on it where the system has one to give."""

import contextlib
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from streamfilter.bench.machine import field

MIB = 1 << 20
CONTROLLER = Path("/sys/fs/cgroup/memory")
"""Of the first version of control groups; the second and none give no limit here."""
IN_GROUP = 'echo $$ 2>/dev/null >"$0/cgroup.procs"; exec "$@"'


@contextlib.contextmanager
def limited(limit_bytes: int) -> Iterator[tuple[str, ...]]:
    """Yield what to put before a command, so that the kernel ends it above *limit_bytes*.

    Where no group can be made it is nothing: `peak_bytes` tells what would have ended it.
    """
    group = CONTROLLER / f"streamfilter-{secrets.token_hex(6)}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit_bytes))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        yield ()
        return
    try:
        yield ("sh", "-c", IN_GROUP, str(group))
    finally:
        _removed(group)


def _removed(group: Path) -> None:
    """Remove *group* once its processes are gone."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


def peak_bytes(pid: int) -> int:
    """Return the most that the process ever had resident."""
    return int(field(f"/proc/{pid}/status", "VmHWM").removesuffix(" kB")) * 1024
