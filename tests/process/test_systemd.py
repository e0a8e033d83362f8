"""A ``Type=notify`` service: only systemd is notified that we are ready, alive and stopping."""

import os
import socket
import time

import pytest

from streamfilter.process.health import Health, State
from streamfilter.process.systemd import Notifier


class Systemd:
    """The listening end of NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self.environment = {"NOTIFY_SOCKET": address}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address[0] == "@" else address)
        self._socket.settimeout(60)

    def hear(self, line: str) -> list[str]:
        """Return what was said, up to the message with *line*; fail if no one says it."""
        deadline, said = time.monotonic() + 60, []
        while line not in said:
            said += self._socket.recv(4096).decode().splitlines()
            assert time.monotonic() < deadline, f"nobody said {line}"
        return said

    def everything(self) -> list[str]:
        """Return what was said and not heard yet."""
        self._socket.setblocking(False)
        said = []
        try:
            while True:
                said += self._socket.recv(4096).decode().splitlines()
        except BlockingIOError:
            self._socket.settimeout(60)
            return said


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    name = tmp_path / "notify"
    return Systemd(str(name) if request.param == "path" else f"@streamfilter-{os.urandom(8).hex()}")


def test_a_process_is_ready_once_it_has_left_starting_and_says_when_it_stops(systemd):
    health = Health()
    with Notifier(health, systemd.environment):
        systemd.hear("STATUS=starting")
        assert "READY=1" not in systemd.everything()
        health.enter(State.STANDBY, "waits for a\ntask")
        systemd.hear("READY=1")
    assert "STOPPING=1" in systemd.everything()


def test_the_status_is_one_line_whatever_the_detail_holds(systemd):
    health = Health()
    health.enter(State.RUNNING, "two\nREADY=0\nlines")
    with Notifier(health, systemd.environment):
        systemd.hear("STATUS=running two READY=0 lines")


def test_the_watchdog_is_fed_while_the_loop_turns(systemd):
    health = Health()
    with Notifier(health, {**systemd.environment, "WATCHDOG_USEC": "30000"}):
        systemd.hear("WATCHDOG=1")
        systemd.hear("WATCHDOG=1")


def test_the_watchdog_starves_when_the_loop_hangs(systemd):
    moment = [0.0]
    health = Health(bound_seconds=60, clock=lambda: moment[0])
    health.enter(State.RUNNING)
    moment[0] = 61.0
    with Notifier(health, {**systemd.environment, "WATCHDOG_USEC": "30000"}):
        assert "WATCHDOG=1" not in systemd.hear("READY=1")
        moment[0] = 0.0  # it turns again
        systemd.hear("WATCHDOG=1")


def test_a_watchdog_of_another_process_is_not_ours(systemd):
    health = Health()
    health.enter(State.RUNNING)
    theirs = {"WATCHDOG_USEC": "30000", "WATCHDOG_PID": "1"}
    with Notifier(health, {**systemd.environment, **theirs}):
        said = systemd.hear("READY=1")
    assert "WATCHDOG=1" not in said + systemd.everything()


def test_without_systemd_nothing_is_started():
    with Notifier(Health(), {}) as notifier:
        assert not notifier._thread.is_alive()


def test_a_socket_that_is_gone_is_no_reason_to_stop(tmp_path):
    with Notifier(Health(), {"NOTIFY_SOCKET": str(tmp_path / "nobody")}):
        pass
