"""Number of cores that this process may use: by CPU affinity and the quota of its cgroups."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from streamfilter.process.limits import CGROUPS, PROCESSES, groups_of


def usable_cores(listing: Path = PROCESSES / "self" / "cgroup", mounted: Path = CGROUPS) -> int:
    """Return the number of usable cores, at least 1."""
    if sys.platform == "linux":
        may = len(os.sched_getaffinity(0))
    else:
        may = os.cpu_count() or 1
    return max(1, int(min([may, *_quotas(listing, mounted)])))


def _quotas(listing: Path, mounted: Path) -> Iterator[float]:
    for group in groups_of(listing, mounted):
        with suppress(OSError, ValueError):  # no quota says "max"
            quota, period = (group / "cpu.max").read_text().split()
            yield int(quota) / int(period)
