"""What the system must allow `run`: open files and threads, looked at before anything is touched.

A client that gets no socket waits for it without end, and a library that gets no thread ends the
process in the middle of its work. So too little is refused, with the number and the cure.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from streamfilter.stops import ConfigError, Problem

FILES_MIN = 128
"""Five clients of three sockets and pipes each, half of the limit for RocksDB's tables, HTTP."""
THREADS_MIN = 96
"""Measured at a takeover: 28 with one broker, 38 with three; 32 for HTTP at its bound; that times
1.3. Further brokers cost five each, further tasks (``index.scope: partition``) a dozen each."""

CGROUPS = Path("/sys/fs/cgroup")
PROCESSES = Path("/proc")


def refuse_small_limits() -> None:
    """Look at the limits of this process, its user and its control groups.

    Raises:
        ConfigError: with each that is too low.
    """
    if problems := [*_files(), *_threads_of_the_user(), *_threads_of_the_groups()]:
        raise ConfigError(problems)


def _files() -> Iterator[Problem]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES_MIN:
        got = f"this process may open {soft} files; expected at least {FILES_MIN}"
        yield Problem("limit of open files", got, "ulimit -n 1024, or LimitNOFILE= of the unit")


def _threads_of_the_user() -> Iterator[Problem]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft == resource.RLIM_INFINITY:
        return
    used = _threads_of(os.getuid()) if os.getuid() else 0  # the kernel counts no thread of root
    yield from problems_of(
        soft, used, whose="this user", cure="ulimit -u, or LimitNPROC= of the unit"
    )


def _threads_of_the_groups() -> Iterator[Problem]:
    for group in groups_of((PROCESSES / "self" / "cgroup"), CGROUPS):
        with suppress(OSError, ValueError):  # no limit says "max"
            limit = int((group / "pids.max").read_text())
            used = int((group / "pids.current").read_text())
            cure = "--pids-limit of the container, podPidsLimit, or TasksMax= of the unit"
            yield from problems_of(limit, used, whose=f"the control group {group}", cure=cure)


def problems_of(limit: int, used: int, *, whose: str, cure: str) -> Iterator[Problem]:
    """Yield what is wrong with a *limit* of threads of which *used* run already."""
    if limit - used < THREADS_MIN:
        got = (
            f"{whose} may have {limit} threads and has {used} now; "
            f"expected room for at least {THREADS_MIN}"
        )
        yield Problem("limit of threads", got, f"raise it ({cure}) by {THREADS_MIN} at least")


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
