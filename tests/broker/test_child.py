import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streamfilter.demo.running_filter import Child

PATIENCE_SECONDS = 120


@pytest.fixture
def start(tmp_path):
    children = []

    def start_shell(script: str) -> Child:
        children.append(Child(["/bin/sh", "-c", script], log=tmp_path / "log"))
        return children[-1]

    yield start_shell
    for child in children:
        child.kill()


def test_its_output_and_its_exit_code_are_kept(start):
    child = start("echo out; echo err >&2; exit 7")
    assert child.wait(PATIENCE_SECONDS) == 7
    assert child.log.read_text() == "out\nerr\n"


def test_one_that_does_not_heed_the_request_to_stop_is_killed(start):
    child = start("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    while "ready" not in child.log.read_text():
        time.sleep(0.01)
    assert child.stop(timeout_seconds=0.2) == -signal.SIGKILL


def test_a_paused_one_can_be_killed(start):
    child = start("sleep 60")
    child.pause()
    assert child.exit_code is None
    assert child.kill() == -signal.SIGKILL


def test_killing_what_has_ended_is_harmless(start):
    child = start("exit 0")
    assert child.wait(PATIENCE_SECONDS) == 0
    assert child.kill() == 0


def test_it_does_not_outlive_a_parent_that_is_killed(tmp_path):
    story = (
        "import os, signal, sys; from pathlib import Path\n"
        "from streamfilter.demo.running_filter import Child\n"
        "child = Child(['/bin/sleep', '600'], log=Path(sys.argv[1]))\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", story, str(tmp_path / "log")]
    parent = subprocess.run(command, stdout=subprocess.PIPE, timeout=60)
    assert parent.returncode == -signal.SIGKILL
    deadline = time.monotonic() + PATIENCE_SECONDS
    while is_running(int(parent.stdout), "sleep"):
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.05)


def is_running(pid: int, name: str) -> bool:
    try:
        os.kill(pid, 0)
        return name in Path(f"/proc/{pid}/cmdline").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
