"""Notifies systemd of a ``Type=notify`` service: ready, alive, stopping, and a status.

It sends datagrams to the socket in NOTIFY_SOCKET; without that variable it does nothing. It sends
watchdog beats while the loop's heartbeat is recent, whatever the broker does, like ``/livez``.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping

from streamfilter.process.health import Health, State
from streamfilter.process.logs import MASKER

TURN_SECONDS_MAX = 1.0
TURNS_PER_WATCHDOG = 3  # systemd recommends 2; with 3 one may be late


class Notifier:
    """Reports *health* to systemd from its own thread, inside a ``with`` block."""

    def __init__(self, health: Health, environment: Mapping[str, str] = os.environ) -> None:
        """Read systemd's variables in *environment*; ignore a watchdog for another process."""
        self._health = health
        self._address = environment.get("NOTIFY_SOCKET", "")
        mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._watchdog = int(environment.get("WATCHDOG_USEC", "0")) / 1e6 if mine else 0.0
        self._ready, self._sent = False, ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="systemd", daemon=True)

    def __enter__(self) -> Notifier:
        if self._address:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._address:
            self._stop.set()
            self._thread.join(timeout=2 * TURN_SECONDS_MAX)
            self._send("STOPPING=1")

    def _watch(self) -> None:
        turn = min(TURN_SECONDS_MAX, self._watchdog / TURNS_PER_WATCHDOG or TURN_SECONDS_MAX)
        while not self._stop.is_set():
            if lines := self._lines():
                self._send("\n".join(lines))
            self._stop.wait(turn)

    def _lines(self) -> list[str]:
        """Return the new messages: a process that waits for its broker is not ready yet."""
        status, lines = self._health.status, []
        if not self._ready and status.state is not State.STARTING:
            self._ready = True
            lines.append("READY=1")
        said = MASKER.mask(" ".join(f"{status.state} {status.detail}".split()))
        if said != self._sent:
            self._sent = said
            lines.append(f"STATUS={said}")
        if self._watchdog and self._health.liveness.alive:
            lines.append("WATCHDOG=1")
        return lines

    def _send(self, message: str) -> None:
        # "@" stands for the zero byte at the start of an abstract address.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
                speaker.settimeout(TURN_SECONDS_MAX)
                speaker.sendto(message.encode(), address)
        except OSError:
            return  # no listener: systemd decides about a missing watchdog beat
