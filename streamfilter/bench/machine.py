"""On what, and with which versions: a number without these is a rumour."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import streamfilter

PACKAGES = (
    "numpy", "xxhash", "rocksdict", "confluent-kafka", "prometheus-client", "msgspec",
    "datasketch", "rensa", "gaoya",
)  # fmt: skip


def machine() -> dict[str, Any]:
    """Return what the measurements ran on."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if _has_affinity() else os.cpu_count(),
        "memory_kib": field("/proc/meminfo", "MemTotal").removesuffix(" kB"),
        "load_average": list(os.getloadavg()),
    }


def versions() -> dict[str, str]:
    """Return the versions of everything that took part; absent packages are left out."""
    found = {
        "streamfilter": streamfilter.__version__,
        "python": platform.python_version(),
        "commit": _commit(),
    }
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def resident_bytes() -> int:
    """Return this process's resident memory, 0 where nobody tells."""
    kib = field("/proc/self/status", "VmRSS").removesuffix(" kB")
    return int(kib) * 1024 if kib else 0


def processor_seconds(pid: int) -> float:
    """Return what process *pid* has used of the processor, all threads; 0 where nobody tells."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return 0.0
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _has_affinity() -> bool:
    return sys.platform == "linux"


def field(path: str, name: str) -> str:
    """Return the first value of *name* in a file of ``name : value`` lines, or ''."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    values = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in values if key.strip() == name), "")


def _commit() -> str:
    """Return the commit of the work tree, with a + if it was changed; '' outside of one."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"],
            cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()
