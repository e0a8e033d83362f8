"""The machine and the versions of a measurement, and processes timed from outside.

A figure without them cannot be compared. The time of a process includes the start of the
interpreter, because a user waits for that too.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec import Struct

import streamfilter

PACKAGES = (
    "numpy", "rocksdict", "confluent-kafka", "prometheus-client", "msgspec",
    "datasketch", "rensa", "gaoya",
)  # fmt: skip
LOOK_SECONDS = 0.05
MIB = 1 << 20


class ProcessFailed(RuntimeError):
    """A measured process ended with an error; the message contains the end of its output."""


def machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(usable()) or os.cpu_count(),
        "memory_kib": field("/proc/meminfo", "MemTotal").removesuffix(" kB"),
        "load_average": list(os.getloadavg()),
    }


def versions() -> dict[str, str]:
    """Return the versions of all packages involved; absent packages are left out."""
    found = {
        "streamfilter": streamfilter.__version__,
        "python": platform.python_version(),
        "commit": _commit(),
    }
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _commit() -> str:
    """Return the commit of the work tree, with a + if it was changed; '' outside of one."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"],
            cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""


def field(path: str, name: str) -> str:
    """Return the first value of *name* in a file of ``name : value`` lines, or ''."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    values = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in values if key.strip() == name), "")


def memory_bytes(name: str, pid: int | str = "self") -> int:
    """Return ``VmRSS`` or ``VmHWM`` of a process's status; 0 if unknown."""
    return int(field(f"/proc/{pid}/status", name).removesuffix(" kB") or 0) * 1024


def processor_seconds(pid: int, *, first_thread: bool = False) -> float:
    """Return the processor time of process *pid*, or of its first thread; 0 if unknown."""
    place = f"/proc/{pid}/task/{pid}/stat" if first_thread else f"/proc/{pid}/stat"
    try:
        after_name = Path(place).read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return 0.0
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def environment() -> dict[str, str]:
    """Return this process's environment without settings that would change the measurement.

    Without cached bytecode each start would compile the filter again, which takes 0.1 s.
    """
    shaping = ("STREAMFILTER_", "PYTHONDONTWRITEBYTECODE")
    return {k: v for k, v in os.environ.items() if not k.startswith(shaping)}


class Ran(Struct, frozen=True):
    """Time and memory of a process that has ended."""

    wall: float  # wall-clock seconds
    cpu: float  # processor seconds of its threads, and of the child processes that it waited for
    own: float = 0.0
    """Processor seconds of its own threads, as last seen before it ended; 0 if unknown."""
    peak: int = 0  # largest resident memory of the process itself, in bytes; 0 if unknown


def run_process(arguments: Sequence[str]) -> Ran:
    """Run ``python *arguments*``, and return its time and memory.

    Raises `ProcessFailed`: it ended with an error.
    """
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments], env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=said,
        )  # fmt: skip
        with _watched(process.pid) as seen:
            _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            end = said.read()[-2_000:].decode(errors="replace")
            raise ProcessFailed(f"{' '.join(arguments)} ended with {process.returncode}:\n{end}")
    return Ran(wall, usage.ru_utime + usage.ru_stime, *map(max, zip(*seen, strict=True)))


@contextmanager
def _watched(pid: int) -> Iterator[list[tuple[float, int]]]:
    """Watch a process; yield a list that receives its processor seconds and its largest memory.

    Its resource usage (`getrusage`) is not used. That includes memory inherited from this process
    before exec, and the usage of its own children.
    """
    seen, over = [(0.0, 0)], threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            seen.append((processor_seconds(pid), memory_bytes("VmHWM", pid)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield seen
    over.set()
    thread.join()


@contextmanager
def cores(*numbers: int) -> Iterator[None]:
    """Pin this process, and those it starts meanwhile, to some cores (on Linux).

    *numbers* count from the last core; if there are too few cores, all share the first one.
    """
    if not (before := usable()):
        yield
        return
    ours = sorted(before, reverse=True)
    os.sched_setaffinity(0, {ours[min(number, len(ours) - 1)] for number in numbers})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def usable() -> set[int]:
    """Return the cores that this process may use; an empty set if unknown."""
    return os.sched_getaffinity(0) if sys.platform == "linux" else set()
