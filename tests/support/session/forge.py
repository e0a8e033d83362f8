"""Filters forked from a process that has imported everything: each costs 0.7 s of processor less.

    with Forge() as forge:
        process = FilterProcess(config, port=port, log=log, launch=forge.launch)

What is forked has no thread, no client and no logging yet, and then runs `streamfilter.cli.main`
as a new process would: only the imports are those of its parent. A forge of other modules runs code
that uses them: ``Forge("tests.index.samples").run("from tests.index.samples import …", …)``.
`python -m tests.support.session.forge` is that parent: a line of JSON asks for a process, a line
tells its id, another its end.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streamfilter.demo.running_filter import Child

ANSWER_SECONDS = 120
PR_SET_PDEATHSIG = 1


class Remote:
    """A process whose parent is the forge; it answers as a `subprocess.Popen` does."""

    def __init__(self, forge: Forge, pid: int) -> None:
        self._forge, self.pid = forge, pid

    def poll(self) -> int | None:
        return self._forge.code(self.pid, 0)

    def wait(self, timeout: float) -> int:
        code = self._forge.code(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Forked(Child):
    """A `Child` that was forked instead of started; it ends with the forge."""

    def __init__(self, process: Remote, log: Path) -> None:
        self.log, self.pid = log, process.pid
        self._process = process  # type: ignore[assignment]

    def _dismiss_guard(self) -> None:
        """Do nothing: the kernel kills it with its parent."""


class Forge:
    """The parent of forked filters, from outside."""

    def __init__(self, *modules: str) -> None:
        """Let it import *modules*, by default those of a filter."""
        self._modules = modules

    def __enter__(self) -> Forge:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.session.forge", *self._modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._news, self._asking = threading.Condition(), threading.Lock()
        self._pids: list[int] = []
        self._codes: dict[int, int] = {}
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()  # it ends, and its children with it
        self._server.wait(ANSWER_SECONDS)
        self._thread.join(ANSWER_SECONDS)

    def launch(
        self,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        output: Path | None = None,
    ) -> Forked:
        """Fork a process for *command*: python, -m, streamfilter, and its arguments.

        Its standard output goes into *output*, by default into the log, as its errors do.
        """
        assert list(command[1:3]) == ["-m", "streamfilter"], command
        return self._fork({"arguments": list(command[3:])}, log, environment, output)

    def run(self, code: str, *, log: Path, environment: Mapping[str, str] | None = None) -> Forked:
        """Fork a process that runs *code*; what it prints goes into the log."""
        return self._fork({"code": code}, log, environment, None)

    def _fork(
        self,
        what: Mapping[str, Any],
        log: Path,
        environment: Mapping[str, str] | None,
        output: Path | None,
    ) -> Forked:
        log.touch()  # as a started process has it at once
        ask = {
            **what,
            "log": str(log),
            "output": str(output or log),
            "environment": dict(os.environ if environment is None else environment),
        }
        assert self._server.stdin is not None
        with self._asking:
            self._server.stdin.write(json.dumps(ask).encode() + b"\n")
            self._server.stdin.flush()
            with self._news:
                came = self._news.wait_for(lambda: self._pids, ANSWER_SECONDS)
                assert came, "the forge does not answer"
                pid = self._pids.pop()
        return Forked(Remote(self, pid), log)

    def code(self, pid: int, timeout: float) -> int | None:
        """Return how *pid* ended, None if it has not in time."""
        with self._news:
            self._news.wait_for(lambda: pid in self._codes, timeout)
            return self._codes.get(pid)

    def _listen(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            told = json.loads(line)
            with self._news:
                if "begun" in told:
                    self._pids.append(told["begun"])
                    self._codes.pop(told["begun"], None)  # of an older process with this id
                else:
                    self._codes[told["ended"]] = told["code"]
                self._news.notify_all()


FILTER = (
    "streamfilter.cli",
    "streamfilter.commands.run",
    "streamfilter.commands.filter",
    "streamfilter.kafka.service_start",
    "streamfilter.kafka.lifecycle.take_over",  # a start imports these two late
    "streamfilter.config.yaml_file",
)


def serve(modules: Sequence[str]) -> int:
    """Fork what is asked for until the input ends; in a child, return its exit code."""
    for module in modules or FILTER:
        importlib.import_module(module)
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    pending = b""
    while True:
        ready, _, _ = select.select([0, awake], [], [])
        if awake in ready:
            os.read(awake, 4096)
            _tell_ended()
        if 0 in ready:
            data = os.read(0, 1 << 20)
            if not data:
                return 0
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if (pid := os.fork()) == 0:
                    return _run(json.loads(line), (awake, wake))
                _tell({"begun": pid})


def _tell(what: Mapping[str, int]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def _tell_ended() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _tell({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def _run(ask: Mapping[str, Any], pipes: Sequence[int]) -> int:
    """Become the process that was asked for, and return its exit code."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    for pipe in pipes:
        os.close(pipe)
    log, output = (
        os.open(ask[name], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for name in ("log", "output")
    )
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, output), (2, log)):
        os.dup2(source, target)
    os.environ.clear()
    os.environ.update(ask["environment"])
    time.tzset()
    killpoints = importlib.import_module("streamfilter.killpoints")
    importlib.reload(killpoints)  # the same functions and globals, by the new environment
    if "code" in ask:
        exec(ask["code"], {})
        return 0
    cli = importlib.import_module("streamfilter.cli")
    code: int = cli.main(ask["arguments"])
    return code


if __name__ == "__main__":
    raise SystemExit(serve(sys.argv[1:]))
