"""HTTP requests to a schema registry, over connections that are kept alive; each has a time limit.

A call returns the answer's status and content, or raises `SchemasAway`. A registry that was slow
to fail gets no request for as long as the failure took: many tasks of a process share it, and would
wait one after the other.
"""

import json
import ssl
import time
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

from streamfilter.documents.codecs.schemas import SchemasAway

SLOW_SECONDS = 1.0
BYTES_MAX = 4 << 20
"""Bytes of an answer at most. Confluent's registry takes schemas of 1 MB, unless its topic takes
more."""
CONNECTIONS_MAX = 8
IDLE_SECONDS = 30.0
"""A connection that was idle for longer is replaced: a firewall or proxy may have dropped it, and
noticing that would take the whole timeout."""
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
FORM = "application/x-www-form-urlencoded"
UNAUTHORIZED = 401


class TooLarge(SchemasAway):
    """The answer is larger than the limit."""


@dataclass(frozen=True, slots=True)
class Access:
    """A registry's address, and the credentials for it."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None  # of us, with its key if there is no file of that
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    seconds: float = 5.0  # time limit for an answer

    @property
    def authorization(self) -> str | None:
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.user is None:
            return None
        return _basic(self.user, self.password)

    def context(self) -> ssl.SSLContext:
        """Return the settings of TLS from the files as they are now; raise `WrongFile`."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise WrongFile("ca_file", self.ca_file, error) from None
        if self.certificate_file is not None:
            try:
                # Without a password OpenSSL would ask for it at the terminal.
                password = self.key_password or ""
                context.load_cert_chain(self.certificate_file, self.key_file, lambda: password)
            except OSError as error:
                files = " and ".join(filter(None, (self.certificate_file, self.key_file)))
                raise WrongFile("certificate_file", files, error) from None
        return context


class WrongFile(OSError):
    """A file of certificates cannot be used."""

    def __init__(self, key: str, path: str | None, error: OSError) -> None:
        super().__init__(f"cannot use {path}: {error}")
        self.key, self.path, self.error = key, path, error


class Bearer(Protocol):
    """A source of tokens."""

    def current(self) -> str:
        """Return a valid token, or raise `SchemasAway`."""
        ...

    def refused(self, token: str) -> bool:
        """Return whether another token may be valid, now that *token* was refused."""
        ...


class Reply(Struct, frozen=True):
    """An answer of the registry."""

    status: int
    reason: str
    content: bytes

    @property
    def error_code(self) -> object:
        """Return the code of a registry's own error, None if the content is not such an error."""
        try:
            content = json.loads(self.content)
        except (ValueError, RecursionError):
            return None
        return content.get("error_code") if isinstance(content, dict) else None


