"""strace: what makes a system call fail, or ends a process inside of one."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.session.needs import IN_CI


def strace_works() -> bool:
    """Return whether there is one, with the right to trace; CI must have one."""
    if shutil.which("strace") is None:
        assert not IN_CI, "CI must have strace"
        return False
    command = ["strace", "-qq", "-o", "/dev/null", "-e", "inject=fsync:error=EIO", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


_skipped = pytest.mark.skipif(not strace_works(), reason="needs strace, and the right to it")


def needs_strace(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a *test* that is skipped without strace."""
    return pytest.mark.tools(_skipped(test))


AHEAD = 300
"""Files that RocksDB may number, beyond those it has, until a test's process ends."""


def killed_in_write(logs: Path, nth: int) -> tuple[str, ...]:
    """Return what to put before a command: SIGKILL as it enters its *nth* write to a log.

    The traced process stays our own child, for the tracer goes into the background.
    """
    # Every start of RocksDB numbers on: what is watched begins where the directory ends (seen: in
    # the 36th life of one index the numbers had left the first 300, and no one was killed).
    last = max((int(path.stem) for path in logs.glob("[0-9]*.*")), default=0)
    paths = [
        part
        for number in range(last + 1, last + AHEAD)
        for part in ("-P", str(logs / f"{number:06d}.log"))
    ]
    kill = f"inject=write:signal=KILL:when={nth}"
    return ("strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=write", "-e", kill, *paths)
