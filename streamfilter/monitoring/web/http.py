"""The HTTP server: it changes nothing, and is bounded. Its pages are in `pages`.

It is HTTP/1.0 from the standard library, with one thread for each request. The number of requests
is bounded, and each has a deadline. If all places are taken, a new request replaces the one that
has waited longest. Slow clients must not block the probes, because the orchestrator would then kill
a process that works.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from msgspec import Struct

from streamfilter.monitoring.web.pages import EXPLAIN, OPEN, QUERY, Answer, Pages
from streamfilter.monitoring.web.questions import BODY_BYTES_MAX
from streamfilter.stops import ConfigError, Problem

ANY = "*"
PRIVATE = (".localhost", ".local", ".internal", ".svc")
"""Suffixes that cannot be registered: this host, private networks, Kubernetes."""


class AllowedHosts:
    """Decides by a request's Host header: protects the pages against DNS rebinding.

    A page of evil.example may point its own name to 127.0.0.1 after it is loaded, and then read our
    answers. The request still has the Host evil.example. Addresses, names without a dot and names
    that cannot be registered are never such a domain. The operator must allow any other name.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Allow *names* in addition to those that are always allowed; ``*`` allows any."""
        self._names = {*map(str.lower, names), socket.gethostname().lower()}

    def allows(self, header: str | None) -> bool:
        """Return whether to answer a request with this Host *header*.

        A request without one is answered, because browsers always send it.
        """
        if header is None or ANY in self._names:
            return True
        name = _without_port(header.strip().lower()).rstrip(".")
        if "." not in name or name in self._names or name.endswith(PRIVATE):
            return True
        return _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


REQUESTS_MAX = 16  # at once; a scraper, two probes and a person need four
REQUEST_SECONDS_MAX = 10.0
READ_SECONDS_MAX = 5.0
UNREAD_BYTES, UNREAD_PIECES_MAX = 1 << 16, 64  # read and dropped behind a refusal
LEAVING_SECONDS_MAX = 1.0  # until the thread of a connection that we hung up on has noticed
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""If a mistake of ours puts a script of a document's text into a page, browsers do not run it."""


REFUSED_SITE = b"a page of another site asks; only the page of this process may\n"
REFUSED = b"this host name is not allowed; http.allowed_hosts names those that are\n"


class Server:
    """Serves `Pages` from a daemon thread until closed."""

    def __init__(
        self, host: str, port: int, *, pages: Pages, allowed_hosts: Iterable[str] = ()
    ) -> None:
        """Listen at once, so that a port in use is reported before any work begins.

        Raises `ConfigError`: the address cannot be used.
        """
        try:
            self._server = _Bounded(host, port, pages, AllowedHosts([host, *allowed_hosts]))
        except (OSError, UnicodeError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "not an address"
            key, cure = "http.port", "choose a free one with --set http.port=…; 0 takes any"
            elsewhere = getattr(error, "errno", None) == errno.EADDRNOTAVAIL
            if elsewhere or isinstance(error, socket.gaierror):
                key, cure = "http.host", "name an address of this host; 0.0.0.0 is all of them"
            problem = Problem(key, f"cannot listen on {host}:{port}: {reason}", cure)
            raise ConfigError([problem]) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="http",
            daemon=True,
        )
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
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


class _Visit(Struct, eq=False):
    """A connection that takes one of the places."""

    connection: socket.socket
    since: float
    heard: bool = False
    """The request was read completely: from now on the client waits for the server."""
    ended: bool = False

    def end(self) -> None:
        """Shut the connection down; reads and writes on it then end at once."""
        self.ended = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # already closed


