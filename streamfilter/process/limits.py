"""System limits: open files and threads, which are checked before the start, and usable cores.

With `index.scope: partition` they are checked again when the numbers of tasks and brokers are
known. A client without a free socket waits for ever. A library without a free thread ends the
process in the middle of its work. So a limit that is too low is refused, with the number and the
cure.
"""

import logging
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from streamfilter.stops import ConfigError, Problem

logger = logging.getLogger("streamfilter.run")

FILES_MIN = 128  # five clients with three sockets and pipes; half for RocksDB's tables; HTTP
THREADS_MIN = 96
"""Measured at a takeover: 28 with one broker, 38 with three; HTTP at its bound needs 32. The sum
times 1.3. Each further broker needs five."""
TASK_FILES, TASK_BROKER_FILES = 68, 9
"""Files of each further task, and of each further broker for each task. Measured: 28 for a task
that works, 8 more while it restores, 32 tables of a growing index. A broker: 3 for each of 3
clients."""
TASK_THREADS, TASK_BROKER_THREADS = 12, 3

ADDRESS_BYTES_MIN = 1_500_000_000
"""Measured: at 700 MB librdkafka gets no thread, and below that it may hang for ever. Most of it is
reserved for stacks and never used, so it says nothing about memory."""

CGROUPS = Path("/sys/fs/cgroup")
PROCESSES = Path("/proc")


class Need(Struct, frozen=True):
    """Resources of a process that owns all tasks, because the others of its group may end."""

    tasks: int = 1
    brokers: int = 1

    @property
    def files(self) -> int:
        """Return how many files it opens at most."""
        each = TASK_FILES + TASK_BROKER_FILES * (self.brokers - 1)
        return FILES_MIN + (self.tasks - 1) * each

    @property
    def threads(self) -> int:
        """Return how many threads it starts at most."""
        each = TASK_THREADS + TASK_BROKER_THREADS * (self.brokers - 1)
        return THREADS_MIN + (self.tasks - 1) * each

    def __str__(self) -> str:
        return f" for {self.tasks} tasks (brokers: {self.brokers})" if self.tasks > 1 else ""


ONE = Need()


def refuse_small_limits(need: Need = ONE) -> None:
    """Check all limits, and raise that of open files if allowed; raise `ConfigError` for others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _below(soft, need.files) and not _below(hard, need.files):
        resource.setrlimit(resource.RLIMIT_NOFILE, (need.files, hard))
        logger.info("the limit of open files is raised from %d to %d%s", soft, need.files, need)
    if problems := small_limits(need):
        raise ConfigError(problems)


def small_limits(need: Need) -> list[Problem]:
    """Return the limits that are too low and that this process cannot raise itself."""
    threads = [*_threads_of_the_user(need), *_threads_of_the_groups(need)]
    return [*_files(need), *threads, *_address_space()]


def _below(limit: int, needed: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < needed


def _files(need: Need) -> Iterator[Problem]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _below(hard, need.files):
        got = f"this process may open {hard} files; expected at least {need.files}{need}"
        cure = f"ulimit -n {need.files}, or LimitNOFILE={need.files} of the unit"
        yield Problem("limit of open files", got, cure)


def _address_space() -> Iterator[Problem]:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if _below(soft, ADDRESS_BYTES_MIN):
        got = f"it has {soft} bytes; expected at least {ADDRESS_BYTES_MIN}"
        cure = "ulimit -v unlimited; bound the memory by MemoryMax= of the unit, or the container"
        yield Problem("limit of address space", got, cure)


def _threads_of_the_user(need: Need) -> Iterator[Problem]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == resource.RLIM_INFINITY:
        return
    used = _threads_of(os.getuid()) if os.getuid() else 0  # the kernel does not limit root
    cure = "ulimit -u, or LimitNPROC= of the unit"
    yield from problems_of(soft, used, whose="this user", cure=cure, need=need)


def _threads_of_the_groups(need: Need) -> Iterator[Problem]:
    for group in groups_of((PROCESSES / "self" / "cgroup"), CGROUPS):
        with suppress(OSError, ValueError):  # "max": no limit
            limit = int((group / "pids.max").read_text())
            used = int((group / "pids.current").read_text())
            cure = "--pids-limit of the container, podPidsLimit, or TasksMax= of the unit"
            whose = f"the control group {group}"
            yield from problems_of(limit, used, whose=whose, cure=cure, need=need)


def problems_of(
    limit: int, used: int, *, whose: str, cure: str, need: Need = ONE
) -> Iterator[Problem]:
    """Yield the problem of a *limit* of threads that is too low when *used* already run."""
    if limit - used < need.threads:
        got = (
            f"{whose} may have {limit} threads and has {used} now; "
            f"expected room for at least {need.threads}{need}"
        )
        yield Problem("limit of threads", got, f"raise it ({cure}) by {need.threads} at least")


def groups_of(listing: Path, mounted: Path) -> Iterator[Path]:
    with suppress(OSError):
        for line in listing.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "pids"):
                place = Path(path.lstrip("/"))
                yield from (mounted / controllers / each for each in (place, *place.parents))


def _threads_of(user: int) -> int:
    """Return how many threads of *user* run, as far as they are visible to this process."""
    count = 0
    for process in PROCESSES.iterdir():
        with suppress(OSError):
            if process.name.isdigit() and process.stat().st_uid == user:
                count += sum(1 for _ in (process / "task").iterdir())
    return count


def usable_cores(listing: Path = PROCESSES / "self" / "cgroup", mounted: Path = CGROUPS) -> int:
    """Return the number of usable cores, at least 1: by CPU affinity and quotas of the cgroups."""
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
