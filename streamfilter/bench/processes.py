"""Whole processes, timed from outside: what a user waits for, start of the interpreter included."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from streamfilter.bench.measure import Seconds

MIB = 1 << 20


class ProcessFailed(RuntimeError):
    """A process that was to be measured ended with an error; the message has its last words."""


def run_process(arguments: Sequence[str]) -> tuple[Seconds, int]:
    """Run ``python *arguments*``; return what it took, and its largest resident memory in bytes.

    Raises:
        ProcessFailed: it did not end well.
    """
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments], env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        end = said.decode(errors="replace")[-2_000:]
        raise ProcessFailed(f"{' '.join(arguments)} ended with {process.returncode}:\n{end}")
    return Seconds(wall, usage.ru_utime + usage.ru_stime), _peak(usage.ru_maxrss)


def _peak(maximum: int) -> int:
    """Return bytes: Linux counts KiB, macOS bytes."""
    return maximum if sys.platform == "darwin" else maximum * 1024


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return our environment without settings that would shape what is measured."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("STREAMFILTER_")}
    return {**kept, **(extra or {})}


@contextmanager
def core(number: int) -> Iterator[None]:
    """Keep this process, and those it starts meanwhile, on one of its cores (on Linux).

    *number* counts from the last core; with fewer of them, all share the first.
    """
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    usable = sorted(before, reverse=True)
    os.sched_setaffinity(0, {usable[min(number, len(usable) - 1)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
