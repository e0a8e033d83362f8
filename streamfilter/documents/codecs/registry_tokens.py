"""OAuth tokens for a schema registry, by the grant of client credentials (RFC 6749, section 4.4).

A token is renewed after four fifths of its lifetime, and once if the registry refuses it. While the
endpoint is away, the old token is used for the rest of its lifetime. Without a valid token the
registry counts as away: records wait.
"""

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode, urlsplit

from streamfilter.documents.codecs.registry_calls import Access, Calls, Reply
from streamfilter.documents.codecs.schemas import SchemasAway, SchemasWithheld

USED_SHARE = 0.8  # of a token's lifetime
PAUSE_SECONDS = 10.0
"""After a failure the endpoint is not asked for so long: it may lock out a client that insists."""
YOUNG_SECONDS = 30.0  # a token that is refused sooner is not renewed: another would not help
BYTES_MAX = 64 << 10  # of an answer
SHOWN_MAX = 200  # characters of the endpoint's own words
LATER = (408, 425, 429)  # statuses below 500 that do not say that our settings are wrong
_TOKEN = re.compile(r"[!-~]+")  # fit for a header


@dataclass(frozen=True, slots=True)
class Client:
    """A client of an identity provider, and the provider's token endpoint."""

    token_url: str
    id: str
    secret: str = field(repr=False)
    scope: str | None = None
    ca_file: str | None = None
    seconds: float = 5.0  # time limit for an answer


class ClientTokens:
    """The tokens of one client. Thread-safe: one thread renews, and the others wait for it."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare, without a request; raise `OSError` for a wrong file of authorities."""
        self._client, self._clock = client, clock
        place = urlsplit(client.token_url)
        self._path = place.path.removeprefix("/")
        self._calls = Calls(
            Access(
                f"{place.scheme}://{place.netloc}",
                user=quote_plus(client.id),  # so RFC 6749, section 2.3.1
                password=quote_plus(client.secret),
                ca_file=client.ca_file,
                seconds=client.seconds,
            )
        )
        given = {"grant_type": "client_credentials"}
        self._form = urlencode(given | ({"scope": client.scope} if client.scope else {})).encode()
        self._lock = threading.Lock()
        self._token = ""
        self._since = self._renewed_at = self._ends = self._paused_until = 0.0
        self._failure: SchemasAway | None = None

    def current(self) -> str:
        """Return a valid token, or raise `SchemasAway`."""
        with self._lock:
            now = self._clock()
            if not self._token or now >= self._renewed_at:
                self._renew(now)
            if self._failure is not None and (not self._token or now >= self._ends):
                raise type(self._failure)(str(self._failure))
            return self._token

    def refused(self, token: str) -> bool:
        """Return whether another token may be valid, now that the registry has refused *token*."""
        with self._lock:
            if token == self._token:
                if self._clock() - self._since < YOUNG_SECONDS:
                    return False
                self._token = ""
            return True

    def _renew(self, now: float) -> None:
        if self._failure is not None and now < self._paused_until:
            return
        try:
            answer = self._calls.ask(self._path, body=self._form, enough=BYTES_MAX + 1)
            self._token, life = self._taken_from(answer)
        except SchemasAway as failure:
            self._failure, self._paused_until = failure, self._clock() + PAUSE_SECONDS
            return
        self._failure, self._since = None, now
        self._renewed_at, self._ends = now + USED_SHARE * life, now + life

    def _taken_from(self, answer: Reply) -> tuple[str, float]:
        """Return the token in an *answer*, and its lifetime in seconds."""
        what = f"{self._client.token_url}: HTTP {answer.status} {answer.reason}"
        fields: object = None
        if len(answer.content) <= BYTES_MAX:
            with suppress(ValueError, RecursionError):
                fields = json.loads(answer.content)
        found = fields if isinstance(fields, dict) else {}
        if answer.status != 200:
            said = [str(found[each]) for each in ("error", "error_description") if each in found]
            why = ascii(": ".join(["", *said]))[1:-1]
            if self._client.secret:
                why = why.replace(self._client.secret, "********")
            why = what + why[:SHOWN_MAX]
            if not 400 <= answer.status < 500 or answer.status in LATER:
                raise SchemasAway(why)
            raise SchemasWithheld(
                f"{why}; check token_url, client_id, client_secret and scope of "
                "input.registry.oauth"
            )
        token = found.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise SchemasAway(f"{what}, but the answer holds no access_token")
        try:
            life = float(found.get("expires_in", "inf"))  # else until the registry refuses it
        except (TypeError, ValueError, OverflowError):
            life = float("nan")
        if life != life:
            raise SchemasAway(f"{what}, but its expires_in is no number")
        return token, life