class Calls:
    """Calls of one registry. Thread-safe."""

    def __init__(self, access: Access, bearer: Bearer | None = None) -> None:
        """Prepare, without a request; raise `WrongFile`."""
        self._access, self._url = access, urlsplit(access.url.rstrip("/"))
        self._bearer = bearer
        access.context()  # a wrong file is known at once
        self._proxy = _proxy_for(self._url)
        self._idle: list[tuple[HTTPConnection, float]] = []  # with the time of the last use
        self._away_until, self._away_why = 0.0, ""

    def ask(self, path: str, *, body: object = None, enough: int = BYTES_MAX + 1) -> Reply:
        """Return the answer, read up to *enough* bytes, or raise `SchemasAway`.

        A *body* of bytes is a form, any other one is JSON.
        """
        if self._bearer is None:
            return self._answered(path, body, enough, self._access.authorization)
        token = self._bearer.current()
        answer = self._answered(path, body, enough, f"Bearer {token}")
        if answer.status == UNAUTHORIZED and self._bearer.refused(token):
            answer = self._answered(path, body, enough, f"Bearer {self._bearer.current()}")
        return answer

    def _answered(self, path: str, body: object, enough: int, authorization: str | None) -> Reply:
        begun = time.monotonic()
        if begun < self._away_until:
            raise SchemasAway(self._away_why)
        url = f"{self._access.url.rstrip('/')}/{path}"
        try:
            content, headers = _request(body, authorization)
            headers |= dict(self._access.headers)
            answer = self._asked(f"{self._url.path}/{path}", content, headers, enough)
        except (OSError, HTTPException, ValueError) as error:
            ended = time.monotonic()
            self._hang_up()
            self._away_why = f"{url}: {type(error).__name__} {error}"
            if self._url.scheme == "https" and not isinstance(body, bytes) and _hung_up(error):
                self._away_why += (
                    "; if it demands a certificate, check input.registry.certificate_file"
                )
            if ended - begun > SLOW_SECONDS:
                self._away_until = 2 * ended - begun
            raise SchemasAway(self._away_why) from None
        if len(answer.content) > BYTES_MAX:
            raise TooLarge(f"{url}: more than {BYTES_MAX:,} bytes")
        return answer

    def _asked(
        self, target: str, content: bytes | None, headers: dict[str, str], enough: int
    ) -> Reply:
        kept = self._taken()
        if kept is not None:
            with suppress(ConnectionError, ssl.SSLError):  # the other end has closed it meanwhile
                return self._exchanged(kept, target, content, headers, enough)
        return self._exchanged(self._connection(), target, content, headers, enough)

    def _taken(self) -> HTTPConnection | None:
        """Return an idle connection, None if there is none or the newest one is too old."""
        with suppress(IndexError):  # another thread may be faster
            connection, since = self._idle.pop()
            if time.monotonic() - since < IDLE_SECONDS:
                return connection
            connection.close()
            self._hang_up()  # the others are older
        return None

    def _hang_up(self) -> None:
        """Close all idle connections: if one is dead, the others may be, too."""
        with suppress(IndexError):
            while True:
                self._idle.pop()[0].close()

    def _exchanged(
        self,
        connection: HTTPConnection,
        target: str,
        content: bytes | None,
        headers: dict[str, str],
        enough: int,
    ) -> Reply:
        if self._proxy is not None and self._url.scheme == "http":
            target = f"http://{self._url.netloc}{target}"
            headers = headers | _to_proxy(self._proxy)
        deadline = time.monotonic() + self._access.seconds
        try:
            connection.request("POST" if content else "GET", target, content, headers)
            response = connection.getresponse()
            answer = Reply(response.status, response.reason, _content(response, enough, deadline))
        except BaseException:
            connection.close()
            raise
        whole = response.isclosed() or response.length == 0
        response.close()
        if whole and not response.will_close and len(self._idle) < CONNECTIONS_MAX:
            self._idle.append((connection, time.monotonic()))
        else:
            connection.close()
        return answer

    def _connection(self) -> HTTPConnection:
        to = self._proxy or self._url
        host, port, seconds = to.hostname or "", to.port, self._access.seconds
        if self._url.scheme == "http":
            return HTTPConnection(host, port, timeout=seconds)
        connection = HTTPSConnection(host, port, timeout=seconds, context=self._access.context())
        if self._proxy is not None:
            headers = _to_proxy(self._proxy)
            connection.set_tunnel(self._url.hostname or "", self._url.port, headers)
        return connection


def _hung_up(error: Exception) -> bool:
    """Return whether the other end refused us: with TLS 1.3 it may also just close."""
    closed = (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError)
    return isinstance(error, closed) or "ALERT" in str(error).upper()


def _request(body: object, authorization: str | None) -> tuple[bytes | None, dict[str, str]]:
    """Return the content of a request, and its headers."""
    form = isinstance(body, bytes)
    headers = {"Accept": "application/json" if form else MEDIA_TYPE}
    if body is not None:
        headers["Content-Type"] = FORM if form else MEDIA_TYPE
    if authorization is not None:
        headers["Authorization"] = authorization
    content = (
        body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    )
    return content, headers


def _content(response: HTTPResponse, enough: int, deadline: float) -> bytes:
    """Return the answer's content; reading stops once there are *enough* bytes."""
    content = bytearray()
    while len(content) < enough and (part := response.read1(1 << 16)):
        content += part
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end after {len(content)} bytes")
    return bytes(content)


def _proxy_for(url: SplitResult) -> SplitResult | None:
    proxy = getproxies().get(url.scheme)
    if not proxy or proxy_bypass(url.hostname or ""):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _to_proxy(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    password = unquote(proxy.password or "")
    return {"Proxy-Authorization": _basic(unquote(proxy.username), password)}


def _basic(user: str, password: str | None) -> str:
    return "Basic " + b64encode(f"{user}:{password or ''}".encode()).decode()
