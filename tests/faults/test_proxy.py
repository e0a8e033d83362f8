"""The proxy does to a connection what its name says, and nothing to the others."""

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from deploy.local.node import free_ports
from tests.faults.proxy import CLEAR, END_TXN, HOLE, ONE_WAY, PRODUCE, Proxy, Weather

PATIENCE = 120.0
"""Seconds that a busy machine may take to hand over a few bytes."""


class Echo:
    """A server that keeps what it gets and sends it back."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.received: list[bytes] = []
        self.some = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(65_536):
                with self.some:
                    self.received.append(data)
                    self.some.notify_all()
                connection.sendall(data)
        except OSError:
            pass

    def wait_for(self, data: bytes) -> None:
        with self.some:
            assert self.some.wait_for(lambda: data in b"".join(self.received), 10)

    def close(self) -> None:
        self._server.close()


def frame(api: int, body: bytes = b"body") -> bytes:
    return struct.pack(">ih", len(body) + 2, api) + body


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    port = free_ports(1)[0]
    with Proxy(port, echo.port) as proxy:
        yield proxy


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy._listen), timeout=PATIENCE)


def ask(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    answer = b""
    while len(answer) < len(data) and (more := client.recv(65_536)):
        answer += more
    return answer


def is_silent(client: socket.socket) -> bool:
    client.settimeout(0.3)
    try:
        return client.recv(1) == b"?"
    except TimeoutError:
        return True
    finally:
        client.settimeout(PATIENCE)


def test_what_is_sent_arrives_also_a_megabyte(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert ask(client, frame(PRODUCE)) == frame(PRODUCE)
        large = frame(PRODUCE, b"x" * 1_000_000)
        answer: list[bytes] = []
        reading = threading.Thread(target=lambda: answer.append(ask(client, large)))
        reading.start()
        reading.join(20)
        assert answer == [large]


def test_cut_ends_every_connection(proxy: Proxy) -> None:
    with connect(proxy) as client, connect(proxy) as other:
        ask(client, frame(PRODUCE))
        ask(other, frame(PRODUCE))
        assert proxy.cut() == 2
        for each in (client, other):
            with pytest.raises(ConnectionResetError):
                each.recv(1)


def test_a_hole_keeps_what_it_swallows_and_gives_it_back(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy) as client:
        ask(client, frame(PRODUCE))
        proxy.weather = HOLE
        client.sendall(frame(PRODUCE, b"late"))
        assert is_silent(client)
        assert b"late" not in b"".join(echo.received)
        proxy.weather = CLEAR
        assert client.recv(100) == frame(PRODUCE, b"late")


def test_one_way_requests_arrive_and_replies_do_not(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy) as client:
        proxy.weather = ONE_WAY
        client.sendall(frame(PRODUCE, b"heard"))
        echo.wait_for(b"heard")
        assert is_silent(client)


def test_latency_and_rate_take_their_time(proxy: Proxy) -> None:
    with connect(proxy) as client:
        proxy.weather = Weather(latency=0.2)
        begun = time.monotonic()
        ask(client, frame(PRODUCE))
        assert time.monotonic() - begun >= 0.4  # there and back
        proxy.weather = Weather(rate=20_000)
        ask(client, frame(PRODUCE, b"x" * 10_000))
        begun = time.monotonic()
        ask(client, frame(PRODUCE))
        assert time.monotonic() - begun >= 0.3  # behind the one before


def test_a_half_closed_connection_still_carries_requests(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy) as client:
        ask(client, frame(PRODUCE))
        proxy.half_close()
        assert client.recv(1) == b""
        client.sendall(frame(PRODUCE, b"one more"))
        echo.wait_for(b"one more")


def test_one_kind_of_request_is_held_and_arrives_after_the_client_hung_up(
    proxy: Proxy, echo: Echo
) -> None:
    trap = proxy.hold(END_TXN)
    with connect(proxy) as client, connect(proxy) as other:
        ask(client, frame(PRODUCE))
        client.sendall(frame(END_TXN, b"commit"))
        trap.wait(PATIENCE)
        client.close()
        assert ask(other, frame(PRODUCE)) == frame(PRODUCE)
        assert b"commit" not in b"".join(echo.received)
        trap.release()
        echo.wait_for(frame(END_TXN, b"commit"))


def test_a_reply_is_lost_after_its_request_was_heard(proxy: Proxy, echo: Echo) -> None:
    trap = proxy.mute_after(END_TXN)
    with connect(proxy) as client, connect(proxy) as other:
        client.sendall(frame(END_TXN, b"commit"))
        trap.wait(PATIENCE)
        echo.wait_for(b"commit")
        assert is_silent(client)
        assert ask(other, frame(PRODUCE)) == frame(PRODUCE)
        trap.release()
        assert client.recv(100) == frame(END_TXN, b"commit")


def test_new_connections_are_refused(proxy: Proxy, echo: Echo) -> None:
    proxy.weather = Weather(refusing=True)
    try:
        with connect(proxy) as client:
            assert ask(client, frame(PRODUCE)) == b""
    except ConnectionError:
        pass
    assert echo.received == []
