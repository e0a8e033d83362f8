"""The process's window: ``/metrics``, ``/livez``, ``/readyz``, ``/status``; read-only, bounded.

Plain HTTP/1.0 from the standard library, one thread a request, at most a few at once, each with
a deadline for the whole of it: a client that sends a byte a minute must not keep the probes
waiting. Nothing here asks the broker or the index; it shows what the loop last reported.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

import streamfilter
from streamfilter.health import Health
from streamfilter.metrics import Metrics
from streamfilter.stops import ConfigError, Problem

REQUESTS_MAX = 16  # at once; a scraper, two probes and a person need four
REQUEST_SECONDS_MAX = 10.0
READ_SECONDS_MAX = 5.0

Answer = tuple[int, str, bytes]
"""Status code, content type, body."""


class Pages:
    """What each path answers; knows no sockets."""

    def __init__(self, health: Health, metrics: Metrics) -> None:
        self._health = health
        self._metrics = metrics
        self._table: dict[str, Callable[[str], Answer]] = {
            "/metrics": self._scrape,
            "/livez": self._live,
            "/readyz": self._ready,
            "/status": self._status,
        }

    def answer(self, path: str, accept: str = "") -> Answer:
        """Return the answer for *path*, whatever its query."""
        page = self._table.get(path.partition("?")[0])
        if page is None:
            return _json(404, {"error": "no such page", "pages": sorted(self._table)})
        return page(accept)

    def _scrape(self, accept: str) -> Answer:
        content_type, body = self._metrics.expose(accept)
        return 200, content_type, body

    def _live(self, accept: str) -> Answer:
        live = self._health.liveness
        told = {
            "live": live.alive,
            "reason": live.reason,
            "heartbeat_age_seconds": round(live.age_seconds, 3),
            "bound_seconds": live.bound_seconds,
        }
        return _json(200 if live.alive else 503, told)

    def _ready(self, accept: str) -> Answer:
        status, ready = self._health.status, self._health.ready
        told = {"ready": ready, "state": status.state, "detail": status.detail}
        return _json(200 if ready else 503, told)

    def _status(self, accept: str) -> Answer:
        status, live = self._health.status, self._health.liveness
        told = {
            "version": streamfilter.__version__,
            "state": status.state,
            "detail": status.detail,
            "ready": self._health.ready,
            "live": live.alive,
            "uptime_seconds": round(self._health.uptime_seconds, 1),
            "scheme": status.scheme,
            "index_id": status.index_id,
            "tasks": list(status.tasks),
            "positions": dict(status.positions),
            "lag": dict(status.lag),
            "verdicts": self._metrics.verdicts(),
            "index_documents": status.documents,
            "restore_remaining_records": status.restore_remaining,
        }
        return _json(200, told)


class Server:
    """Serves `Pages` from a daemon thread until closed."""

    def __init__(self, host: str, port: int, *, health: Health, metrics: Metrics) -> None:
        """Listen at once, so that a port in use is known before any work begins.

        Raises:
            ConfigError: if the address cannot be had.
        """
        try:
            self._server = _Bounded(host, port, Pages(health, metrics))
        except (OSError, UnicodeError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "not an address"
            cure = "choose a free one with --set http.port=…; 0 takes any"
            problem = Problem("http.port", f"cannot listen on {host}:{port}: {reason}", cure)
            raise ConfigError([problem]) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="http",
            daemon=True,
        )  # fmt: skip
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and port in use."""
        host, port = self._server.socket.getsockname()[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Stop listening. Requests under way end by themselves or with the process."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2.0)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Bounded(ThreadingHTTPServer):
    """At most `REQUESTS_MAX` at once (more are hung up on), each within its deadline."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        self.pages = pages
        self._free = threading.BoundedSemaphore(REQUESTS_MAX)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without the standard library's look-up of our own name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        deadline = threading.Timer(REQUEST_SECONDS_MAX, _hang_up, (request,))
        deadline.daemon = True
        deadline.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: a client that went away is no event, and its bytes are not ours to log."""


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it ended by itself


class _Handler(BaseHTTPRequestHandler):
    """Reads one request (the standard library bounds its line and headers), answers, hangs up."""

    server: _Bounded
    timeout = READ_SECONDS_MAX
    server_version = "streamfilter"
    sys_version = ""
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        """Answer with headers and body."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer with headers only."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        code, content_type, body = self.server.pages.answer(
            self.path, self.headers.get("Accept", "")
        )
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing: a probe every few seconds would drown the log."""


def _json(code: int, value: object) -> Answer:
    body = json.dumps(value, indent=2, ensure_ascii=True).encode() + b"\n"
    return code, "application/json", body
