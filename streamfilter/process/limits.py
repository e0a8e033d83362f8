"""What the system must allow `run`: open files and threads, looked at before anything is touched.

And again once it is known how many tasks and brokers there are (`index.scope: partition`).

A client that gets no socket waits for it without end, and a library that gets no thread ends the
process in the middle of its work. So too little is refused, with the number and the cure.
"""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streamfilter.stops import ConfigError, Problem

logger = logging.getLogger("streamfilter.run")

FILES_MIN = 128
"""Five clients of three sockets and pipes each, half of the limit for RocksDB's tables, HTTP."""
THREADS_MIN = 96
"""Measured at a takeover: 28 with one broker, 38 with three; 32 for HTTP at its bound; that times
1.3. Further brokers cost five each."""
TASK_FILES, TASK_BROKER_FILES = 68, 9
"""Of each further task, and of it with each further broker. Measured: 28 of a task that works, 8
more while it restores, and 32 tables of its index as it grows; 3 of each of three clients."""
TASK_THREADS, TASK_BROKER_THREADS = 12, 3

CGROUPS = Path("/sys/fs/cgroup")
PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Need:
    """What a process takes that owns all tasks: the others of its group may end."""

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
        """Return what for, in words."""
        return f" for {self.tasks} tasks (brokers: {self.brokers})" if self.tasks > 1 else ""


ONE = Need()


def refuse_small_limits(need: Need = ONE) -> None:
    """Look at the limits of this process, its user and its control groups.

    A limit of open files that this process may raise itself is raised.

    Raises:
        ConfigError: with each that is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _below(soft, need.files) and not _below(hard, need.files):
        resource.setrlimit(resource.RLIMIT_NOFILE, (need.files, hard))
        logger.info("the limit of open files is raised from %d to %d%s", soft, need.files, need)
    if problems := small_limits(need):
        raise ConfigError(problems)


def small_limits(need: Need) -> list[Problem]:
    """Return what is wrong with the limits, as far as this process cannot raise them itself."""
    return [*_files(need), *_threads_of_the_user(need), *_threads_of_the_groups(need)]


def _below(limit: int, needed: int) -> bool:
    return limit != resource.RLIM_INFINITY and limit < needed


def _files(need: Need) -> Iterator[Problem]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _below(hard, need.files):
        got = f"this process may open {hard} files; expected at least {need.files}{need}"
        cure = f"ulimit -n {need.files}, or LimitNOFILE={need.files} of the unit"
        yield Problem("limit of open files", got, cure)


def _threads_of_the_user(need: Need) -> Iterator[Problem]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == resource.RLIM_INFINITY:
        return
    used = _threads_of(os.getuid()) if os.getuid() else 0  # the kernel counts no thread of root
    cure = "ulimit -u, or LimitNPROC= of the unit"
    yield from problems_of(soft, used, whose="this user", cure=cure, need=need)


def _threads_of_the_groups(need: Need) -> Iterator[Problem]:
    for group in groups_of((PROCESSES / "self" / "cgroup"), CGROUPS):
        with suppress(OSError, ValueError):  # no limit says "max"
            limit = int((group / "pids.max").read_text())
            used = int((group / "pids.current").read_text())
            cure = "--pids-limit of the container, podPidsLimit, or TasksMax= of the unit"
            whose = f"the control group {group}"
            yield from problems_of(limit, used, whose=whose, cure=cure, need=need)


def problems_of(
    limit: int, used: int, *, whose: str, cure: str, need: Need = ONE
) -> Iterator[Problem]:
    """Yield what is wrong with a *limit* of threads of which *used* run already."""
    if limit - used < need.threads:
        got = (
            f"{whose} may have {limit} threads and has {used} now; "
            f"expected room for at least {need.threads}{need}"
        )
        yield Problem("limit of threads", got, f"raise it ({cure}) by {need.threads} at least")


def groups_of(listing: Path, mounted: Path) -> Iterator[Path]:
    """Yield the control groups that count our threads, each with those above it."""
    with suppress(OSError):
        for line in listing.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "pids"):
                place = Path(path.lstrip("/"))
                yield from (mounted / controllers / each for each in (place, *place.parents))


def _threads_of(user: int) -> int:
    """Return how many threads of *user* run, as far as one can see from here."""
    count = 0
    for process in PROCESSES.iterdir():
        with suppress(OSError):
            if process.name.isdigit() and process.stat().st_uid == user:
                count += sum(1 for _ in (process / "task").iterdir())
    return count
