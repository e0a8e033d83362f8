"""Whole processes, timed from outside: what a user waits for, start of the interpreter included."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from streamfilter.bench.machine import field
from streamfilter.bench.measure import Seconds

MIB = 1 << 20
LOOK_SECONDS = 0.05


class ProcessFailed(RuntimeError):
    """A process that was to be measured ended with an error; the message has its last words."""


def run_process(arguments: Sequence[str]) -> tuple[Seconds, int]:
    """Run ``python *arguments*``; return what it took, and its largest resident memory in bytes.

    Raises:
        ProcessFailed: it did not end well.
    """
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *arguments], env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=said,
        )  # fmt: skip
        with _Peak(process.pid) as peak:
            _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            end = said.read()[-2_000:].decode(errors="replace")
            raise ProcessFailed(f"{' '.join(arguments)} ended with {process.returncode}:\n{end}")
    return Seconds(wall, usage.ru_utime + usage.ru_stime), peak.bytes


class _Peak:
    """Watches a process's largest resident memory (on Linux; elsewhere it sees 0).

    Not from its resource usage: what a child inherits of ours before it starts its own program
    counts there too.
    """

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._path = f"/proc/{pid}/status"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            kib = field(self._path, "VmHWM").removesuffix(" kB")
            self.bytes = int(kib) * 1024 if kib else self.bytes


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
