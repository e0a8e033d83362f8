"""Calls of a schema registry: HTTP over connections that are kept, and every one of them bounded.

A call ends with the answer's status and content, or raises `SchemasAway`. A registry that was slow
to fail is not asked again for as long as that took: many tasks of a process share it, and would
wait one after the other.
"""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from streamfilter.documents.schemas import SchemasAway

SLOW_SECONDS = 1.0
BYTES_MAX = 4 << 20
"""Of an answer. Confluent's registry takes schemas of 1 MB, unless its topic takes more."""
CONNECTIONS_MAX = 8
IDLE_SECONDS = 30.0
"""A connection that was not used for longer is made anew: what stands between may have dropped it,
and then it would take the whole timeout to notice."""
MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class TooLarge(SchemasAway):
    """What was asked for is larger than we read."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where a registry is, and who we are to it."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    seconds: float = 5.0
    """The longest that an answer is waited for."""

    @property
    def authorization(self) -> str | None:
        """Return the header of that name."""
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.user is None:
            return None
        return _basic(self.user, self.password)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    reason: str
    content: bytes

    @property
    def error_code(self) -> object:
        """Return what a registry's own error says, None if the content is no such error."""
        try:
            content = json.loads(self.content)
        except ValueError:
            return None
        return content.get("error_code") if isinstance(content, dict) else None


class Calls:
    """Calls of one registry; any thread may make them."""

    def __init__(self, access: Access) -> None:
        """Connect to nothing yet.

        Raises:
            OSError: the file of the authority cannot be read.
        """
        self._access, self._url = access, urlsplit(access.url.rstrip("/"))
        self._context = ssl.create_default_context(cafile=access.ca_file)
        self._proxy = _proxy_for(self._url)
        self._idle: list[tuple[HTTPConnection, float]] = []
        """With the time since when each is not used, the latest last."""
        self._away_until, self._away_why = 0.0, ""

    def ask(self, path: str, *, body: object = None, enough: int = BYTES_MAX + 1) -> Reply:
        """Return the answer, of whose content *enough* bytes are as good as all.

        Raises:
            SchemasAway: there is none.
            TooLarge: it is larger than any that we read.
        """
        begun = time.monotonic()
        if begun < self._away_until:
            raise SchemasAway(self._away_why)
        url = f"{self._access.url.rstrip('/')}/{path}"
        try:
            answer = self._asked(f"{self._url.path}/{path}", body, enough)
        except (OSError, HTTPException, ValueError) as error:
            ended = time.monotonic()
            self._hang_up()
            self._away_why = f"{url}: {type(error).__name__} {error}"
            if ended - begun > SLOW_SECONDS:
                self._away_until = 2 * ended - begun
            raise SchemasAway(self._away_why) from None
        if len(answer.content) > BYTES_MAX:
            raise TooLarge(f"{url}: more than {BYTES_MAX:,} bytes")
        return answer

    def _asked(self, target: str, body: object, enough: int) -> Reply:
        kept = self._taken()
        if kept is not None:
            with suppress(ConnectionError, ssl.SSLError):  # the other end has closed it meanwhile
                return self._exchanged(kept, target, body, enough)
        return self._exchanged(self._connection(), target, body, enough)

    def _taken(self) -> HTTPConnection | None:
        """Return a connection that is not used, None if there is none, or it is too old."""
        with suppress(IndexError):  # another thread may be faster
            connection, since = self._idle.pop()
            if time.monotonic() - since < IDLE_SECONDS:
                return connection
            connection.close()
            self._hang_up()  # the others are older
        return None

    def _hang_up(self) -> None:
        """Close what is not used: where one connection is dead, its likes may be, too."""
        with suppress(IndexError):
            while True:
                self._idle.pop()[0].close()

    def _exchanged(
        self, connection: HTTPConnection, target: str, body: object, enough: int
    ) -> Reply:
        if self._proxy is not None and self._url.scheme == "http":
            target = f"http://{self._url.netloc}{target}"
        deadline = time.monotonic() + self._access.seconds
        try:
            content = None if body is None else json.dumps(body).encode()
            connection.request("POST" if content else "GET", target, content, self._headers(body))
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

    def _headers(self, body: object) -> dict[str, str]:
        headers = {"Accept": MEDIA_TYPE}
        if body is not None:
            headers["Content-Type"] = MEDIA_TYPE
        if self._access.authorization is not None:
            headers["Authorization"] = self._access.authorization
        if self._proxy is not None and self._url.scheme == "http":
            headers |= _to_proxy(self._proxy)
        return headers

    def _connection(self) -> HTTPConnection:
        to = self._proxy or self._url
        host, port, seconds = to.hostname or "", to.port, self._access.seconds
        if self._url.scheme == "http":
            return HTTPConnection(host, port, timeout=seconds)
        connection = HTTPSConnection(host, port, timeout=seconds, context=self._context)
        if self._proxy is not None:
            headers = _to_proxy(self._proxy)
            connection.set_tunnel(self._url.hostname or "", self._url.port, headers)
        return connection


def _content(response: HTTPResponse, enough: int, deadline: float) -> bytes:
    """Return the answer's content; of one that is too large, a byte more than is allowed."""
    content = bytearray()
    while len(content) < enough and (part := response.read1(1 << 16)):
        content += part
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end after {len(content)} bytes")
    return bytes(content)


def _proxy_for(url: SplitResult) -> SplitResult | None:
    """Return the proxy that the environment names for *url*."""
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
