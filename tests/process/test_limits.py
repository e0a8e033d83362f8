"""Too few threads or files: refused before anything is touched; later, a clear end."""

import json
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.web import http as window
from streamfilter.monitoring.web.pages import Pages
from streamfilter.process import limits
from streamfilter.process.health import Health
from streamfilter.process.limits import (
    ADDRESS_BYTES_MIN,
    FILES_MIN,
    THREADS_MIN,
    groups_of,
    problems_of,
)
from streamfilter.stops import ConfigError, Stop, starved

RUN = [sys.executable, "-m", "streamfilter", "run", "--set", "http.port=0"]
LIMITS = {
    "RLIMIT_NPROC": (THREADS_MIN - 1, "limit of threads"),
    "RLIMIT_NOFILE": (FILES_MIN - 1, "limit of open files"),
    "RLIMIT_AS": (ADDRESS_BYTES_MIN - 1, "limit of address space"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_run_refuses_a_small_limit_and_names_number_and_cure(tmp_path: Path, name: str) -> None:
    limit, words = LIMITS[name]

    def lowered() -> None:
        resource.setrlimit(getattr(resource, name), (limit, limit))

    # It is refused before it has started a thread, and numpy is kept from starting one.
    done = subprocess.run(
        RUN, preexec_fn=lowered, cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 78, done.stderr
    assert words in done.stderr
    assert f" {limit} " in done.stderr
    assert "cure: " in done.stderr
    assert "ulimit" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("limit", "used", "wrong"), [
    (THREADS_MIN, 0, False), (THREADS_MIN - 1, 0, True),
    (4_000, 4_000 - THREADS_MIN, False), (4_000, 4_001 - THREADS_MIN, True),
])  # fmt: skip
def test_what_runs_already_takes_room(limit: int, used: int, wrong: bool) -> None:
    found = list(problems_of(limit, used, whose="this user", cure="ulimit -u"))
    assert bool(found) is wrong
    assert all(f"{limit} threads and has {used} now" in str(problem) for problem in found)


@pytest.mark.parametrize(("listing", "place"), [
    ("0::/pod/container\n", "pod"), ("4:memory:/x\n8:pids:/pod/container\n0::/\n", "pids/pod"),
])  # fmt: skip
def test_the_control_groups_above_count_too(tmp_path, monkeypatch, listing, place):
    mounted = tmp_path / "cgroup"
    above = mounted / place
    (above / "container").mkdir(parents=True)
    (above / "container" / "pids.max").write_text("max\n")
    (above / "container" / "pids.current").write_text("9\n")
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(listing)
    monkeypatch.setattr(limits, "CGROUPS", mounted)
    monkeypatch.setattr(limits, "PROCESSES", tmp_path)
    assert above in list(groups_of(tmp_path / "self" / "cgroup", mounted))
    assert not list(limits._threads_of_the_groups(limits.ONE))
    (above / "pids.max").write_text("100\n")
    (above / "pids.current").write_text("30\n")
    (problem,) = limits._threads_of_the_groups(limits.ONE)
    assert "may have 100 threads and has 30 now" in str(problem)
    assert "TasksMax=" in problem.cure


def test_no_thread_later_is_a_temporary_end_and_no_bug() -> None:
    script = (
        "import sys, threading\n"
        "from streamfilter import cli\n"
        "from streamfilter.monitoring.web.http import Server\n"
        'def refuse(self): raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = refuse\n"
        "sys.exit(cli.main(['run', '--set', 'http.port=0']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 75, done.stderr
    assert "the system gave no thread" in done.stderr
    assert "bug" not in done.stderr


def test_a_library_s_words_for_it_are_known_wherever_they_stand() -> None:
    inner = OSError("Unable to create broker thread")
    outer = Stop("begins again")
    outer.__cause__ = inner
    assert starved(outer)
    assert not starved(Stop("no broker answered"))


def test_requests_without_a_thread_use_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    health = Health()
    with window.Server("127.0.0.1", 0, pages=Pages(health, Metrics(health))) as server:

        def ask() -> bytes:
            with socket.create_connection(server.address, timeout=30) as client:
                client.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
                return b"".join(iter(lambda: client.recv(65_536), b""))

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(2 * window.REQUESTS_MAX):
                assert ask() == b""
        assert json.loads(ask().partition(b"\r\n\r\n")[2])["live"] is True


@pytest.mark.slow
def test_a_port_in_use_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*RUN, "--set", f"http.port={port}"],
            cwd=tmp_path, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 78, done.stderr
    assert f"http.port: cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "cure: choose a free one" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_no_limit_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    monkeypatch.setattr(limits, "_threads_of_the_groups", lambda _: iter(()))
    limits.refuse_small_limits()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (3, 3))
    with pytest.raises(ConfigError) as refused:
        limits.refuse_small_limits()
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(("hard", "raised"), [(4_096, 604), (604, 604), (603, None)])
def test_many_tasks_raise_the_limit_of_open_files_or_are_refused(monkeypatch, hard, raised):
    """Eight tasks on one broker need more than a shell's 256, and clients wait without sockets."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    for threads in ("_threads_of_the_user", "_threads_of_the_groups"):
        monkeypatch.setattr(limits, threads, lambda _: iter(()))
    monkeypatch.setattr(limits, "_address_space", lambda: iter(()))
    if raised is None:
        with pytest.raises(ConfigError, match="may open 603 files; expected at least 604"):
            limits.refuse_small_limits(limits.Need(8, 1))
        return
    limits.refuse_small_limits(limits.Need(8, 1))
    assert asked == [(raised, hard)]


def test_the_need_of_many_tasks_covers_what_they_were_seen_to_open() -> None:
    """64 tasks on one broker: 2,324 files at a restore, and 528 threads."""
    assert (limits.Need(1, 3).files, limits.Need(1, 3).threads) == (FILES_MIN, THREADS_MIN)
    assert limits.Need(64, 1).files >= 2_324
    assert limits.Need(64, 1).threads >= 528
    assert limits.Need(4, 3).files >= 185