class _Bounded(ThreadingHTTPServer):
    """At most `REQUESTS_MAX` requests at once, each with a deadline; the slowest is replaced."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, host: str, port: int, pages: Pages, hosts: AllowedHosts) -> None:
        self.pages, self.hosts, self._history = pages, hosts, pages.history
        self._visits: dict[Any, _Visit] = {}
        self._changed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind without the standard library's look-up of the host name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def service_actions(self) -> None:
        """Shut down connections that are past the deadline, and take the page's sample.

        It is called ten times a second.
        """
        self._history.look()
        with self._changed:
            for visit in self._visits.values():
                if time.monotonic() - visit.since > REQUEST_SECONDS_MAX and not visit.ended:
                    visit.end()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._admitted(request):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread available: only this request gets no answer
            self._gone(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._gone(request)

    def heard(self, request: Any) -> None:
        """Note that *request* was read completely: incomplete requests are replaced first."""
        with self._changed:
            self._visits[request].heard = True

    def _admitted(self, request: Any) -> bool:
        """Give *request* a place, if necessary that of the request that has waited longest."""
        with self._changed:
            if not self._room():
                staying = [visit for visit in self._visits.values() if not visit.ended]
                if staying:
                    min(staying, key=lambda visit: (visit.heard, visit.since)).end()
                if not self._changed.wait_for(self._room, timeout=LEAVING_SECONDS_MAX):
                    return False
            self._visits[request] = _Visit(request, time.monotonic())
            return True

    def _room(self) -> bool:
        return len(self._visits) < REQUESTS_MAX

    def _gone(self, request: Any) -> None:
        with self._changed:
            del self._visits[request]
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a disconnected client is no event, and its bytes must not be logged."""


class _Handler(BaseHTTPRequestHandler):
    """Reads one request, answers and closes; the standard library bounds its line and headers."""

    server: _Bounded
    timeout = READ_SECONDS_MAX
    server_version = "streamfilter"
    sys_version = ""
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_POST(self) -> None:
        """Answer a question of a program, which has the token."""
        answer = self._asked()
        if answer is not None:
            self._send(answer, with_body=True)
            # Closing a connection with unread bytes would take the answer from the client.
            self.connection.shutdown(socket.SHUT_WR)
            for _ in range(UNREAD_PIECES_MAX):
                if not self.rfile.read1(UNREAD_BYTES):
                    break

    def _answer(self, *, with_body: bool) -> None:
        self.server.heard(self.connection)
        self._send(self._found(), with_body=with_body)

    def _send(self, answer: Answer, *, with_body: bool) -> None:
        code, content_type, body = answer
        self.send_response(code)
        if code == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _found(self) -> Answer:
        """Return the answer; a foreign host name is refused, except for the `OPEN` pages."""
        path = self.path.partition("?")[0]
        if not self._allowed and path not in OPEN:
            return 403, self.error_content_type, REFUSED
        site = self.headers.get("Sec-Fetch-Site", "none")  # browsers set it; no page can change it
        if path == EXPLAIN and site not in ("none", "same-origin"):
            return 403, self.error_content_type, REFUSED_SITE
        return self.server.pages.answer(self.path, self.headers.get("Accept", ""))

    @property
    def _allowed(self) -> bool:
        return self.server.hosts.allows(self.headers.get("Host"))

    def _asked(self) -> Answer | None:
        """Return the answer to a posted question; None: the client sent less than it promised.

        Only a client with the token makes the server read, and at most `BODY_BYTES_MAX`.
        """
        pages = self.server.pages
        path, _, query = self.path.partition("?")
        if path != QUERY:
            return 405, self.error_content_type, b"POST is for /query only\n"
        if not self._allowed:
            return 403, self.error_content_type, REFUSED
        refused = pages.refused(self.headers.get("Authorization"))
        if refused is not None:
            return refused
        lengths = self.headers.get_all("Content-Length", [])
        chunks = "Transfer-Encoding" in self.headers  # they would be read as a part of the text
        if chunks or len(lengths) != 1 or not re.fullmatch("[0-9]{1,9}", lengths[0]):
            return 411, self.error_content_type, b"send one Content-Length, and no chunks\n"
        if (length := int(lengths[0])) > BODY_BYTES_MAX:
            return 413, self.error_content_type, f"at most {BODY_BYTES_MAX:,} bytes\n".encode()
        body = self.rfile.read(length)
        if len(body) < length:
            return None
        self.server.heard(self.connection)
        return pages.queried(query, self.headers.get("Content-Type", ""), body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing: a probe every few seconds would flood the log."""
