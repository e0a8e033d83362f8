"""A stub of a schema registry: says what it is given, and remembers what it was asked."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

UNKNOWN = (404, {"error_code": 40403, "message": "Schema not found"})
SUBJECTS = "/subjects?limit=1"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    connections: ClassVar[list[socket.socket]] = []
    answers: ClassVar[dict[str, Any]] = {}
    given: ClassVar[list[Any]] = []
    asked: ClassVar[list[tuple[str, str | None]]] = []
    wait: ClassVar[threading.Event] = threading.Event()
    refused: ClassVar[set[str]] = set()
    clusters: ClassVar[list[str | None]] = []

    def setup(self) -> None:
        self.connections.append(self.request)
        super().setup()

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        self.clusters.append(self.headers["target-sr-cluster"])
        status, body = self.answers.get(self.path, UNKNOWN)
        if self.headers["Authorization"] in self.refused:
            status, body = 401, {"error_code": 401}
        if status == "hang":
            self.wait.wait(30)
            return
        self.send_response(status)
        if status == 302:
            self.send_header("Location", body)
            body = ""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        self.given.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # with 5, eight clients on a slow machine are dropped and begin again


@contextmanager
def serving(port: int = 0, *, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Answer on *port*, or a free one; then hang up on everyone, as a process that ends."""
    Handler.connections = []
    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server.server_port
    finally:
        Handler.wait.set()
        server.shutdown()
        server.server_close()
        for each in Handler.connections:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def url() -> Iterator[str]:
    Handler.answers, Handler.asked, Handler.wait = {SUBJECTS: (200, ["a"])}, [], threading.Event()
    Handler.given, Handler.refused, Handler.clusters = [], set(), []
    with serving() as port:
        yield f"http://127.0.0.1:{port}"
